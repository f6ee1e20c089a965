#!/bin/sh
# Makes .env for docker-compose.yml: its secrets, at random, readable by their owner only.
# What is there already is never overwritten. Another file: sh infra/env.sh FILE
set -eu
file=${1:-$(dirname "$0")/../.env}
umask 077

password() { head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }
fernet_key() { head -c 32 /dev/urandom | base64 | tr '+/' '-_'; }

fresh=$(mktemp "$file.XXXXXX")
trap 'rm -f "$fresh"' EXIT
cat >"$fresh" <<END
# Secrets. Change one only together with what it opens (a database's password is set when its volume
# is made).
POSTGRES_PASSWORD=$(password)
AIRFLOW_DB_PASSWORD=$(password)
AIRFLOW_FERNET_KEY=$(fernet_key)
AIRFLOW_JWT_SECRET=$(password)
AIRFLOW_API_SECRET_KEY=$(password)
AIRFLOW_ADMIN_PASSWORD=$(password)
SUPERSET_DB_PASSWORD=$(password)
GISCOPE_DB_PASSWORD=$(password)
SUPERSET_SECRET_KEY=$(password)
SUPERSET_ADMIN_PASSWORD=$(password)
OBJECT_STORE_KEY=$(password)
OBJECT_STORE_SECRET=$(password)
# What subscribers' pseudonyms are made with. Without it nothing can be added to the tables, and
# nobody be looked up: keep a copy. With it anybody's pseudonym can be made.
GISCOPE_KEY=$(password)

# The first UTC day to process.
GISCOPE_FIRST_DAY=$(date -u +%Y-%m-%d)
END
if ln "$fresh" "$file" 2>/dev/null; then
    echo "$file made"
else
    echo "$file is there already: left as it is"
fi
