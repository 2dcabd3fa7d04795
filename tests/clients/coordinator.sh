# Sourced by suites with a coordinator of their own, on a free port. Its further arguments are those of this file. Sets
# `address`, and ends the coordinator with the suite. Exits with 1 if it does not serve.

# A file of each run: in one that is used again, the address of an earlier run may be read.
log=$(mktemp)
env -u RUST_LOG "${CARGO_TARGET_DIR:-target}/debug/lockkeeper" serve --listen 127.0.0.1:0 \
  --set log.format=json "$@" 2>"$log" &
coordinator=$!
trap 'kill "$coordinator" 2>/dev/null || true; wait "$coordinator" 2>/dev/null || true; rm -f "$log"' EXIT
address=
for _ in $(seq 100); do
  address=$(sed -n 's/.*"address":"\([^"]*\)".*/\1/p' "$log")
  [ -n "$address" ] && break
  sleep 0.1
done
if [ -z "$address" ]; then
  cat "$log"
  echo "the coordinator does not serve"
  exit 1
fi
