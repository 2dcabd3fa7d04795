#!/usr/bin/env bash
# Installs what a release has, by each of its ways, and takes a lock with what was installed.
#
#   tests/release/smoke.sh [FOLDER]
#
# FOLDER has what `make dist` built. Without it the debug binary is packed, twice, which must give
# the same bytes. Needs root, for a Debian of its own in which the packages are installed. Ends with
# `N passed, N failed`, or with 77 if what it needs is not there, or with 1 if CI=true.
set -euo pipefail
cd "$(dirname "$0")/../.."
built=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$built/release-test
tools=$built/tools
suite=release
nfpm_version=$(sed -n 's/^nfpm_version=//p' scripts/pack)
# shellcheck source=tests/clients/skip.sh
source tests/clients/skip.sh
# shellcheck source=tests/release/steps.sh
source tests/release/steps.sh

[ "$(id -u)" -eq 0 ] || skip "needs root, to install packages into a Debian of its own"
command -v python3 >/dev/null || skip "python3 is not installed"
command -v curl >/dev/null || skip "curl is not installed"
for tool in debootstrap rpm rpm2cpio cpio setpriv:util-linux; do
  scripts/install-test-tools "${tool#*:}" "${tool%:*}" || skip "$tool cannot be installed"
done
# go_tool NAME MODULE@VERSION
go_tool() {
  [ ! -x "$tools/$1" ] || return 0
  command -v go >/dev/null || skip "go is not installed, which builds $1"
  GOBIN=$tools GOFLAGS=-modcacherw go install -ldflags '-s -w' "$2" ||
    skip "$1 cannot be installed"
}
go_tool nfpm "github.com/goreleaser/nfpm/v2/cmd/nfpm@$nfpm_version"
go_tool actionlint github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
export PATH=$tools:$PATH

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
arch=$(uname -m)
rm -rf "$work"
mkdir -p "$work"

if [ $# -gt 0 ]; then
  dist=$(realpath "$1")
else
  dist=$work/dist
  pack_twice || { echo "FAILED release: nothing could be packed"; exit 1; }
fi

root=$built/release-root
if [ ! -e "$root/complete" ]; then
  rm -rf "$root"
  debootstrap --variant=minbase bookworm "$root" >"$work/debootstrap.log" 2>&1 ||
    { tail -n 5 "$work/debootstrap.log"; skip "debootstrap cannot install Debian"; }
  touch "$root/complete"
fi

check "the workflows of the forge are sound" actionlint .github/workflows/*.yml

for archive in "$dist/lockkeeper-$version-$arch"-linux-*.tar.gz; do
  check "$(basename "$archive") unpacks and serves" archive_serves "$archive"
done
check "install.sh refuses an archive with another sum" install_refuses_a_wrong_sum
check "install.sh refuses an archive without a sum" install_refuses_a_missing_sum
check "install.sh names the folder in which no program runs" install_names_a_folder_without_programs
check "install.sh installs from a folder, without root" install_from_a_folder
check "install.sh installs from a URL, over an older one that runs" install_from_a_url
check "half of install.sh does nothing" half_an_install_does_nothing
if compgen -G "$dist/*.deb" >/dev/null; then
  check "the deb is installed, serves, keeps its settings, and is purged" deb_lives
  check "the rpm is installed, serves, and is removed" rpm_lives
  check "the rpm holds what the deb holds" packages_agree
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
