#!/bin/sh
# Start the dashboards of a warehouse on loopback: start.sh WAREHOUSE NETWORKS PORT. Safe to repeat.
set -eu
[ -e "$1/warehouse.duckdb" ] || { echo "dashboards: $1: no warehouse.duckdb in this folder: name a warehouse, or run giscope run first" >&2; exit 2; }
[ -r "$2" ] || { echo "dashboards: $2: no such networks file" >&2; exit 2; }
GISCOPE_WAREHOUSE=$(cd "$1" && pwd -P)
networks=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
. "$(dirname "$0")/env.sh"
mkdir -p "$SUPERSET_HOME"
SUPERSET_HOME=$(cd "$SUPERSET_HOME" && pwd -P)
export SUPERSET_ADDRESS="http://127.0.0.1:$3"
case $GISCOPE_WAREHOUSE/ in "$SUPERSET_HOME"/*)
    echo "dashboards: $GISCOPE_WAREHOUSE: the warehouse is inside SUPERSET_HOME, where Superset may write: move one of them" >&2
    exit 2 ;;
esac
sh infra/superset/setup.sh
sh infra/superset/import.sh "$networks"
echo "Dashboards: http://127.0.0.1:$3/superset/dashboard/giscope/"
echo "Log in:     admin, password in $SUPERSET_HOME/admin_password"
python infra/superset/run_confined.py "$SUPERSET_HOME" true # prints a warning if the kernel cannot confine it
exec python infra/superset/run_confined.py "$SUPERSET_HOME" \
    gunicorn --bind "127.0.0.1:$3" --workers 2 --threads 4 --timeout 120 --log-level warning \
    "superset.app:create_app()" >"$SUPERSET_HOME/server.log" 2>&1
