#!/bin/sh
# Makes what docker-compose.yml needs: .env, with settings, and the folder secrets, with random
# secrets, a file each. What is there already is never overwritten. Elsewhere: sh infra/env.sh FOLDER
#
# Compose mounts a secret's file into a container as it is on the host, and each container has a user
# of its own. So all may read the files, but only their owner may enter the folder.
set -eu
folder=${1:-$(dirname "$0")/..}
env=$folder/.env
secrets=$folder/secrets
umask 077
mkdir -p "$secrets"
chmod 700 "$secrets"
fresh=
trap 'rm -f "$fresh"' EXIT

add() { # $1: file, $2: mode; its content is what comes in. Fails where the file is there already
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
in_env() { # what an .env of earlier versions, which had the secrets, has of this one
    sed -n "s/^$(echo "$1" | tr '[:lower:]' '[:upper:]')=//p" "$env" 2>/dev/null | tr -d '\n'
}
secret() { # $1: name, $2: what makes it
    known=$(in_env "$1")
    printf %s "${known:-$("${2:-hexadecimal}")}" | add "$secrets/$1" 444 || true
}

for name in postgres_password airflow_db_password superset_db_password giscope_db_password \
    airflow_api_secret_key airflow_jwt_secret airflow_admin_password \
    superset_secret_key superset_admin_password object_store_key object_store_secret giscope_key; do
    secret $name
done
secret airflow_fernet_key fernet_key
add "$secrets/rest_catalog_credential" 444 </dev/null || true
add "$secrets/spark-defaults.conf" 444 <<END || true
# Spark's master, workers and drivers take only who has the same secret, and encrypt what they say.
spark.authenticate true
spark.authenticate.secret $(hexadecimal)
spark.network.crypto.enabled true
# These two would take anybody.
spark.master.rest.enabled false
spark.ui.killEnabled false
END
echo "$secrets: all secrets are there"
if add "$env" 600 <<END
# Settings of docker-compose.yml: docs/deploy.md. Secrets are in the folder secrets.

# The first UTC day to process.
GISCOPE_FIRST_DAY=$(date -u +%Y-%m-%d)
END
then
    echo "$env made"
else
    echo "$env is there already: left as it is"
    [ -z "$(in_env giscope_key)" ] ||
        echo "$env: its passwords and keys are in $secrets now: remove them from it"
fi
