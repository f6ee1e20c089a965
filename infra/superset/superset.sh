#!/bin/sh
# Run Superset's command with giscope's settings: sh infra/superset/superset.sh fab list-users
set -eu
. "$(dirname "$0")/env.sh"
exec superset "$@"
