#!/usr/bin/env bash
# Applies the manifests and the chart to a real API server, as on_server.py says: Kubernetes' own,
# on an etcd of its own, both on free ports and ended with the test. With --build it builds the API
# server and kubectl first, which takes some ten minutes; they are kept in the target folder.
# Without them it exits with 77, in CI too. Ends with `N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")/../.."

suite=kubernetes
# shellcheck source=tests/deploy/tools.sh
source tests/deploy/tools.sh

module=tests/deploy/apiserver
release=$(sed -n 's/^require k8s.io\/kubernetes //p' "$module/go.mod")
operator=v0.75.2
kubernetes=$work/kubernetes-$release

# What a release build of Kubernetes tells its binaries.
build() {
  command -v go >/dev/null || skip "go is not installed"
  local minor=${release#v1.} version_of=k8s.io/component-base/version
  local told="-X $version_of.gitVersion=$release"
  told+=" -X $version_of.gitMajor=1 -X $version_of.gitMinor=${minor%.*}"
  mkdir -p "$kubernetes"
  GOFLAGS=-modcacherw go -C "$module" build -trimpath -buildvcs=false -ldflags "-s -w $told" \
    -o "$kubernetes/" k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kubectl ||
    skip "the API server cannot be built"
  GOFLAGS=-modcacherw go mod download -json "$crds_of@$operator" >"$kubernetes/operator.json" ||
    skip "the Prometheus operator's resources cannot be had"
}

crds_of=github.com/prometheus-operator/prometheus-operator
if [ "${1:-}" = --build ]; then
  build
fi
if [ ! -x "$kubernetes/kube-apiserver" ] || [ ! -e "$kubernetes/operator.json" ]; then
  echo "SKIPPED kubernetes: no API server has been built; make test-kubernetes does (ten minutes)"
  exit 77
fi
command -v openssl >/dev/null || skip "openssl is not installed"
scripts/install-test-tools etcd-server etcd ||
  skip "etcd cannot be installed (Debian: apt-get install etcd-server)"
KUBERNETES=$kubernetes exec nice -n 5 "$python" -u tests/deploy/on_server.py
