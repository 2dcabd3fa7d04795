"""Runs a command with a coordinator, whose address is in LOCKS: with_coordinator.py COMMAND..."""

import os
import subprocess
import sys
from pathlib import Path

coordinator = subprocess.Popen(
    [os.environ["LOCKKEEPER"], "serve", "--listen", "127.0.0.1:0", "--set", "log.format=json"],
    stderr=subprocess.PIPE,
    text=True,
    env={k: v for k, v in os.environ.items() if not k.startswith(("LOCKKEEPER", "RUST_LOG"))},
)
try:
    for line in coordinator.stderr:
        _, found, rest = line.partition('"address":"')
        if found:
            os.environ["LOCKS"] = rest.partition('"')[0]
            break
    code = subprocess.run(sys.argv[1:], timeout=60).returncode
finally:
    coordinator.kill()
    coordinator.wait()
print(f"{'ok' if code == 0 else 'FAILED'} {Path(sys.argv[-1]).name}")
sys.exit(code)
