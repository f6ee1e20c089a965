#!/bin/sh
# Before Airflow starts: its metadata, its administrator's password, the pool that the DAG uses.
set -eu
umask 077
python -c 'import json, sys; print(json.dumps({"admin": sys.stdin.read().strip()}))' \
    <"$AIRFLOW_ADMIN_PASSWORD_FILE" >"$AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"
airflow db migrate
airflow pools set giscope 4 "giscope's tasks at one time"
