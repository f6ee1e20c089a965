#!/bin/sh
# Build step: make the folders on which volumes are mounted. Their owner is the user and group of all
# containers that write there. A new volume inherits the owner.
set -eu
root=${1:-/srv/giscope}
for folder in warehouse landing airflow; do
    install -d -o 50000 -g 0 -m 2775 "$root/$folder"
done
