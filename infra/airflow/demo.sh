#!/bin/sh
# Copy the captures of tests/data into a landing folder, LANDING/<network>/<day>/: demo.sh LANDING.
set -eu
cd "$(dirname "$0")/../.."
day=2004-03-02
for network in tests/data/captures/*/; do
    folder="$1/$(basename "$network")/$day"
    mkdir -p "$folder"
    cp -p "$network"*.pcap* "$folder"
    (cd "$folder" && ls -- *.pcap* >_COMPLETE)
done
