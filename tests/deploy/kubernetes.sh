#!/usr/bin/env bash
# Applies the manifests and the chart to a real API server, as on_server.py says: Kubernetes' own,
# on an etcd of its own, with the Prometheus operator, all on free ports and ended with the test.
# With --build it builds them first, which takes some ten minutes; they are kept in the target
# folder. Without them it exits with 77, in CI too. Ends with `N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")/../.."

suite=kubernetes
# shellcheck source=tests/deploy/tools.sh
source tests/deploy/tools.sh

apiserver=tests/deploy/apiserver
operator=tests/deploy/operator
release=$(sed -n 's/^require k8s.io\/kubernetes //p' "$apiserver/go.mod")
kubernetes=$work/kubernetes-$release

# A program of one of the two modules.
go_build() {
  GOFLAGS=-modcacherw go -C "$1" build -trimpath -buildvcs=false -ldflags "$2" -o "$kubernetes/" \
    "${@:3}" || skip "${*:3} cannot be built"
}

build() {
  command -v go >/dev/null || skip "go is not installed"
  mkdir -p "$kubernetes"
  # What a release build of Kubernetes tells its binaries.
  local minor=${release#v1.} version_of=k8s.io/component-base/version
  local told="-X $version_of.gitVersion=$release"
  told+=" -X $version_of.gitMajor=1 -X $version_of.gitMinor=${minor%.*}"
  go_build "$apiserver" "-s -w $told" k8s.io/kubernetes/cmd/{kube-apiserver,kubectl}
  local of_operator=github.com/prometheus-operator/prometheus-operator
  go_build "$operator" "-s -w" "$of_operator/cmd/operator"
  local folder
  folder=$(go -C "$operator" list -m -f '{{.Dir}}' "$of_operator")
  rm -rf "$kubernetes/resources"
  # The last, because without them nothing is run.
  cp -r "$folder/example/prometheus-operator-crd" "$kubernetes/resources"
}

if [ "${1:-}" = --build ]; then
  build
fi
if [ ! -e "$kubernetes/resources" ]; then
  echo "SKIPPED kubernetes: no API server has been built; make test-kubernetes does (ten minutes)"
  exit 77
fi
command -v openssl >/dev/null || skip "openssl is not installed"
scripts/install-test-tools etcd-server etcd ||
  skip "etcd cannot be installed (Debian: apt-get install etcd-server)"
scripts/install-test-tools prometheus || skip "prometheus cannot be installed"
KUBERNETES=$kubernetes exec nice -n 5 "$python" -u tests/deploy/on_server.py
