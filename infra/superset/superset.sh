#!/bin/sh
# Superset's own command with giscope's settings: sh infra/superset/superset.sh fab list-users
set -eu
. "$(dirname "$0")/env.sh"
exec superset "$@"
