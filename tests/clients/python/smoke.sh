#!/usr/bin/env bash
# Runs smoke.py with a stock grpcio against a real coordinator. Stubs go to target/. Exits with 77 if
# what it needs is not there, or with 1 if CI=true, where everything must be.
set -euo pipefail
cd "$(dirname "$0")/../../.."
here=tests/clients/python
built=${CARGO_TARGET_DIR:-target}
work=$built/clients/python

# The packages are those of the official client, which this does not use.
status=0
clients/python/conformance/build || status=$?
[ "$status" -eq 0 ] || exit "$status"
python=clients/python/.venv/bin/python
mkdir -p "$work/stubs"
"$python" -m grpc_tools.protoc -I proto --python_out="$work/stubs" --grpc_python_out="$work/stubs" \
  proto/lockkeeper/v1/*.proto
PYTHONPATH="$work/stubs" exec "$python" -u "$here/smoke.py" "$built/debug/lockkeeper"
