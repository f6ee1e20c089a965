#!/bin/bash
# Start PostgreSQL. In an empty PGDATA first make the cluster, with the superuser's password of
# POSTGRES_PASSWORD_FILE, and run the scripts of /docker-entrypoint-initdb.d on a server that listens on
# its socket only. As in the official image, a script that is not executable is sourced.
set -Eeuo pipefail
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    chmod 700 "$PGDATA"
    initdb --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE"
    echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
    pg_ctl --wait --options="-c listen_addresses=''" start
    for script in /docker-entrypoint-initdb.d/*.sh; do
        if [ -x "$script" ]; then "$script"; else . "$script"; fi
    done
    pg_ctl --wait --mode=fast stop
fi
exec "$@" -c "listen_addresses=*"
