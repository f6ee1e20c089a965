#!/bin/sh
# Before Superset starts: its session key, metadata, administrator and dashboards. Safe to repeat.
set -eu
umask 077
printf %s "$SUPERSET_SECRET_KEY" >"$SUPERSET_HOME/secret_key"
superset db upgrade
superset init
superset fab create-admin --username admin --firstname Admin --lastname giscope \
    --email admin@localhost --password "$SUPERSET_ADMIN_PASSWORD"
python /opt/giscope/infra/superset/load.py "$GISCOPE_NETWORKS"
