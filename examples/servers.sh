# Sourced by `test`: a coordinator and a PostgreSQL for one run, and their end. The caller has set
# `work` and `target`, and defined `skip`.

started=()
postgres=
data=

stop_all() {
  # Those that wait for a server end before it does.
  [ "${#started[@]}" -eq 0 ] || kill -9 "${started[@]}" 2>/dev/null || true
  [ -z "$postgres" ] || kill -QUIT "$postgres" 2>/dev/null || true
  wait 2>/dev/null
  [ -z "$data" ] || rm -rf "$data"
}
trap stop_all EXIT

# until_true SECONDS COMMAND...: false if it does not succeed in time.
until_true() {
  local tries=$(($1 * 10))
  shift
  until "$@" >/dev/null 2>&1; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || return 1
    sleep 0.1
  done
}

# With the embedded store, on a free port.
start_coordinator() {
  lockkeeper=$(realpath "${LOCKKEEPER:-$target/debug/lockkeeper}")
  [ -x "$lockkeeper" ] || skip "there is no coordinator at $lockkeeper"
  : >"$work/coordinator.log"
  env -u RUST_LOG "$lockkeeper" serve --listen 127.0.0.1:0 --set log.format=json \
    2>"$work/coordinator.log" &
  started+=($!)
  until_true 20 grep -q '"message":"serving"' "$work/coordinator.log" || {
    cat "$work/coordinator.log"
    echo "the coordinator does not serve"
    exit 1
  }
  local address
  address=$(sed -n 's/.*"address":"\([^"]*\)".*/\1/p' "$work/coordinator.log" | head -n 1)
  export LOCKKEEPER_SERVER=http://$address
}

# Sets `postgres_bin`. Debian keeps the programs out of PATH. A machine for tests installs them.
find_postgres() {
  local found
  found=$(command -v initdb || printf '%s\n' /usr/lib/postgresql/*/bin/initdb | sort -V | tail -n 1)
  postgres_bin=$(dirname "$(realpath "$found")")
  [ -x "$postgres_bin/initdb" ]
}

postgres_serves() { "$postgres_bin/psql" -XAtq "$DATABASE_URL" -c 'SELECT 1'; }
postgres_has_ended() { ! kill -0 "$postgres"; }
postgres_has_started() { postgres_has_ended || postgres_serves; }

# In a folder that is removed, on a free port, with the tables of the examples.
start_postgres() {
  find_postgres || {
    [ "${CI:-}" = true ] && scripts/install-test-tools postgresql pg_ctlcluster && find_postgres
  } || skip "PostgreSQL is not installed (scripts/install-test-tools postgresql pg_ctlcluster)"
  data=$(mktemp -d)
  local as=() port log=$work/postgres.log
  if [ "$(id -u)" -eq 0 ]; then # PostgreSQL refuses to run as root.
    chown postgres "$data"
    as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
  fi
  cd "$data"
  "${as[@]}" "$postgres_bin/initdb" --pgdata=db --auth=trust --username=postgres --no-sync \
    --encoding=UTF8 >"$log" 2>&1 || { cat "$log" && exit 1; }
  for _ in $(seq 20); do
    port=$((20000 + RANDOM % 20000))
    export DATABASE_URL="postgresql://127.0.0.1:$port/postgres?user=postgres"
    "${as[@]}" "$postgres_bin/postgres" -D db -F -h 127.0.0.1 -p "$port" -k '' >>"$log" 2>&1 &
    postgres=$!
    until_true 30 postgres_has_started || { cat "$log" && exit 1; }
    postgres_has_ended 2>/dev/null || break # Else another has the port.
  done
  cd - >/dev/null
  "$postgres_bin/psql" -Xq -v ON_ERROR_STOP=1 "$DATABASE_URL" -f examples/schema.sql
}
