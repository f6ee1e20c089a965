#!/bin/sh
# Build step: the folders that volumes are mounted on, for the user and group that all containers
# which write there run as. A new volume takes them over.
set -eu
root=${1:-/srv/giscope}
for folder in warehouse landing airflow; do
    install -d -o 50000 -g 0 -m 2775 "$root/$folder"
done
