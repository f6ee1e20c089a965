#!/bin/sh
# Build and start the services of docker-compose.yml, wait until all are healthy, and print their addresses.
# Safe to repeat. Arguments go to `docker compose`: sh infra/up.sh --profile zeek
set -eu
cd "$(dirname "$0")/.."
refuse() { echo "make up: $*" >&2; exit 2; }
at_least() { # succeed if version $2 is at least version $1
    [ "$(printf '%s\n%s\n' "$1" "${2#v}" | sort -V | head -n 1)" = "$1" ]
}
docker info >/dev/null 2>&1 ||
    refuse "no Docker engine answers: start it, or install Docker: https://docs.docker.com/engine/install/"
compose=$(docker compose version --short 2>/dev/null) || compose=0
at_least 2.24 "$compose" ||
    refuse "needs Docker Compose 2.24 or newer, not $compose: https://docs.docker.com/compose/install/"
buildx=$(docker buildx version 2>/dev/null | cut -d ' ' -f 2) || buildx=0
at_least 0.17 "${buildx:=0}" ||
    refuse "needs Docker's plugin buildx 0.17 or newer, not $buildx: https://github.com/docker/buildx#installing"

sh infra/env.sh
setting() { docker compose config --environment | sed -n "s/^$1=//p"; }
networks=$(setting GISCOPE_NETWORKS_FILE)
networks=${networks:-infra/networks.toml}
[ -f "$networks" ] || refuse "$networks: no such networks file (GISCOPE_NETWORKS_FILE in .env)"
# A container keeps the networks file that it was made with: another sum makes another container.
GISCOPE_NETWORKS_SUM=$(cksum <"$networks" | tr ' ' -)
export GISCOPE_NETWORKS_SUM

# Build only what changed: Docker may make another image of the same files, which would replace all containers.
GISCOPE_SOURCES_SUM=$(find .dockerignore LICENSE README.md pyproject.toml uv.lock dags infra schemas \
    spark_jobs zeek_scripts -type f ! -path '*/__pycache__/*' ! -path infra/networks.toml -exec cksum {} + |
    sort | cksum | tr ' ' -)
export GISCOPE_SOURCES_SUM
for image in spark:spark-master airflow:airflow-init superset:superset-init; do
    label=$(docker image inspect --format '{{index .Config.Labels "giscope.sources"}}' \
        "giscope-${image%:*}" 2>/dev/null) || label=
    [ "$label" = "$GISCOPE_SOURCES_SUM" ] || docker compose build "${image#*:}"
done
case " $* " in *" zeek "*) docker compose --profile zeek build zeek ;; esac
docker compose "$@" up --detach --wait || {
    docker compose "$@" ps --all --format '{{.Service}} {{.State}} {{.ExitCode}} {{.Health}}' |
        grep -v -e ' running 0 healthy' -e ' created 0' -e '-init exited 0' |
        while read -r service state; do
            echo "make up: $service: $state; its last lines:" >&2
            docker compose "$@" logs --no-log-prefix --tail 5 "$service" >&2
        done
    exit 1
}
secrets=$(setting GISCOPE_SECRETS)
secrets=${secrets:-secrets}
at() { docker compose port "$1" "$2"; }
cat <<END_OF_TEXT
Airflow      http://$(at airflow-api-server 8080)   user admin, password in $secrets/airflow_admin_password
Superset     http://$(at superset 8088)   user admin, password in $secrets/superset_admin_password
Spark        http://$(at spark-master 8080)
Spark SQL    $(at spark-thrift 10000)   beeline -u jdbc:hive2://$(at spark-thrift 10000)
Captures     sh infra/land.sh FOLDER   with FOLDER/<network>/<YYYY-MM-DD>/<file>
Stop         make down   (the data stays; docs/deploy.md says how to delete it)
END_OF_TEXT
