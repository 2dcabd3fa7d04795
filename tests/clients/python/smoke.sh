#!/usr/bin/env bash
# Runs smoke.py with a stock grpcio against a real coordinator. Stubs and packages go to a virtual environment under target/.
# Exits with 77 if what it needs is not there, or with 1 if CI=true, where everything must be.
set -euo pipefail
cd "$(dirname "$0")/../../.."
here=tests/clients/python
built=${CARGO_TARGET_DIR:-target}
work=$built/clients/python

suite=python
# shellcheck source=tests/clients/skip.sh
source tests/clients/skip.sh

command -v python3 >/dev/null || skip "python3 is not installed"
mkdir -p "$work"
if [ ! -x "$work/venv/bin/python" ]; then
  python3 -m venv "$work/venv" || skip "python3 has no venv (Debian: apt-get install python3-venv)"
fi
if ! cmp -s "$here/requirements.txt" "$work/installed"; then
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" ||
    skip "grpcio cannot be installed"
  cp "$here/requirements.txt" "$work/installed"
fi
mkdir -p "$work/stubs"
"$work/venv/bin/python" -m grpc_tools.protoc -I proto --python_out="$work/stubs" --grpc_python_out="$work/stubs" \
  proto/lockkeeper/v1/*.proto
PYTHONPATH="$work/stubs" exec "$work/venv/bin/python" -u "$here/smoke.py" "$built/debug/lockkeeper"
