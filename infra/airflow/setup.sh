#!/bin/sh
# Install Airflow into its own environment; make its metadata and the pool of giscope's tasks. Safe to
# repeat.
set -eu
cd "$(dirname "$0")/../.."
uv=$(command -v uv || echo .tools/bin/uv)
airflow=infra/airflow/airflow
export AIRFLOW_HOME="${AIRFLOW_HOME:-$PWD/build/airflow}"
[ -x .venv-airflow/bin/python ] || "$uv" venv -q --python 3.11 .venv-airflow
"$uv" pip sync -q --python .venv-airflow/bin/python infra/airflow/requirements.txt

umask 077
mkdir -p "$AIRFLOW_HOME"
log="$AIRFLOW_HOME/setup.log"
{ $airflow db migrate && $airflow pools set giscope "${GISCOPE_SLOTS:-1}" \
    "number of giscope's commands at a time: 1 on one machine, more on a cluster"; } >"$log" 2>&1 ||
    { echo "Airflow: set-up failed: see $log" >&2; exit 1; }
