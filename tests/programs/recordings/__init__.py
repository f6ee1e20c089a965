"""Captures of real applications, with what the applications saw of them: `python -m
tests.programs.recordings FOLDER [web tls radius]`.

Writes FOLDER/web.pcap, tls.pcap and radius.pcap, as the Gi interface sees nginx, curl, OpenSSL and
FreeRADIUS, and beside each a CSV of the truth: what the clients did and got. So the tests can hold
what Zeek's logs and giscope say of a connection against one who was there.

Runs as root on Linux with /dev/net/tun. Debian's packages: nginx, curl, openssl, freeradius,
freeradius-utils, tcpdump, iproute2, procps.
"""
