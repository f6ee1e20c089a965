#!/bin/sh
# Copy captures into the landing folder of docker-compose.yml's Airflow: land.sh FOLDER, which has
# <network>/<YYYY-MM-DD>/<file>. The days are complete then, so Airflow does not wait for more files.
set -eu
[ -n "$(find "$1" -mindepth 3 -maxdepth 3 -type f 2>/dev/null | head -n 1)" ] ||
    { echo "land.sh: $1: no file <network>/<YYYY-MM-DD>/<file> in this folder" >&2; exit 2; }
from=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
inside() { docker compose exec -T airflow-scheduler "$@"; }
(cd "$from" && tar --exclude _COMPLETE -c -- *) | # without ".", whose mode the volume would get
    inside tar -C /srv/giscope/landing --no-same-owner --no-overwrite-dir -x
# Zeek, of the same group, writes into these folders, too.
inside find /srv/giscope/landing -user 50000 ! -perm -g+w -exec chmod g+w {} +
for day in "$from"/*/*/; do
    ls "$day" | grep -vx _COMPLETE | inside tee "/srv/giscope/landing/${day#"$from"/}_COMPLETE" >/dev/null
    echo "landed ${day#"$from"/}"
done
