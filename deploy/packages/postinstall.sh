#!/bin/sh
# After an installation or an upgrade, for deb and rpm: creates the system user and, once, the
# secret that signs resume tokens. The service is not started: its settings come first.
set -e

if ! getent passwd lockkeeper >/dev/null; then
  useradd --system --user-group --no-create-home --home-dir /nonexistent \
    --shell /usr/sbin/nologin --comment Lockkeeper lockkeeper
fi

secret=/etc/lockkeeper/session-secret
if [ ! -e "$secret" ]; then
  (umask 077 && head -c 32 /dev/urandom | base64 >"$secret.new")
  mv "$secret.new" "$secret"
fi

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  # Only if it runs. Sessions resume, because the secret stays.
  systemctl try-restart lockkeeper.service
fi
