# Sourced by smoke.sh: what it checks. Each check runs in a subshell, with -e, and prints why it
# fails; lines that begin with `FIGURE` are shown. The caller sets `work`, `image`, `image_max` and
# `version`.
# shellcheck shell=bash disable=SC2154,SC2317

passed=0
failed=0

# check WHAT FUNCTION [ARGUMENT ...]
check() {
  local what=$1 status=0
  shift
  # Not in a condition, where -e has no effect.
  set +e
  (set -e; "$@") >"$work/check.log" 2>&1
  status=$?
  set -e
  if [ "$status" -eq 0 ]; then
    passed=$((passed + 1))
    echo "ok containers: $what"
    sed -n 's/^FIGURE /   /p' "$work/check.log"
  else
    failed=$((failed + 1))
    echo "FAILED containers: $what"
    cat "$work/check.log"
  fi
}

fail() {
  echo "$1"
  exit 1
}

now() {
  date +%s%3N
}

# seconds SINCE: with three decimals.
seconds() {
  local passed=$(($(now) - $1))
  printf '%d.%03d s' $((passed / 1000)) $((passed % 1000))
}

# until_ok SECONDS COMMAND...: tries again until it succeeds.
until_ok() {
  local end=$(($(now) + $1 * 1000))
  shift
  until "$@" >"$work/attempt.log" 2>&1; do
    [ "$(now)" -lt "$end" ] || { cat "$work/attempt.log"; fail "in time: $*"; }
    sleep 0.1
  done
}

# === The image alone ===

image_is_bare() {
  local size
  size=$(docker image inspect "$image" --format '{{.Size}}')
  echo "FIGURE image: $size bytes"
  [ "$size" -le "$image_max" ] || fail "larger than $image_max bytes"
  docker image inspect "$image" --format '{{json .Config}}' >"$work/config.json"
  [ "$(jq -r .User "$work/config.json")" = 65532:65532 ]
  jq -e --arg version "$version" '.Labels | ."org.opencontainers.image.version" == $version
    and (."org.opencontainers.image.revision" | test("^[0-9a-f]{12}"))
    and ."org.opencontainers.image.licenses" == "Apache-2.0"' "$work/config.json"
  ! docker run --rm --name "$prefix-shell" --entrypoint sh "$image" -c true || fail "has a shell"
  docker run --rm --name "$prefix-version" "$image" --version | grep "^lockkeeper $version "
}

# healthy [DOCKER_OPTION ... --] ARGUMENT...: starts the image; it becomes healthy.
healthy() {
  local options=() name=$prefix-image
  if [[ " $* " == *" -- "* ]]; then
    while [ "$1" != -- ]; do
      options+=("$1")
      shift
    done
    shift
  fi
  docker rm --force "$name" >/dev/null 2>&1 || true
  docker run --detach --name "$name" --read-only --cap-drop ALL \
    --security-opt no-new-privileges --health-interval 1s "${options[@]}" "$image" "$@"
  until_ok 30 health_is "$name" healthy
  docker exec "$name" lockkeeper health
  docker stop --time 15 "$name"
  [ "$(docker inspect --format '{{.State.ExitCode}}' "$name")" -eq 0 ]
  docker rm "$name"
}

health_is() {
  docker inspect --format '{{.State.Health.Status}}' "$1" | grep -x "$2"
}

# A certificate that names neither localhost nor an address, from an authority of its own.
certificates() {
  local folder=$work/tls
  [ ! -e "$folder/tokens" ] || return 0
  mkdir -p "$folder"
  {
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority \
      -keyout "$folder/ca.key" -out "$folder/ca.crt"
    openssl req -newkey rsa:2048 -nodes -subj /CN=locks.example \
      -keyout "$folder/tls.key" -out "$folder/tls.csr"
    printf 'subjectAltName=DNS:locks.example\n' >"$folder/names"
    openssl x509 -req -days 2 -in "$folder/tls.csr" -CA "$folder/ca.crt" \
      -CAkey "$folder/ca.key" -extfile "$folder/names" -out "$folder/tls.crt"
    echo "billing $(openssl rand -hex 16)" >"$folder/tokens"
  } 2>"$work/openssl.log"
  chmod 0644 "$folder"/*
}

with_tls() {
  certificates
  healthy --volume "$work/tls:/tls:ro" -- serve --listen 0.0.0.0:7625 \
    --set server.tls.certificate_file=/tls/tls.crt --set server.tls.key_file=/tls/tls.key "$@"
}

healthy_with_tls() {
  with_tls --set auth.token_file=/tls/tokens
}

healthy_with_client_certificates() {
  with_tls --set server.tls.client_ca_file=/tls/ca.crt --admin-listen 127.0.0.1:7999
}

unhealthy_without_store() {
  local name=$prefix-lonely
  docker run --detach --name "$name" --health-interval 1s --health-retries 2 \
    --health-start-period 0s "$image" serve --store redis://127.0.0.1:1/0
  until_ok 30 health_is "$name" unhealthy
  docker rm --force "$name"
}

# === A profile ===

# Its coordinator's service, by the profile.
service() {
  if [ "$1" = single ]; then echo coordinator; else echo "coordinator-$1"; fi
}

# The command line of the image, as a client from outside.
client() {
  "$work/lockkeeper" "$@"
}

# Sets where the client finds the coordinator of a profile.
address_of() {
  LOCKKEEPER_SERVER=http://$(compose "$1" port "$(service "$1")" 7625)
  export LOCKKEEPER_SERVER
}

# curl_a_lock NAME: as somebody without a client takes it.
curl_a_lock() {
  curl --fail --silent --show-error --max-time 10 --header 'content-type: application/json' \
    --data "{\"name\": \"$1\", \"owner\": \"tester\", \"lease\": \"3600s\"}" \
    "$LOCKKEEPER_SERVER/lockkeeper.v1.LockService/TryAcquire" | jq -e .acquired
}

# starts PROFILE: up, healthy, and a lock is held once.
starts() {
  local started
  started=$(now)
  compose "$1" up --detach --no-build --quiet-pull
  address_of "$1"
  until_ok 90 curl_a_lock first
  echo "FIGURE $1: $(seconds "$started") from \`up\` to a lock taken by curl"
  ! client try-acquire first --owner another || fail "two owners hold the lock"
  until_ok 60 health_is "$(compose "$1" ps --quiet "$(service "$1")")" healthy
  docker stats --no-stream --format '{{.MemUsage}}' \
    "$(compose "$1" ps --quiet "$(service "$1")")" |
    sed "s|^\([^ ]*\) .*|FIGURE $1: coordinator idle, \1|"
}

token() {
  client describe "$1" --output json | jq -er .lastFencingToken
}

# still_held PROFILE: the lock of `starts`, by the same owner, with the same token.
still_held() {
  address_of "$1"
  until_ok 60 client health
  ! client try-acquire first --owner another || fail "the lock is lost"
  client renew first --owner tester --lease 1h
  [ "$(token first)" = "$(cat "$work/token")" ] || fail "another token"
}

# drains PROFILE: stopped with a holder and a waiter, which is refused with a retryable status.
drains() {
  address_of "$1"
  token first >"$work/token"
  local container started waiter code=0
  container=$(compose "$1" ps --quiet "$(service "$1")")
  client acquire first --owner waiter --wait 60s >"$work/waiter.log" 2>&1 &
  waiter=$!
  until_ok 20 waits first
  started=$(now)
  docker stop --time 15 "$container"
  echo "FIGURE $1: drained and stopped in $(seconds "$started")"
  wait "$waiter" || code=$?
  cat "$work/waiter.log"
  [ "$code" -eq 69 ] || fail "the waiter ended with $code, and not with 69"
  grep DRAINING "$work/waiter.log"
  [ "$(docker inspect --format '{{.State.ExitCode}}' "$container")" -eq 0 ]
  docker start "$container"
  still_held "$1"
}

waits() {
  client describe "$1" --output json | jq -e '.waiterCount > 0'
}

# restarts PROFILE: all containers go, the volumes stay.
restarts() {
  compose "$1" down --timeout 10
  compose "$1" up --detach --no-build
  still_held "$1"
}

of_single() {
  check "single: starts" starts single
  check "single: drains" drains single
  check "single: holds the lock after down and up" restarts single
}

# === Redis that breaks ===

# breaks PROFILE HOW: `kill`, `pause` or `disconnect` of a master; grants go on, and the lock that
# is held stays.
breaks() {
  address_of "$1"
  until_ok 60 replicas_follow "$1"
  local service container network started
  service=$("master_of_$1")
  container=$(compose "$1" ps --quiet "$service")
  network=$prefix"_"$1
  started=$(now)
  case $2 in
    kill) docker kill "$container" ;;
    pause) docker pause "$container" ;;
    disconnect) docker network disconnect "$network" "$container" ;;
  esac
  # A lock in each of many slots, so that some are of each master.
  local name
  for name in $(seq 12); do
    until_ok 60 client try-acquire "$2-$name" --owner tester --lease 1m
  done
  echo "FIGURE $1: grants again $(seconds "$started") after \`$2\` of $service"
  still_held "$1"
  case $2 in
    kill) docker start "$container" ;;
    pause) docker unpause "$container" ;;
    disconnect)
      docker network connect --ip "$(address_in_file "$service")" "$network" "$container"
      ;;
  esac
  until_ok 60 replicas_follow "$1"
  still_held "$1"
}

address_in_file() {
  compose "$profile" config --format json |
    jq -r --arg service "$1" '.services[$service].networks[].ipv4_address'
}

in_redis() {
  local service=$1
  shift
  compose "$profile" exec -T "$service" redis-cli "$@"
}

# The service that is the master of the sentinels.
master_of_sentinel() {
  local number address
  address=$(in_redis sentinel-1 -p 26379 sentinel get-master-addr-by-name locks | head -n 1)
  number=${address##*.1}
  echo "sentinel-redis-$number"
}

# replicas_follow PROFILE: every master has as many replicas as it has in the file.
replicas_follow() {
  if [ "$1" = sentinel ]; then
    in_redis "$(master_of_sentinel)" info replication | tr -d '\r' | grep -x connected_slaves:2
  else
    in_redis cluster-1 cluster nodes >"$work/nodes" &&
      [ "$(grep -c 'slave .* connected' "$work/nodes")" -eq 3 ] && ! grep fail "$work/nodes"
  fi
}

of_sentinel() {
  local how
  check "sentinel: starts" starts sentinel
  check "sentinel: drains" drains sentinel
  for how in kill pause disconnect; do
    check "sentinel: $how of the master" breaks sentinel "$how"
  done
  check "sentinel: holds the lock after down and up" restarts sentinel
}

# The service of a master of the cluster other than cluster-1, which answers questions here.
master_of_cluster() {
  local address
  address=$(in_redis cluster-1 cluster nodes | grep master | grep -v myself |
    sed 's/^[^ ]* \([0-9.]*\):.*/\1/' | sort | head -n 1)
  echo "cluster-${address##*.1}"
}

of_cluster() {
  local how
  check "cluster: starts" starts cluster
  check "cluster: drains" drains cluster
  for how in kill pause disconnect; do
    check "cluster: $how of a master" breaks cluster "$how"
  done
  check "cluster: holds the lock after down and up" restarts cluster
}

nothing_is_left() {
  ! docker ps --all --format '{{.Names}}' | grep "^$prefix" || fail "containers"
  ! docker volume ls --quiet | grep "^$prefix" || fail "volumes"
  [ "$(docker volume ls --quiet --filter dangling=true | wc -l)" -le "$volumes_before" ] ||
    fail "anonymous volumes"
  ! docker network ls --format '{{.Name}}' | grep "^$prefix" || fail "networks"
}
