#!/bin/sh
# Make Airflow's metadata, its administrator's password and the pool of the DAG before it starts.
set -eu
umask 077
python -c 'import json, sys; print(json.dumps({"admin": sys.stdin.read().strip()}))' \
    <"$AIRFLOW_ADMIN_PASSWORD_FILE" >"$AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"
airflow db migrate
airflow pools set giscope 4 "number of giscope's tasks at a time"
