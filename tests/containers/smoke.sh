#!/usr/bin/env bash
# Runs the image and every profile of docker-compose.yml in a container engine: takes locks through
# them, breaks their Redis in three ways, stops coordinators and restarts everything.
#
#   tests/containers/smoke.sh [STATIC_BINARY]
#
# With STATIC_BINARY (of `make dist`) the last stage of the Dockerfile is built around it; without,
# the whole Dockerfile. Uses the engine that runs here, or starts dockerd with a folder of its own,
# which needs root. Where no registry is reached, Redis' image is made of Debian's packages. Ends
# with `N passed, N failed`, or with 77 if there is no engine, or with 1 if CI=true.
set -euo pipefail
cd "$(dirname "$0")/../.."
built=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$built/containers-test
tools=$built/tools
suite=containers
image_max=25000000
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
image=lockkeeper:$version
binary=${1:+$(realpath "$1")}
# shellcheck source=tests/clients/skip.sh
source tests/clients/skip.sh
# shellcheck source=tests/containers/engine.sh
source tests/containers/engine.sh
# shellcheck source=tests/containers/steps.sh
source tests/containers/steps.sh

command -v curl >/dev/null || skip "curl is not installed"
command -v jq >/dev/null || skip "jq is not installed"
command -v openssl >/dev/null || skip "openssl is not installed"
mkdir -p "$work" "$tools"
trap leave EXIT
find_engine
find_compose
build_image
redis_image
volumes_before=$(docker volume ls --quiet --filter dangling=true | wc -l)

docker create --name "$prefix-files" "$image" >/dev/null
docker cp "$prefix-files:/usr/local/bin/lockkeeper" "$work/lockkeeper"
docker rm "$prefix-files" >/dev/null
# The published ports of the file may be taken: here the engine chooses them.
cat >"$work/ports.yml" <<'PORTS'
services:
  coordinator: {ports: !override ["127.0.0.1::7625"]}
  coordinator-sentinel: {ports: !override ["127.0.0.1::7625"]}
  coordinator-cluster: {ports: !override ["127.0.0.1::7625"]}
PORTS
LOCKKEEPER_REDIS_PASSWORD=$(openssl rand -hex 16)
LOCKKEEPER_SESSION_SECRET=$(openssl rand -hex 32)
export LOCKKEEPER_REDIS_PASSWORD LOCKKEEPER_SESSION_SECRET

check "the image is small, labelled, without a shell, and runs as nobody" image_is_bare
check "it is healthy on another port" healthy serve --listen 0.0.0.0:7700 --allow-unauthenticated
check "it is healthy with TLS and tokens" healthy_with_tls
check "it is healthy with client certificates, by its admin port" healthy_with_client_certificates
check "it is unhealthy without its store" unhealthy_without_store
for profile in ${PROFILES:-single sentinel cluster}; do
  "of_$profile"
  compose "$profile" down --volumes --timeout 5 >/dev/null 2>&1
done
check "nothing is left" nothing_is_left

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
