#!/bin/sh
# Make Superset's metadata, administrator and dashboards before it starts. Safe to repeat.
set -eu
umask 077
superset db upgrade
superset init
superset fab create-admin --username admin --firstname Admin --lastname giscope \
    --email admin@localhost --password "$(cat "$SUPERSET_ADMIN_PASSWORD_FILE")"
python /opt/giscope/infra/superset/load.py "$GISCOPE_NETWORKS"
