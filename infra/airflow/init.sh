#!/bin/sh
# Make Airflow's metadata, its administrator's password and the pool of the DAG before it starts in
# containers. Fail if the DAG would refuse its settings.
set -eu
umask 077
cd /opt/giscope/dags
python -c '
import os, sys
from datetime import UTC, datetime
from landing import settings_of
try:
    settings_of(os.environ, datetime.now(UTC).date())
except ValueError as refused:
    sys.exit(str(refused))'
python -c 'import json, sys; print(json.dumps({"admin": sys.stdin.read().strip()}))' \
    <"$AIRFLOW_ADMIN_PASSWORD_FILE" >"$AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"
airflow db migrate
airflow pools set giscope 4 "number of giscope's tasks at a time"
