"""Writes the complete Python examples of a page to files: examples.py PAGE FOLDER.

A complete example begins with an import. What its reader has to write is put before it.
"""

import re
import sys
from pathlib import Path

GIVEN = """
import asyncio
import os
import threading


def write_report(fencing_token: int, stop: threading.Event | None = None) -> None:
    assert fencing_token > 0


async def write_report_async(fencing_token: int) -> None:
    assert fencing_token > 0


def fetch() -> None:
    pass


"""

page, folder = Path(sys.argv[1]), Path(sys.argv[2])
blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
complete = [block for block in blocks if re.match(r"(import|from) ", block)]
assert len(complete) >= 4, "the page has examples"
for number, block in enumerate(complete):
    head = "from __future__ import annotations\n"
    program = head + GIVEN + re.sub(r'"localhost:7625"', 'os.environ["LOCKS"]', block)
    (folder / f"example_{number}.py").write_text(program)
