# shellcheck shell=bash
# Sourced by the suites of this folder, from the root of the tree: puts helm and a Python with what
# they need below the target folder. `suite` is set by the caller, by which it is named.
built=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$built/deploy
version=v3.22.0

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
    GOBIN=$work/$version GOFLAGS=-modcacherw go install -ldflags '-s -w' \
      "helm.sh/helm/v3/cmd/helm@$version" || skip "helm $version cannot be installed"
  fi
fi
if [ ! -x "$work/venv/bin/python" ]; then
  python3 -m venv "$work/venv" || skip "python3 has no venv (Debian: apt-get install python3-venv)"
fi
if ! cmp -s tests/deploy/requirements.txt "$work/installed"; then
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check \
    -r tests/deploy/requirements.txt || skip "kubernetes-validate cannot be installed"
  cp tests/deploy/requirements.txt "$work/installed"
fi
# shellcheck disable=SC2034
python=$work/venv/bin/python
export HELM=$helm LOCKKEEPER=$built/debug/lockkeeper
