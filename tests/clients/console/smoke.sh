#!/usr/bin/env bash
# Runs smoke.mjs: the web console in a headless Chromium, against a real coordinator. Packages go to target/. With SCREENSHOTS=1 it also writes the pictures
# in docs/images/console/. Exits with 77 if what it needs is not there, or with 1 if CI=true, where everything must be.
set -euo pipefail
cd "$(dirname "$0")/../../.."
here=tests/clients/console
built=${CARGO_TARGET_DIR:-target}
work=$built/clients/console

suite=console
# shellcheck source=tests/clients/skip.sh
source tests/clients/skip.sh

command -v node >/dev/null || skip "node is not installed"
command -v npm >/dev/null || skip "npm is not installed"
if ! command -v chromium >/dev/null; then
  # A machine for tests may install it; a laptop is asked to.
  [ "${CI:-}" = true ] || skip "chromium is not installed (scripts/install-test-tools chromium)"
  scripts/install-test-tools chromium || skip "chromium cannot be installed"
fi
mkdir -p "$work"
if ! cmp -s "$here/package.json" "$work/package.json"; then
  cp "$here/package.json" "$work/package.json"
  if ! (cd "$work" && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm install --silent --no-audit --no-fund --no-package-lock); then
    rm -f "$work/package.json"
    skip "playwright-core cannot be installed"
  fi
fi
cp "$here"/*.mjs "$work"
exec node "$work/smoke.mjs" "$built/debug/lockkeeper" "$PWD/docs/images"
