#!/usr/bin/env bash
# Renders the Helm chart as check.py says and holds it and the plain manifests against Kubernetes'
# own schemas, their settings against the debug binary, and the alerts against Prometheus' own
# tests. Exits with 77 if what it needs is not there, or with 1 if CI=true, where everything must
# be. Ends with `N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")/../.."

suite=deploy
# shellcheck source=tests/deploy/tools.sh
source tests/deploy/tools.sh

# A registry in memory, for the chart.
crane=v0.20.6
if [ ! -x "$work/crane-$crane/crane" ]; then
  command -v go >/dev/null || skip "go is not installed"
  GOBIN=$work/crane-$crane GOFLAGS=-modcacherw go install -ldflags '-s -w' \
    "github.com/google/go-containerregistry/cmd/crane@$crane" || skip "crane cannot be installed"
fi
export CRANE=$work/crane-$crane/crane
scripts/install-test-tools prometheus promtool ||
  skip "promtool cannot be installed (Debian: apt-get install prometheus)"
PROMTOOL=$(command -v promtool) exec "$python" -u tests/deploy/check.py
