#!/usr/bin/env bash
# Runs the Go example: makes its stubs, builds and checks it. See ../scenarios.sh.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
language=go
work=$(realpath -m "${CARGO_TARGET_DIR:-target}")/clients/examples/go
mkdir -p "$work"
# shellcheck source=../scenarios.sh
source tests/clients/examples/scenarios.sh
command -v go >/dev/null || skip "go is not installed"
export GOFLAGS=-modcacherw
(cd examples/go && go mod download) || skip "the modules cannot be downloaded"
(cd examples/go && go generate . && go vet ./... && go build -o "$work/hold-a-lock" .)
example=("$work/hold-a-lock")
run_scenarios
