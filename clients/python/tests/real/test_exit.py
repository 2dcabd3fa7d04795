"""Python exits with something left open: in a global variable, nothing can wait for an answer."""

import os
import subprocess
import sys

import pytest
from conftest import LIMIT

GENERATOR = """
def rows():
    with client.lock("a"):
        yield 1
left = rows()
next(left)
"""

FINALIZER = """
class Left:
    def __del__(self):
        client.close()
client.connect()
left = Left()
"""

OBSERVER = """
left = client.watch_lock("a")
next(left)
"""


@pytest.mark.parametrize(
    "left", [GENERATOR, FINALIZER, OBSERVER], ids=["generator", "finalizer", "observer"]
)
def test_python_exits_although_something_is_left_open(coordinator, left):
    start = f"import lockkeeper\nclient = lockkeeper.Client({coordinator.address!r})\n"
    command = [sys.executable, "-c", start + left]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=os.environ)
    assert ran.returncode == 0
    assert left is OBSERVER or "Python exits" in ran.stderr
