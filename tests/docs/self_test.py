"""What is wrong in a page is noticed: planted in a copy of the quick start, and in small pages."""

import contextlib
import io
from unittest import mock

import run
from shell import ROOT

QUICK_START = "docs/quick-start.md"
ECHO = "```sh\necho one; echo two\n#  {}\n```\n"
EXIT = "```sh\n(exit 3)\n#  exit status {}\n```\n"


def check_the_checker(results):
    page = (ROOT / QUICK_START).read_text().split("\n## 3.")[0]
    failing = page + "\n```sh\nlockkeeper no-such-command\n```\n"
    expect(results, "a failing command", failing, fails="no-such-command: exit status 64")
    wrong = page.replace("#  mine now", "#  yours now")
    expect(results, "a wrong output", wrong, fails="echo mine now: it does not print")
    ended = page.replace("make run\n", "make run ARGS=--no-such-option\n")
    with mock.patch.object(run, "PRINTS_WITHIN", 5):
        expect(results, "a server that ends", ended, fails="--no-such-option: it has ended")
    expect(results, "too little output", ECHO.format("one"), fails="does not print")
    expect(results, "too much output", ECHO.format("one\n#  two\n#  three"), fails="does not print")
    expect(results, "the same output", ECHO.format("o…e\n#  two"))
    expect(results, "any lines", ECHO.format("…"))
    expect(results, "another status", EXIT.format(4), fails="exit status 3")
    expect(results, "the same status", EXIT.format(3))
    expect(results, "no end", "```sh\necho 'one\n```\n", fails="does not end")
    expect(results, "a mark without a reason", "<!-- not run -->\n```sh\nx\n```\n", fails="no mark")
    expect(results, "a block that is not run", "<!-- not run: why -->\n```sh\nx\n```\n", not_run=1)
    excerpt = "<!-- an excerpt of examples/python/cron.py -->\n```rust\n{}\n```\n"
    expect(results, "an excerpt", excerpt.format("import os\nimport sys"))
    expect(results, "another", excerpt.format("import os\nimport re"), fails="has no such lines")
    run.TOOLS.append("no-such-tool")
    missing = "## A\n```sh\nno-such-tool x\n```\n```sh\ny\n```\n"
    expect(results, "a missing tool", missing, skipped=2)
    expect(results, "no address is set", '```sh\n[ -z "$LOCKKEEPER_SERVER" ]\n```\n')
    expect(results, "Python", "```python\nfor i in (1, 2):\n    print(i)\n#  1\n#  2\n```\n")


def expect(results, what, text, fails="", not_run=0, skipped=0):
    """Runs a page, and checks how its first failure begins, and what was counted. Its lines are
    printed only if that is wrong."""
    found, lines = run.Results(), io.StringIO()
    with contextlib.redirect_stdout(lines):
        run.run_page("planted", text, found)
    failed = [line for line in lines.getvalue().split("\n") if line.startswith("FAILED")]
    as_expected = fails in failed[0] if fails and failed else not fails and not failed
    counted = (found.not_run, len(found.skipped)) == (not_run, skipped)
    results.add(f"self-test: {what}", "" if as_expected and counted else lines.getvalue())
