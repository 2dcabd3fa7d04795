#!/usr/bin/env bash
# Runs the Rust example. See ../scenarios.sh.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
language=rust
work=${CARGO_TARGET_DIR:-target}/clients/examples/rust
mkdir -p "$work"
# shellcheck source=../scenarios.sh
source tests/clients/examples/scenarios.sh
cargo build --quiet --locked --package lockkeeper-client --example hold_a_lock
example=("$built/debug/examples/hold_a_lock")
run_scenarios
