"""Runs the command blocks of the pages as they stand: see pages.py for what a page can say."""

import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pages
from shell import ROOT, Clone, Shell, wait_until

PAGES = (
    "README.md",
    "docs/quick-start.md",
    "examples/README.md",
    *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs/recipes").glob("*.md")),
)
# Programs that a machine need not have. A section that needs a missing one is skipped.
TOOLS = (
    "curl docker go helm java kubectl make mvn node npm openssl psql python3 redis-server".split()
)
# Pages wait most of the time.
AT_ONCE = 3
# How long what goes on may take to print what the page says.
PRINTS_WITHIN = 60
OFFLINE = re.compile(
    "Temporary failure in name resolution|Could not resolve host|Could not transfer artifact|"
    "No matching distribution|ENOTFOUND|EAI_AGAIN|dial tcp|Network is unreachable"
)


@dataclass
class Results:
    passed: int = 0
    failed: int = 0
    not_run: int = 0
    skipped: list = field(default_factory=list)

    def add(self, place, problem):
        if problem:
            self.failed += 1
            print(f"FAILED {place}: {problem}", flush=True)
        else:
            self.passed += 1
            print(f"ok {place}", flush=True)

    def add_all(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.not_run += other.not_run
        self.skipped += other.skipped


class Offline(Exception):
    """A registry cannot be reached."""


class Run:
    """One page, in a clone of its own: a shell for its blocks, and a terminal beside it."""

    def __init__(self, name, clone, results):
        self.name, self.clone, self.results = name, clone, results
        self.shell = Shell(clone)
        self.terminal = None
        self.count = 0

    def page(self, text):
        try:
            missing = None  # What the rest of this section cannot do without, and the section.
            for block in pages.blocks(text):
                if block.reason:
                    self.results.not_run += 1
                    print(f"not run {self.place(block)}: {block.reason}")
                    continue
                if block.excerpt_of:
                    self.results.add(self.place(block), missing_lines(block))
                    continue
                if not missing or missing[1] != block.section:
                    tool = missing_tool(block.text)
                    missing = (f"{tool} is not installed", block.section) if tool else None
                if not missing:
                    try:
                        self.block(block)
                    except Offline as reason:
                        missing = (f"no network: {reason}", block.section)
                if missing:
                    self.results.skipped.append(f"{self.place(block)}: {missing[0]}")
        except pages.BadPage as bad:
            self.results.add(self.name, str(bad))
        finally:
            for shell in filter(None, (self.shell, self.terminal)):
                shell.end()

    def place(self, it):
        return f"{self.name}:{it.line}"

    def block(self, block):
        shell = self.shell
        if block.in_terminal:
            if self.terminal:
                self.terminal.end()
            shell = self.terminal = Shell(self.clone)
        for command in block.commands:
            goes_on = command.in_background or block.in_terminal and command is block.commands[-1]
            place = f"{self.place(command)}: {command.title}"
            self.results.add(place, self.command(shell, command, goes_on))

    def command(self, shell, command, goes_on):
        """What is wrong with it, if something is."""
        self.count += 1
        started = shell.start(command.source, self.clone.logs / f"{self.count}.log")
        if goes_on:
            # A command with `&` has ended for the shell at once, and prints later.
            wait_until(
                lambda: command.prints(started.output())
                or (started.has_ended() and not command.in_background),
                PRINTS_WITHIN,
            )
            problem = not command.in_background and started.has_ended() and "it has ended"
        elif not wait_until(started.has_ended):
            problem = "it does not end"
        else:
            problem = started.status() != command.status and f"exit status {started.status()}"
        output = started.output()
        if problem and (why := OFFLINE.search(output)):
            raise Offline(why[0])
        if not problem and command.printed and not command.prints(output):
            problem = "it does not print what the page says:\n" + indented(
                "\n".join(command.printed)
            )
        return problem and f"{problem}\nIt printed:\n{indented(output)}"


def indented(text):
    return "\n".join(f"  | {line}" for line in text.strip().split("\n"))


def missing_lines(excerpt):
    """What is wrong with an excerpt, however far it is indented, if something is."""

    def lines(text):
        return "\n".join(["", *(line.strip() for line in text.strip().split("\n")), ""])

    file = ROOT / excerpt.excerpt_of
    is_there = file.is_file() and lines(excerpt.text) in lines(file.read_text())
    return "" if is_there else f"{excerpt.excerpt_of} has no such lines"


def missing_tool(text):
    for tool in TOOLS:
        if re.search(rf"(^|[;&|(]\s*){tool}\s", text, re.MULTILINE) and not shutil.which(tool):
            return tool
    return None


def page_results(name):
    results = Results()
    run_page(name, (ROOT / name).read_text(), results)
    return results


def run_page(name, text, results):
    clone = Clone(os.environ["LOCKKEEPER"])
    try:
        Run(name, clone, results).page(text)
    finally:
        clone.remove()


def main(names):
    results = Results()
    if not names:
        from self_test import check_the_checker

        check_the_checker(results)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for of_page in pool.map(page_results, names or PAGES):
            results.add_all(of_page)
    for skipped in results.skipped:
        print(f"skipped {skipped}")
    if results.skipped and os.environ.get("CI") == "true":
        results.failed += len(results.skipped)
    print(f"{results.not_run} blocks not run, {len(results.skipped)} skipped")
    print(f"{results.passed} passed, {results.failed} failed", flush=True)
    return results.failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
