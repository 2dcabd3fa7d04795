#!/usr/bin/env bash
# Runs a program for etcd, with its stock Java client (jetcd), against a real coordinator on a free port. Exits with 77
# if what it needs is not there, or with 1 if CI=true, where everything must be. Ends with `N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")/../../.."
built=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$built/clients/etcd

suite=etcd
# shellcheck source=tests/clients/skip.sh
source tests/clients/skip.sh

for tool in java javac mvn; do
  command -v "$tool" >/dev/null || skip "$tool is not installed"
done
mkdir -p "$work"
maven=(mvn -q -B -ntp -Dstyle.color=never -f tests/clients/etcd "-Dbuild.folder=$work/java" package)
"${maven[@]}" -o >/dev/null 2>&1 || "${maven[@]}"

# shellcheck source=tests/clients/coordinator.sh
source tests/clients/coordinator.sh --set facades.etcd=true
java -cp "$work/java/etcd.jar:$work/java/lib/*" Etcd "http://$address"
