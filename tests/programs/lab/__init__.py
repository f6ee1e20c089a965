"""The lab: real Linux TCP stacks over an emulated mobile network, recorded with ground truth.

    servers (one namespace) == Internet path == Gi == access links == mobiles (four namespaces)

`python -m tests.programs.lab FOLDER [profile.toml ...]` records profiles (default: those of the
studies, all at the same time): the capture into FOLDER/captures/<profile>/, all else into
FOLDER/truth/<profile>/. It takes as long as the profiles say, and must run as root on Linux with
/dev/net/tun and iproute2; `sysctl net.ipv4.tcp_allowed_congestion_control` must have what they ask
for. The mobiles' namespaces are those of the four pairs of TCP options. What a profile says:
`profile.py`. What is recorded, times being seconds since 1970, UTC, as the profile's clock shows
them:

gi.pcap.zst
    what the monitor at Gi sees, headers only (80 bytes); frames count from 1
frames_lost.csv.zst: frame, fate
    each downlink frame that was not delivered: radio (lost on the air), overflow, expired, flushed
    (from the queue in front of the link), queued (still there at the end)
losses_unseen.csv.zst: where, direction, ts, ip_len, src, sport, dst, dport, seq
    packets that Gi never saw: lost on the Internet side, or on the access side on their way up
users.csv.zst: user, group, rate_bps
    each mobile's address, its group, its link's rate at the IP layer (null: it varies)
clients.csv.zst: user, port, server, server_port, group, load, object, start, connected, end, bytes,
    result
    each object as the mobile's program got it; load counts the user's loads
sender.csv.zst: t, user, sport, server, port, last, and what the kernel calls them
    what the sending kernel reports about each connection (Linux's TCP_INFO): a row at each change
    of state, timer or count, one a second besides, and a last one (last = 1) when all was
    acknowledged or the connection had ended; rto, rtt, rttvar, min_rtt, busy_time, rwnd_limited,
    sndbuf_limited in µs, total_rto_time in ms
events.csv.zst: ts, user, event
    preempted, free (the calls are over), resumed_up, resumed_down (what ended the link's silence: a
    packet of the mobile's, or one for it), handover
kernel_srv.json
    the servers' own counters (netstat, snmp), those above 0
profile.toml
    the profile
emulator.json
    late_ms_max, late_share: how late events of the emulation were at most, the share of those
    more than 10 ms late
"""
