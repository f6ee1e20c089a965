#!/bin/sh
# Superset's own command with giscope's settings: sh infra/superset/superset.sh fab list-users
set -eu
cd "$(dirname "$0")/../.."
export SUPERSET_HOME="${SUPERSET_HOME:-$PWD/build/superset}"
export SUPERSET_CONFIG_PATH="$PWD/infra/superset/superset_config.py"
export GISCOPE_WAREHOUSE="${GISCOPE_WAREHOUSE:-$PWD/build/demo}"
command=$1
shift
exec ".venv-superset/bin/$command" "$@"
