# Prints how many packets Zeek saw.
global n = 0;
event new_packet(c: connection, p: pkt_hdr) { ++n; }
event zeek_done() { print n; }
