# Sourced by the suites of the examples: a Redis, a coordinator, and what an example must do when the coordinator is killed
# and when its lock is taken away. The caller has set `language` and `work`, and the array `example` is the command.

built=$(realpath -m "${CARGO_TARGET_DIR:-target}")
started=()
passed=0
failed=0

suite="example in $language"
# shellcheck source=tests/clients/skip.sh
source tests/clients/skip.sh

stop_all() {
  for process in "${started[@]}"; do
    kill -9 "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
}
trap stop_all EXIT

# until_true SECONDS COMMAND...: false if it does not succeed in time.
until_true() {
  local tries=$(($1 * 10))
  shift
  while ! "$@" >/dev/null 2>&1; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || return 1
    sleep 0.1
  done
}

check() {
  local what=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
    echo "ok $language: $what"
  else
    failed=$((failed + 1))
    echo "FAILED $language: $what"
    sed 's/^/  | /' "$work/example.out"
  fi
}

start_redis() {
  local tries
  for tries in $(seq 20); do
    redis_port=$((20000 + RANDOM % 20000))
    redis-server --port "$redis_port" --bind 127.0.0.1 --save '' --appendonly no >"$work/redis.log" 2>&1 &
    redis=$!
    started+=("$redis")
    if until_true 5 grep -q 'Ready to accept' "$work/redis.log"; then
      return
    fi
  done
  echo "no Redis could be started"
  exit 1
}

# Starts it where it was, the first time on a free port.
start_coordinator() {
  # Else what the one before has written is still there until the new one's shell gets to run.
  : >"$work/coordinator.log"
  LOCKKEEPER__SESSION__SECRET='a secret of all of the examples here' LOCKKEEPER__STORE__URL="redis://127.0.0.1:$redis_port" \
    env -u RUST_LOG "$built/debug/lockkeeper" serve --listen "${address:-127.0.0.1:0}" --set log.format=json 2>"$work/coordinator.log" &
  coordinator=$!
  started+=("$coordinator")
  until_true 20 grep -q '"message":"serving"' "$work/coordinator.log" || {
    cat "$work/coordinator.log"
    echo "the coordinator does not serve"
    exit 1
  }
  address=$(sed -n 's/.*"address":"\([^"]*\)".*/\1/p' "$work/coordinator.log" | head -n 1)
}

start_example() {
  : >"$work/example.out"
  "${example[@]}" "$address" "$1" "$2" >"$work/example.out" 2>"$work/example.err" &
  running=$!
  started+=("$running")
  until_true 30 grep -q "^holds $1, fencing token [1-9]" "$work/example.out"
}

# ends_with CODE: how the example that runs ends.
ends_with() {
  local status=0
  until_true 30 not_running || return 1
  wait "$running" || status=$?
  [ "$status" -eq "$1" ] || {
    echo "ended with $status"
    cat "$work/example.err"
    false
  }
}

not_running() { ! kill -0 "$running" 2>/dev/null; }

is_free() { [ "$(redis-cli -p "$redis_port" exists "$1")" = 0 ]; }

run_scenarios() {
  command -v redis-server >/dev/null || skip "redis-server is not installed"
  start_redis
  start_coordinator

  check "takes the lock" start_example restart 9
  kill -9 "$coordinator"
  wait "$coordinator" 2>/dev/null || true
  start_coordinator
  check "resumes after a restart" until_true 10 grep -q '^resumed' "$work/example.out"
  check "finishes its work, longer than the lease" ends_with 0
  check "its token was the newest" grep -qi '^token is current: true' "$work/example.out"
  check "gives the lock back" until_true 5 is_free restart

  check "takes the lock again" start_example taken 60
  redis-cli -p "$redis_port" del taken >/dev/null
  check "stops when the lock is taken away" ends_with 3
  check "says so" grep -q '^lost: ' "$work/example.out"

  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
}
