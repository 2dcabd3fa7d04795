#!/usr/bin/env bash
# Runs the Java example, built under target/. See ../scenarios.sh.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
language=java
work=$(realpath -m "${CARGO_TARGET_DIR:-target}")/clients/examples/java
mkdir -p "$work"
# shellcheck source=../scenarios.sh
source tests/clients/examples/scenarios.sh
command -v mvn >/dev/null && command -v java >/dev/null || skip "java and mvn are not installed"
build=(mvn --batch-mode --quiet --file examples/java/pom.xml -Dbuild.folder="$work/build")
"${build[@]}" dependency:resolve >/dev/null || skip "the libraries cannot be downloaded"
"${build[@]}" package
example=(java -XX:TieredStopAtLevel=1 -cp "$work/build/hold-a-lock.jar:$work/build/lib/*" example.HoldALock)
run_scenarios
