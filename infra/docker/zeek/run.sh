#!/bin/sh
# Capture at ZEEK_INTERFACE for ZEEK_NETWORK, with the options that zeek-init wrote. When another networks file changes
# subscribers.zeek, end: Docker starts the container again, and Zeek lands what it had not finished.
set -eu
cd /srv/giscope/landing/.zeek
umask 002 # the jobs, another user of Zeek's group, write into the folders of days, too
before=$(cksum <subscribers.zeek) # before Zeek reads it: if it changes later, Zeek starts anew
zeek -b -C -O ZAM -i "$ZEEK_INTERFACE" giscope/bare.zeek ./subscribers.zeek \
    "GiScope::landing=/srv/giscope/landing/$ZEEK_NETWORK" &
zeek=$!
trap 'kill $zeek; wait $zeek' INT TERM
while kill -0 $zeek 2>/dev/null; do
    [ "$(cksum <subscribers.zeek)" = "$before" ] || kill $zeek
    sleep 10 &
    wait $! # a trap interrupts `wait`, not `sleep`
done
wait $zeek
