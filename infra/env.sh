#!/bin/sh
# Make the files that docker-compose.yml needs: .env with settings, and the folder secrets with a random
# secret in each file. Existing files are not overwritten. To use another folder: sh infra/env.sh FOLDER
#
# Compose mounts a secret's file with the permissions that it has on the host, and each container runs as
# a different user. So all users may read the files, but only the owner may enter the folder.
set -eu
folder=${1:-$(dirname "$0")/..}
env=$folder/.env
secrets=$folder/secrets
umask 077
mkdir -p "$secrets"
chmod 700 "$secrets"
fresh=
trap 'rm -f "$fresh"' EXIT

add() { # write standard input to the file $1 with mode $2; fail if the file exists
    fresh=$(mktemp "$1.XXXXXX")
    cat >"$fresh"
    chmod "$2" "$fresh"
    added=0
    ln "$fresh" "$1" 2>/dev/null || added=1
    rm -f "$fresh"
    return $added
}
hexadecimal() { head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }
fernet_key() { head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '\n'; }
secret() { # make the secret $1, by the function $2
    "${2:-hexadecimal}" | add "$secrets/$1" 444 || true
}

for name in postgres_password airflow_db_password superset_db_password giscope_db_password \
    airflow_api_secret_key airflow_jwt_secret airflow_admin_password \
    superset_secret_key superset_admin_password object_store_key object_store_secret giscope_key; do
    secret $name
done
secret airflow_fernet_key fernet_key
add "$secrets/spark-defaults.conf" 444 <<END || true
# Spark's master, workers and drivers accept only connections with this secret, and encrypt them.
spark.authenticate true
spark.authenticate.secret $(hexadecimal)
spark.network.crypto.enabled true
# These two would accept requests without the secret.
spark.master.rest.enabled false
spark.ui.killEnabled false
END
echo "$secrets: has all secrets"
if add "$env" 600 <<END
# Settings of docker-compose.yml: docs/deploy.md. Secrets are in the folder secrets.

# The first UTC day to process.
GISCOPE_FIRST_DAY=$(date -u +%Y-%m-%d)
END
then
    echo "$env: written"
else
    echo "$env: exists, not changed"
fi
