#!/bin/sh
# Import the dashboards into Superset, with roles for the countries of a networks file: import.sh NETWORKS.
# Safe to repeat.
set -eu
[ -r "$1" ] || { echo "dashboards: $1: no such networks file" >&2; exit 2; }
networks=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
. "$(dirname "$0")/env.sh"
{
    .venv/bin/python -m spark_jobs.dashboards.assets "$SUPERSET_HOME/assets.json" &&
        python infra/superset/load.py "$SUPERSET_HOME/assets.json" "$networks"
} >"$SUPERSET_HOME/load.log" 2>&1 ||
    { echo "dashboards: import failed: see $SUPERSET_HOME/load.log" >&2; exit 1; }
