#!/bin/sh
# After the files are gone. The user stays, so that its number is not given to another. dpkg passes
# `purge` if the settings are to go too; rpm never does.
set -e

case ${1:-} in
  purge)
    rm -f /etc/lockkeeper/session-secret
    if [ -d /etc/lockkeeper ]; then
      rmdir --ignore-fail-on-non-empty /etc/lockkeeper
    fi
    ;;
esac
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload ||
    echo "lockkeeper: systemd still has the old unit: run systemctl daemon-reload" >&2
fi
