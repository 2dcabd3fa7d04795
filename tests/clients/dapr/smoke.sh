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

log=$work/coordinator.log
env -u RUST_LOG "$built/debug/lockkeeper" serve --listen 127.0.0.1:0 --set log.format=json \
  --set facades.dapr=true 2>"$log" &
coordinator=$!
trap 'kill "$coordinator" 2>/dev/null || true; wait "$coordinator" 2>/dev/null || true' EXIT
address=
for _ in $(seq 100); do
  address=$(sed -n 's/.*"address":"\([^"]*\)".*/\1/p' "$log")
  [ -n "$address" ] && break
  sleep 0.1
done
if [ -z "$address" ]; then
  cat "$log"
  echo "the coordinator does not serve"
  exit 1
fi
"$work/venv/bin/python" -u -W ignore "$here/smoke.py" "$address"
