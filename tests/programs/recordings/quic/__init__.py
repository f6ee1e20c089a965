"""QUIC over the lab's mobile access: what the Gi interface sees, with what both ends log (qlog).

    uv run --no-project --python 3.11 --with aioquic==1.7.2 --with pydantic --with zstandard \\
        python -m tests.programs.recordings.quic lte FOLDER

Networks: gprs, umts, lte, reorder (as lte; on the Internet some packets overtake others),
satellite. Two stacks, aioquic and quinn (built by cargo), each as client and server, of these
scenarios:

download     objects one after the other over a connection, with pauses between them
retry        the server asks for address validation
negotiation  the client offers a version that the server does not know (quinn: a new connection
             from the same port after Version Negotiation)
version2     QUIC version 2 from the first packet on; upgrade: version 1, the server goes on with 2
hello-retry  the server asks for a key of another group (quinn)
long-hello   the client's first message needs two datagrams
few-acks     the server asks for an acknowledgment of every tenth packet only (quinn)
upload       the client sends the objects
zero-rtt     each connection but the first sends early data
rebind       a NAT at the mobile's side changes the client's port, the client does not know
migrate      the client goes on with a new port and a new connection ID; newid: only the latter
drop         nothing answers; reject: an ICMP error answers; TCP to the same port afterwards
port4433     a server at another port; port8443
constant     the client's spin bit is always 0; random: it is random in each packet
middle       connections that begin before the capture does

It must run as root on Linux with /dev/net/tun and iproute2. What is recorded is the lab's
gi.pcap.zst (whole packets, but 60 bytes of those with a short header), users, frames_lost,
losses_unseen, events (a NAT's changes), profile.toml and emulator.json, and of the connections that
did not end before the capture began, times being seconds since 1970, UTC, as the recording's clock
shows them:

connections.csv.zst
    a row an attempt. result: ok, refused (an ICMP error came), no_response, failed. initials_sent:
    datagrams that begin with an Initial, until the client's first answer; started: the first of
    them. confirmed: the client's first Handshake or 1-RTT packet. end: the last datagram at either
    end. ports: the client's as the server sees them, in order; migrations: their changes.
    datagrams and bytes (UDP payload) count what either end sent. spin: yes, constant, random.
rtt.csv.zst
    each change of RTTs, s, that an end logs as recovery:metrics_updated; user_port is the first
"""
