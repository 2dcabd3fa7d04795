#!/bin/sh
# Installs a release of Lockkeeper: the binary, man pages and completions of shells. Needs no root.
#
#   install.sh [--prefix FOLDER] [--version VERSION] [--libc gnu|static] [--from URL|FOLDER]
#
# Without --prefix it installs into /usr/local as root, else into ~/.local. --from is where the
# archives and SHA256SUMS are: by default the release's page. Nothing is installed unless the
# archive has the SHA-256 that SHA256SUMS says.
set -eu

version=0.2.0
# What the gnu archives need at least; an older system or another libc gets the static one.
glibc_min=2.34

fail() {
  echo "install: $1" >&2
  exit 1
}

# True if version $1 is at least $2; both are MAJOR.MINOR.
at_least() {
  [ "${1%%.*}" -gt "${2%%.*}" ] ||
    { [ "${1%%.*}" -eq "${2%%.*}" ] && [ "${1#*.}" -ge "${2#*.}" ]; }
}

machine() {
  [ "$(uname -s)" = Linux ] || fail "there are archives for Linux only: build it from its source"
  case $(uname -m) in
    x86_64 | amd64) echo x86_64 ;;
    aarch64 | arm64) echo aarch64 ;;
    *) fail "there is no archive for $(uname -m): build it from its source" ;;
  esac
}

libc_here() {
  found=$(getconf GNU_LIBC_VERSION 2>/dev/null) || found=
  if [ -n "$found" ] && at_least "${found#glibc }" "$glibc_min"; then
    echo gnu
  else
    echo static
  fi
}

# fetch NAME: into the present folder.
fetch() {
  case $from in
    *://*)
      if command -v curl >/dev/null; then
        curl --fail --silent --show-error --location --output "$1" "$from/$1"
      elif command -v wget >/dev/null; then
        wget -q -O "$1" "$from/$1"
      else
        fail "needs curl or wget"
      fi
      ;;
    *) cp "$from/$1" "$1" ;;
  esac || fail "cannot fetch $from/$1"
}

sum_of() {
  if command -v sha256sum >/dev/null; then
    sha256sum "$1"
  else
    shasum -a 256 "$1" || fail "needs sha256sum or shasum"
  fi | cut -d ' ' -f 1
}

# Why the binary does not run in the present folder.
why_not() {
  printf '#!/bin/sh\n' >probe
  chmod +x probe
  ./probe ||
    fail "no program runs in $PWD (noexec): nothing was installed; set TMPDIR to another folder"
  fail "the binary does not run here: nothing was installed; try --libc static"
}

# Each file takes the place of the old one at once, so that a running program goes on.
install_tree() {
  (cd "$1" && find . -type f) | while read -r file; do
    mkdir -p "$prefix/${file%/*}"
    cp "$1/$file" "$prefix/$file.new"
    mv "$prefix/$file.new" "$prefix/$file"
  done
}

main() {
  prefix='' libc='' from=''
  while [ $# -gt 0 ]; do
    case $1 in
      --prefix | --version | --libc | --from)
        [ $# -gt 1 ] || fail "$1 needs a value"
        case $1 in
          --prefix) prefix=$2 ;;
          --version) version=$2 ;;
          --libc) libc=$2 ;;
          --from) from=$2 ;;
        esac
        shift 2
        ;;
      *) fail "unknown argument $1; use --prefix, --version, --libc and --from" ;;
    esac
  done
  if [ -z "$prefix" ]; then
    if [ "$(id -u)" -eq 0 ]; then prefix=/usr/local; else prefix=$HOME/.local; fi
  fi
  [ -n "$from" ] || from=https://github.com/lockkeeper/lockkeeper/releases/download/v$version
  case $from in
    *://* | /*) ;;
    *) from=$PWD/$from ;;
  esac
  case $prefix in
    /*) ;;
    *) prefix=$PWD/$prefix ;;
  esac
  arch=$(machine)
  [ -n "$libc" ] || libc=$(libc_here)
  name=lockkeeper-$version-$arch-linux-$libc

  # What root installs is for all users, whatever its umask.
  umask 022
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' HUP INT TERM
  cd "$work"
  fetch SHA256SUMS
  expected=$(sed -n "s/^\([0-9a-f]\{64\}\)  $name\.tar\.gz\$/\1/p" SHA256SUMS)
  [ -n "$expected" ] || fail "$from/SHA256SUMS does not name $name.tar.gz"
  fetch "$name.tar.gz"
  actual=$(sum_of "$name.tar.gz")
  [ "$actual" = "$expected" ] ||
    fail "$name.tar.gz has SHA-256 $actual, and not $expected: nothing was installed"
  tar -xzf "$name.tar.gz"
  "$name/bin/lockkeeper" --version >/dev/null || why_not
  install_tree "$name"

  echo "installed $("$prefix/bin/lockkeeper" --version) in $prefix/bin"
  case :$PATH: in
    *":$prefix/bin:"*) ;;
    *) echo "$prefix/bin is not in PATH" ;;
  esac
  case $prefix in
    /usr | /usr/local) ;;
    *)
      echo "completions of zsh need this in ~/.zshrc, before compinit:"
      echo "  fpath=($prefix/share/zsh/site-functions \$fpath)"
      ;;
  esac
}

# In a function, so that half a download does nothing.
main "$@"
