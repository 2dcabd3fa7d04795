"""The package needs nothing that it does not declare."""

import subprocess
import sys

MODULES = "lockkeeper, lockkeeper.aio"
ADAPTERS = "lockkeeper.adapters.redis_py, lockkeeper.adapters.redis_py_asyncio"


def test_it_is_imported_without_typing_extensions():
    # Only newer releases of grpcio need them, and install them.
    program = "import sys, grpc.aio; sys.modules['typing_extensions'] = None; "
    program += f"import {MODULES}, {ADAPTERS}"
    subprocess.run([sys.executable, "-c", program], check=True)
