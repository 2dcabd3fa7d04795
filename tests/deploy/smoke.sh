#!/usr/bin/env bash
# Renders the Helm chart as check.py says and holds it and the plain manifests against Kubernetes'
# own schemas, their settings against the debug binary, and the alerts against Prometheus' own tests.
# Exits with 77 if what it needs is not there, or with 1 if CI=true, where everything must be. Ends
# with `N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=tests/deploy
built=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$built/deploy
version=v3.22.0

suite=deploy
# shellcheck source=tests/clients/skip.sh
source tests/clients/skip.sh

command -v python3 >/dev/null || skip "python3 is not installed"
mkdir -p "$work/$version"
helm=$work/$version/helm
if [ ! -x "$helm" ]; then
  if [[ "$(helm version --template '{{.Version}}' 2>/dev/null)" == v3.* ]]; then
    ln -sf "$(command -v helm)" "$helm"
  else
    command -v go >/dev/null || skip "neither helm nor go is installed"
    GOBIN=$work/$version GOFLAGS=-modcacherw go install -ldflags '-s -w' "helm.sh/helm/v3/cmd/helm@$version" ||
      skip "helm $version cannot be installed"
  fi
fi
if [ ! -x "$work/venv/bin/python" ]; then
  python3 -m venv "$work/venv" || skip "python3 has no venv (Debian: apt-get install python3-venv)"
fi
if ! cmp -s "$here/requirements.txt" "$work/installed"; then
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" ||
    skip "kubernetes-validate cannot be installed"
  cp "$here/requirements.txt" "$work/installed"
fi
scripts/install-test-tools prometheus promtool ||
  skip "promtool cannot be installed (Debian: apt-get install prometheus)"
exec "$work/venv/bin/python" -u "$here/check.py" "$helm" "$built/debug/lockkeeper" \
  "$(command -v promtool)"
