# Sourced by suites that need what may not be there. The caller has set `suite`, by which it is named.

# Ends with 77, or with 1 if CI=true, where everything must be.
skip() {
  echo "SKIPPED $suite: $1"
  [ "${CI:-}" = true ] && exit 1
  exit 77
}
