"""The command blocks of a page: what to run, and what the page says it prints.

A line `#  TEXT` (two blanks) below a command is a line that the command prints. In it, `…` stands
for any text; `#  …` alone stands for any number of lines. `#  exit status N` comes last if the
status is not 0. Without such lines only the status is checked. Empty lines are not compared.

A comment above a block says what is special about it:
  <!-- not run: REASON -->         the block is listed, not run
  <!-- a terminal of its own -->   the last command of the block goes on while later blocks run;
                                   the next such block, or the end of the page, ends it
  <!-- an excerpt of PATH -->      the file has these lines, one after the other; for any language
"""

import re
import subprocess
from dataclasses import dataclass, field

SHELL = ("sh", "console")
PRINTED = "#  "
STATUS = re.compile(r"exit status (\d+)$")
FENCE = re.compile(r"\s*```(\S*)")
COMMENT = re.compile(r"<!-- (.*) -->$")
MARKS = ("not run: ", "a terminal of its own", "an excerpt of ")


class BadPage(Exception):
    """A page that cannot be read as commands and what they print."""


@dataclass
class Command:
    line: int
    source: str
    printed: list = field(default_factory=list)
    status: int = 0

    @property
    def in_background(self):
        return re.search(r"(?<!&)&\s*(#.*)?$", self.source) is not None

    @property
    def title(self):
        first, *rest = self.source.split("\n")
        return first + (" …" if rest else "")

    def pattern(self):
        """Matches all that the command prints."""
        return re.compile("".join(map(pattern_of_line, self.printed)))

    def prints(self, output):
        lines = "".join(line.rstrip() + "\n" for line in output.split("\n") if line.strip())
        return self.pattern().fullmatch(lines) is not None


def pattern_of_line(line):
    if line == "…":
        return r"(?:[^\n]*\n)*"
    return r"[^\n]*".join(map(re.escape, line.split("…"))) + r"\n"


@dataclass
class Block:
    line: int
    section: str
    text: str
    reason: str = ""  # Why it is not run.
    excerpt_of: str = ""
    in_terminal: bool = False
    commands: list = field(default_factory=list)


def blocks(text):
    """The command blocks of a page, in order."""
    found, section, mark, opened = [], "", "", None
    for number, line in enumerate(text.split("\n"), 1):
        fence = FENCE.match(line)
        if opened:
            if fence:
                if opened[1] in (*SHELL, "python") or opened[3].startswith(MARKS[2]):
                    found.append(block(*opened))
                opened = None
            else:
                opened[-1].append(line)
        elif fence:
            opened = (number, fence[1], section, mark, [])
            mark = ""
        elif comment := COMMENT.match(line):
            mark = comment[1]
        elif line.strip():
            mark = ""
            if line.startswith("#"):
                section = line
    return found


def block(line, language, section, mark, lines):
    if mark and not mark.startswith(MARKS) or mark == MARKS[0].strip():
        raise BadPage(f"line {line}: no mark of a block: {mark}")
    made = Block(line, section, "\n".join(lines))
    made.reason = mark.removeprefix(MARKS[0]) if mark.startswith(MARKS[0]) else ""
    made.in_terminal = mark == MARKS[1]
    made.excerpt_of = mark.removeprefix(MARKS[2]) if mark.startswith(MARKS[2]) else ""
    if not made.reason and not made.excerpt_of:
        if language == "python":
            program, printed = split_off_printed(lines)
            lines = ["python - <<'END'", *program, "END", *printed]
        made.commands = commands(line + 1, lines)
    return made


def split_off_printed(lines):
    at = len(lines)
    while at and lines[at - 1].startswith(PRINTED):
        at -= 1
    return lines[:at], lines[at:]


def commands(number, lines):
    found, source, begin = [], [], number
    for line in lines:
        if not source and line.startswith(PRINTED):
            if not found:
                raise BadPage(f"line {number}: prints something before the first command")
            add_printed(found[-1], line.removeprefix(PRINTED).rstrip())
        elif source or (line.strip() and not line.startswith("#")):
            begin = begin if source else number
            source.append(line)
            if is_complete("\n".join(source)):
                found.append(Command(begin, "\n".join(source)))
                source = []
        number += 1
    if source:
        raise BadPage(f"line {begin}: this command does not end: {source[0]}")
    return found


def add_printed(command, line):
    if status := STATUS.match(line):
        command.status = int(status[1])
    else:
        command.printed.append(line)


def is_complete(source):
    """Whether the shell would run it, and not ask for another line."""
    if source.endswith("\\"):
        return False
    parsed = subprocess.run(["bash", "-n"], input=source + "\n", capture_output=True, text=True)
    return parsed.returncode == 0 and not parsed.stderr
