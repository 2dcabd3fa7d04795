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
# The service reads both as its own user. Up to 0.2.0, systemd read them for it as root.
for file in /etc/lockkeeper/config.toml "$secret"; do
  if [ -e "$file" ]; then
    chgrp lockkeeper "$file"
    chmod 0640 "$file"
  fi
done

# What is installed is whole, whatever the service manager says.
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload ||
    echo "lockkeeper: the new unit is not read yet: run systemctl daemon-reload" >&2
  # Only if it runs. Sessions resume, because the secret stays.
  systemctl try-restart lockkeeper.service ||
    echo "lockkeeper: the service is not restarted: see systemctl status lockkeeper" >&2
fi
