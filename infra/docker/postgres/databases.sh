#!/bin/sh
# Make a database and its owner for each of Airflow, Superset and the warehouse's catalog. The image runs
# this once, when its volume is new. SECRETS: folder of the owners' passwords.
set -eu
for name in airflow superset giscope; do
    psql -v ON_ERROR_STOP=1 -v name="$name" -v file="${SECRETS:-/run/secrets}/${name}_db_password" \
        --username "$POSTGRES_USER" --dbname postgres <<'END'
\set password `cat :'file'`
create role :"name" login password :'password';
create database :"name" owner :"name";
revoke all on database :"name" from public;
END
done
