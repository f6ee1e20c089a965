#!/bin/sh
# Run once by the image, when its volume is made: a database and its owner for Airflow,
# Superset, and the warehouse's catalog.
set -eu
database() { # name, password
    psql -v ON_ERROR_STOP=1 -v name="$1" -v password="$2" \
        --username "$POSTGRES_USER" --dbname postgres <<'END'
create role :"name" login password :'password';
create database :"name" owner :"name";
revoke all on database :"name" from public;
END
}
database airflow "$AIRFLOW_DB_PASSWORD"
database superset "$SUPERSET_DB_PASSWORD"
database giscope "$GISCOPE_DB_PASSWORD"
