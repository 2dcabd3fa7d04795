#!/usr/bin/env bash
# Runs a stock grpcurl, which knows of the API by reflection only, against a real coordinator on a free port. Exits with 77
# if what it needs is not there, or with 1 if CI=true, where everything must be. Ends with `N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")/../../.."
built=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$built/clients/grpcurl
version=v1.9.3

suite=grpcurl
# shellcheck source=tests/clients/skip.sh
source tests/clients/skip.sh

command -v go >/dev/null || skip "go is not installed"
mkdir -p "$work/$version"
grpcurl=$work/$version/grpcurl
if [ ! -x "$grpcurl" ]; then
  GOBIN=$work/$version go install "github.com/fullstorydev/grpcurl/cmd/grpcurl@$version" ||
    skip "grpcurl $version cannot be installed"
fi

# shellcheck source=tests/clients/coordinator.sh
source tests/clients/coordinator.sh

passed=0
failed=0
answer=

# Asks, and keeps the answer, errors included. -emit-defaults shows what is false or zero.
ask() {
  answer=$("$grpcurl" -plaintext -emit-defaults -max-time 20 -d "$2" "$address" "$1" 2>&1) || true
}

lock() {
  ask "lockkeeper.v1.LockService/$1" "$2"
}

# check WHAT PATTERN: the answer has the pattern.
check() {
  if grep -qE -- "$2" <<<"$answer"; then
    passed=$((passed + 1))
    echo "ok $1"
  else
    failed=$((failed + 1))
    printf 'FAILED %s: no %s in\n%s\n' "$1" "$2" "$answer"
  fi
}

# The first value of a field in the answer.
field() {
  sed -n "s/.*\"$1\": \"\\{0,1\\}\\([^\",]*\\).*/\\1/p" <<<"$answer" | head -n 1
}

answer=$("$grpcurl" -plaintext "$address" list 2>&1) || true
check "reflection lists the service" '^lockkeeper\.v1\.LockService$'
answer=$("$grpcurl" -plaintext "$address" describe lockkeeper.v1.Grant 2>&1) || true
check "reflection describes messages" 'uint64 fencing_token'
ask grpc.health.v1.Health/Check '{"service":"lockkeeper.v1.LockService"}'
check "the service is healthy" '"status": "SERVING"'

lock TryAcquire '{"name":"build"}'
check "TryAcquire grants" '"acquired": true'
owner=$(field owner)
token=$(field fencingToken)
lock TryAcquire '{"name":"build"}'
check "a second owner is refused" '"acquired": false'
check "and told the holder's remaining lease" '"holderRemainingLease": "[0-9.]+s"'
lock CheckToken "{\"name\":\"build\",\"fencing_token\":\"$token\"}"
check "the token is the newest" '"current": true'
lock Release '{"name":"build","owner":"somebody"}'
check "a stranger cannot release" '"reason": "NOT_OWNER"'
check "and is told why" '"state": "held_by_another"'

waited=$work/waited
"$grpcurl" -plaintext -emit-defaults -max-time 20 -d '{"name":"build","wait_timeout":"15s"}' "$address" \
  lockkeeper.v1.LockService/Acquire >"$waited" 2>&1 &
waiter=$!
for _ in $(seq 100); do
  lock Describe '{"name":"build"}'
  grep -q '"waiterCount": 1' <<<"$answer" && break
  sleep 0.1
done
check "a streamed Acquire waits" '"waiterCount": 1'
lock Release "{\"name\":\"build\",\"owner\":\"$owner\"}"
check "Release frees" '"released": true'
wait "$waiter" || true
answer=$(<"$waited")
check "the wait is told its position" '"position": 1'
check "and granted on release" '"granted": \{'
if [ "$(field fencingToken)" -gt "$token" ] 2>/dev/null; then
  answer=larger
fi
check "with a larger fencing token" '^larger$'

# The frames go through a pipe that stays open, because closing it would end the session.
frames=$work/frames
rm -f "$frames"
mkfifo "$frames"
"$grpcurl" -plaintext -emit-defaults -max-time 20 -d @ "$address" lockkeeper.v1.LockService/Session \
  <"$frames" >"$waited" 2>&1 &
session=$!
exec 9>"$frames"
echo '{"open":{"client_name":"smoke"}}
  {"op_id":"1","try_acquire":{"name":"frames"}}
  {"op_id":"2","check_token":{"name":"build","fencing_token":"1"}}' >&9
for _ in $(seq 100); do
  grep -q '"opId": "1"' "$waited" && grep -q '"opId": "2"' "$waited" && break
  sleep 0.1
done
lock Describe '{"name":"frames"}'
check "a session holds" '"clientName": "smoke"'
exec 9>&-
wait "$session" || true
answer=$(<"$waited")
check "a session opens" '"sessionId": "[0-9a-f-]{36}"'
check "frames are answered on it" '"watched": true'
check "each with its op_id" '"opId": "2"'
lock Describe '{"name":"frames"}'
check "and closing it releases" '"holders": \[\]'

kill -TERM "$coordinator"
if wait "$coordinator"; then answer=0; else answer=$?; fi
check "SIGTERM drains" '^0$'

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
