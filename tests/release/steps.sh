# Sourced by smoke.sh: what it checks. Each check runs in a subshell, with -e, and prints why it
# fails. The caller sets `built`, `work`, `dist`, `root`, `version` and `arch`.
# shellcheck shell=bash disable=SC2154

passed=0
failed=0

# check WHAT FUNCTION [ARGUMENT ...]
check() {
  local what=$1 status=0
  shift
  # Not in a condition, where -e has no effect.
  set +e
  (set -e; trap stop_serving EXIT; "$@") >"$work/check.log" 2>&1
  status=$?
  set -e
  if [ "$status" -eq 0 ]; then
    passed=$((passed + 1))
    echo "ok release: $what"
  else
    failed=$((failed + 1))
    echo "FAILED release: $what"
    cat "$work/check.log"
  fi
}

fail() {
  echo "$1"
  exit 1
}

pack_twice() {
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
  export SOURCE_DATE_EPOCH
  strip -o "$work/lockkeeper" "$built/debug/lockkeeper"
  scripts/pack "$work/lockkeeper" "$work/lockkeeper" "$arch" gnu "$dist"
  # From another folder, at another time, with another mask.
  mkdir "$work/again"
  cp "$work/lockkeeper" "$work/again/lk"
  (umask 077; TZ=Asia/Tokyo LC_ALL=C TMPDIR=$work/again scripts/pack "$work/again/lk" \
    "$work/again/lk" "$arch" gnu "$work/again")
  rm "$work/again/lk"
  (cd "$dist" && sha256sum -- *) >"$work/SHA256SUMS"
  mv "$work/SHA256SUMS" "$dist/"
  check "two packings have the same bytes" same_bytes
}

same_bytes() {
  (cd "$work/again" && sha256sum --check "$dist/SHA256SUMS")
}

# === A coordinator ===

serving=
address=

# serve COMMAND...: starts a coordinator with settings for a test, and waits until it serves.
serve() {
  "$@" --listen 127.0.0.1:0 --set log.format=json 2>"$work/serve.log" &
  serving=$!
  for _ in $(seq 300); do
    address=$(sed -n '/"message":"serving"/s/.*"address":"\([^"]*\)".*/\1/p' "$work/serve.log")
    [ -z "$address" ] || return 0
    kill -0 "$serving" || break
    sleep 0.1
  done
  cat "$work/serve.log"
  fail "does not serve"
}

stop_serving() {
  if [ -n "$serving" ] && kill "$serving"; then
    wait "$serving" || true
  fi
  serving=
}

# lock COMMAND...: takes a lock by the command line, finds it held, and releases it.
lock() {
  export LOCKKEEPER_SERVER=http://$address
  "$@" health
  "$@" try-acquire report --owner tester
  if "$@" try-acquire report; then
    fail "two owners hold the lock"
  fi
  "$@" release report --owner tester
}

# === The archive and the install script ===

archive_serves() {
  local name
  name=$(basename "$1" .tar.gz)
  rm -rf "${work:?}/$name"
  tar -xzf "$1" -C "$work"
  local program=$work/$name/bin/lockkeeper
  "$program" --version
  "$program" --version | grep -q "^lockkeeper $version "
  [[ "$name" != *-static ]] || ! readelf --program-headers "$program" | grep INTERP
  grep -q '^.TH lockkeeper-acquire ' "$work/$name/share/man/man1/lockkeeper-acquire.1"
  bash -n "$work/$name/share/bash-completion/completions/lockkeeper"
  serve "$program" serve
  lock "$program"
}

libc_there() {
  for libc in gnu static; do
    [ ! -e "$dist/lockkeeper-$version-$arch-linux-$libc.tar.gz" ] || { echo "$libc"; return; }
  done
}

# A copy of the release that a check may spoil.
copy_of_release() {
  rm -rf "$work/spoilt" "$work/prefix"
  mkdir "$work/spoilt"
  cp "$dist"/SHA256SUMS "$dist/lockkeeper-$version-$arch-linux-$(libc_there).tar.gz" "$work/spoilt/"
}

# install_spoilt MESSAGE
install_spoilt() {
  ! sh deploy/install.sh --from "$work/spoilt" --prefix "$work/prefix" --libc "$(libc_there)" \
    2>"$work/said" || fail "installed it"
  cat "$work/said"
  grep -q "$1" "$work/said"
  [ ! -e "$work/prefix" ] || fail "left something in the prefix"
}

install_refuses_a_wrong_sum() {
  copy_of_release
  printf x >>"$work"/spoilt/*.tar.gz
  install_spoilt 'nothing was installed'
}

install_refuses_a_missing_sum() {
  copy_of_release
  sed -i "/$arch-linux/d" "$work/spoilt/SHA256SUMS"
  install_spoilt 'does not name'
}

# As where /tmp is mounted with noexec.
install_names_a_folder_without_programs() {
  copy_of_release
  cp deploy/install.sh "$work/spoilt/"
  mkdir -p "$work/noexec"
  ! unshare --mount sh -ec '
    mount -t tmpfs -o noexec tmpfs "$1/noexec"
    TMPDIR=$1/noexec sh "$1/spoilt/install.sh" --from "$1/spoilt" --prefix "$1/prefix" --libc "$2"
  ' sh "$work" "$(libc_there)" 2>"$work/said" || fail "installed it"
  cat "$work/said"
  grep -q 'set TMPDIR' "$work/said"
  [ ! -e "$work/prefix" ] || fail "left something in the prefix"
}

install_from_a_folder() {
  local home=$work/home
  rm -rf "$home"
  mkdir -p "$home"
  chown 65534:65534 "$home"
  chmod 0755 "$work"
  cp deploy/install.sh "$home/"
  (cd "$home" && env -i HOME="$home" PATH="$PATH" setpriv --reuid 65534 --regid 65534 \
    --clear-groups sh install.sh --from "$dist" --libc "$(libc_there)") >"$work/said"
  grep -Fx "  fpath=($home/.local/share/zsh/site-functions \$fpath)" "$work/said"
  local program=$home/.local/bin/lockkeeper
  [ "$(stat -c %u "$program")" -eq 65534 ]
  [ -s "$home/.local/share/man/man1/lockkeeper-run.1" ]
  [ -s "$home/.local/share/bash-completion/completions/lockkeeper" ]
  serve "$program" serve
  lock "$program"
}

install_from_a_url() {
  local prefix=$work/over
  rm -rf "$prefix"
  mkdir -p "$prefix/bin"
  cp "$(command -v sleep)" "$prefix/bin/lockkeeper"
  "$prefix/bin/lockkeeper" 600 &
  local running=$!
  python3 -u -m http.server --bind 127.0.0.1 --directory "$dist" 0 >"$work/http.log" 2>&1 &
  local server=$!
  # shellcheck disable=SC2064
  trap "kill $server $running; stop_serving" EXIT
  local url=
  for _ in $(seq 100); do
    url=$(sed -n 's/.*(\(http:[^)]*\)\/).*/\1/p' "$work/http.log")
    [ -z "$url" ] || break
    sleep 0.1
  done
  (umask 077 && sh deploy/install.sh --from "$url" --prefix "$prefix" --libc "$(libc_there)")
  [ "$(stat -c %a "$prefix/bin/lockkeeper")" -eq 755 ] || fail "other users cannot run it"
  kill -0 "$running" || fail "the program that ran was ended"
  serve "$prefix/bin/lockkeeper" serve
  lock "$prefix/bin/lockkeeper"
}

# As when the connection ends while `curl ... | sh` reads it.
half_an_install_does_nothing() {
  rm -rf "$work/prefix"
  head -c $(($(wc -c <deploy/install.sh) - 10)) deploy/install.sh >"$work/half.sh"
  sh "$work/half.sh" --from "$dist" --prefix "$work/prefix" || true
  [ ! -e "$work/prefix" ] || fail "installed something"
}

# === The packages, in a Debian of their own ===

inside() {
  DEBIAN_FRONTEND=noninteractive LC_ALL=C chroot "$root" "$@"
}

# of_service FILE...: root's, and readable for the service and nobody else.
of_service() {
  local file
  for file; do
    [ "$(inside stat -c '%a %U:%G' "$file")" = "640 root:lockkeeper" ] || fail "the mode of $file"
  done
}

# The service's command as its user, with the files that it names.
serve_installed() {
  local unit=$root/usr/lib/systemd/system/lockkeeper.service
  grep -x 'ExecStart=/usr/bin/lockkeeper serve --config /etc/lockkeeper/config.toml' "$unit"
  of_service /etc/lockkeeper/config.toml /etc/lockkeeper/session-secret
  [ "$(wc -c <"$root/etc/lockkeeper/session-secret")" -ge 32 ]
  local variable
  variable=$(sed -n 's/^Environment=//p' "$unit")
  export "${variable?}"
  serve chroot --userspec="lockkeeper:lockkeeper" "$root" /usr/bin/lockkeeper serve \
    --config /etc/lockkeeper/config.toml
  [ "$(stat -c %u "/proc/$serving")" -eq "$(inside id -u lockkeeper)" ] ||
    fail "does not run as lockkeeper"
}

# A service manager that runs and refuses everything, such as a service that does not start again.
refusing_systemctl() {
  mkdir -p "$root/run/systemd/system"
  printf '#!/bin/sh\necho "$@" >>/systemctl.log\nexit 1\n' >"$root/usr/bin/systemctl"
  chmod 0755 "$root/usr/bin/systemctl"
  rm -f "$root/systemctl.log"
}

deb_lives() {
  local deb
  deb=$(basename "$dist"/*_"$(dpkg --print-architecture)".deb)
  cp "$dist/$deb" "$root/"
  refusing_systemctl
  inside dpkg --purge lockkeeper
  inside dpkg --install "/$deb"
  inside dpkg --verify lockkeeper
  inside dpkg --status lockkeeper | grep -x "Version: $version-1"
  serve_installed
  lock inside /usr/bin/lockkeeper
  stop_serving
  [ -s "$root/usr/share/zsh/vendor-completions/_lockkeeper" ] || fail "no completion for zsh"
  # Again, as in an upgrade: what was changed stays, and what only root could read is repaired.
  local secret
  secret=$(cat "$root/etc/lockkeeper/session-secret")
  echo '# mine' >>"$root/etc/lockkeeper/config.toml"
  inside sh -c 'cd /etc/lockkeeper && chgrp root * && chmod 0600 *'
  inside dpkg --force-confold --install "/$deb"
  of_service /etc/lockkeeper/config.toml /etc/lockkeeper/session-secret
  grep -x '# mine' "$root/etc/lockkeeper/config.toml"
  [ "$(cat "$root/etc/lockkeeper/session-secret")" = "$secret" ] || fail "another secret"
  inside dpkg --remove lockkeeper
  [ ! -e "$root/usr/bin/lockkeeper" ] && [ -e "$root/etc/lockkeeper/config.toml" ]
  inside dpkg --purge lockkeeper
  [ ! -e "$root/etc/lockkeeper" ] || fail "the purge leaves something"
  for call in daemon-reload "try-restart lockkeeper.service" "disable --now lockkeeper.service"; do
    grep -x -e "$call" "$root/systemctl.log"
  done
}

rpm_lives() {
  local rpm db=$work/rpmdb
  rpm=$(echo "$dist"/*."$arch".rpm)
  rpm --checksig --nosignature "$rpm"
  rm -rf "$db" "${root:?}$db"
  mkdir -p "$db" "$root$db"
  # This root has no other packages of rpm, so what it requires is looked at below.
  rpm --root "$root" --dbpath "$db" --install --nodeps "$rpm"
  serve_installed
  lock inside /usr/bin/lockkeeper
  stop_serving
  rpm --root "$root" --dbpath "$db" --erase --nodeps lockkeeper
  [ ! -e "$root/usr/bin/lockkeeper" ] || fail "the removal leaves the binary"
  rm -rf "$root/etc/lockkeeper" "${root:?}$db"
  rpm --query --package --requires "$rpm" | grep -x 'glibc >= 2\.[0-9]*'
  rpm --query --package --configfiles "$rpm" | grep -x /etc/lockkeeper/config.toml
}

packages_agree() {
  rm -rf "$work/of-deb" "$work/of-rpm"
  dpkg-deb --extract "$dist"/*_"$(dpkg --print-architecture)".deb "$work/of-deb"
  mkdir "$work/of-rpm"
  # The names in an rpm are absolute. rpm2cpio fails because nfpm records another size of the
  # payload; what came out of it is compared below.
  (rpm2cpio "$dist"/*."$arch".rpm || true) | (cd "$work/of-rpm" &&
    cpio --extract --make-directories --no-absolute-filenames --quiet)
  rm -r "$work"/of-deb/usr/share/{doc/lockkeeper/copyright,zsh/vendor-completions}
  diff -r "$work/of-deb" "$work/of-rpm"
}
