#!/usr/bin/env bash
# Runs smoke.py, which runs Terraform unchanged, against a real coordinator on a free port. Exits with 77 if what it
# needs is not there, or with 1 if CI=true, where everything must be. Ends with `N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")/../../.."

suite=terraform
# shellcheck source=tests/clients/skip.sh
source tests/clients/skip.sh

command -v python3 >/dev/null || skip "python3 is not installed"
terraform=
for command in terraform tofu; do
  terraform=${terraform:-$(command -v "$command" || true)}
done

# shellcheck source=tests/clients/coordinator.sh
source tests/clients/coordinator.sh --set facades.terraform=true
# Without either, the protocol is checked, and said to be.
python3 -u tests/clients/terraform/smoke.py "$address" "$terraform"
