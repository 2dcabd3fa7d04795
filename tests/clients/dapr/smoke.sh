#!/usr/bin/env bash
# Runs smoke.py with Dapr's stock SDK for Python against a real coordinator on a free port. Exits with 77 if what it needs
# is not there, or with 1 if CI=true, where everything must be. Ends with `N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")/../../.."
built=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$built/clients/dapr
here=tests/clients/dapr

suite=dapr
# shellcheck source=tests/clients/skip.sh
source tests/clients/skip.sh

command -v python3 >/dev/null || skip "python3 is not installed"
mkdir -p "$work"
if ! cmp -s "$here/requirements.txt" "$work/installed"; then
  python3 -m venv "$work/venv" || skip "python3 has no venv"
  "$work/venv/bin/pip" -q install -r "$here/requirements.txt" || skip "the SDK cannot be installed"
  cp "$here/requirements.txt" "$work/installed"
fi

# shellcheck source=tests/clients/coordinator.sh
source tests/clients/coordinator.sh --set facades.dapr=true
"$work/venv/bin/python" -u -W ignore "$here/smoke.py" "$address"
