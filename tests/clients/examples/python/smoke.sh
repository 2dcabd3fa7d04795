#!/usr/bin/env bash
# Runs the Python example, with its packages and stubs under target/. See ../scenarios.sh.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
language=python
work=${CARGO_TARGET_DIR:-target}/clients/examples/python
mkdir -p "$work/stubs"
# shellcheck source=../scenarios.sh
source tests/clients/examples/scenarios.sh
command -v python3 >/dev/null || skip "python3 is not installed"
if [ ! -x "$work/venv/bin/python" ]; then
  python3 -m venv "$work/venv" || skip "python3 has no venv (Debian: apt-get install python3-venv)"
fi
if ! cmp -s examples/python/requirements.txt "$work/installed"; then
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check -r examples/python/requirements.txt ||
    skip "grpcio cannot be installed"
  cp examples/python/requirements.txt "$work/installed"
fi
"$work/venv/bin/python" -m grpc_tools.protoc -I proto --python_out="$work/stubs" --grpc_python_out="$work/stubs" \
  proto/lockkeeper/v1/*.proto proto/google/rpc/status.proto
export PYTHONPATH=$work/stubs
example=("$work/venv/bin/python" -u examples/python/hold_a_lock.py)
run_scenarios
