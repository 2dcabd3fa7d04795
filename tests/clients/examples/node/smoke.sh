#!/usr/bin/env bash
# Runs the Node example, with its packages under target/. See ../scenarios.sh.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
language=node
work=${CARGO_TARGET_DIR:-target}/clients/examples/node
mkdir -p "$work"
# shellcheck source=../scenarios.sh
source tests/clients/examples/scenarios.sh
command -v npm >/dev/null || skip "node and npm are not installed"
cp examples/node/hold_a_lock.js "$work/"
if ! cmp -s examples/node/package.json "$work/package.json" || [ ! -d "$work/node_modules" ]; then
  cp examples/node/package.json examples/node/package-lock.json "$work/"
  (cd "$work" && npm ci --silent --no-audit --no-fund) || skip "@grpc/grpc-js cannot be installed"
fi
export LOCKKEEPER_PROTOS=$PWD/proto
example=(node "$work/hold_a_lock.js")
run_scenarios
