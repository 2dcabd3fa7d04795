#!/bin/sh
# Before the files go. dpkg passes `remove`, rpm the number of versions that stay.
set -e

case ${1:-} in
  remove | 0)
    if [ -d /run/systemd/system ]; then
      systemctl disable --now lockkeeper.service ||
        echo "lockkeeper: the service may still run: see systemctl status lockkeeper" >&2
    fi
    ;;
esac
