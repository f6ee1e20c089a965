#!/bin/sh
# Check alerts and send reports every minute, beside the server that start.sh started: alerts.sh WAREHOUSE PORT.
set -eu
[ -e "$1/warehouse.duckdb" ] || { echo "alerts: $1: no warehouse.duckdb in this folder: name the warehouse of make dashboards" >&2; exit 2; }
GISCOPE_WAREHOUSE=$(cd "$1" && pwd -P)
. "$(dirname "$0")/env.sh"
[ -s "$SUPERSET_HOME/secret_key" ] || { echo "alerts: $SUPERSET_HOME: no dashboards here: run make dashboards first" >&2; exit 2; }
SUPERSET_HOME=$(cd "$SUPERSET_HOME" && pwd -P)
export SUPERSET_ADDRESS="http://127.0.0.1:$2"
echo "Alerts: checked every minute; log in $SUPERSET_HOME/alerts.log"
exec python infra/superset/run_confined.py "$SUPERSET_HOME" \
    python infra/superset/alerts.py >"$SUPERSET_HOME/alerts.log" 2>&1
