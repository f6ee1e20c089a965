# The plugin writes headers that give the same rows, and no payload.
#
# @TEST-REQUIRES: zeek -N GiScope::Headers
# @TEST-EXEC: zeek -b -C -r $TRACES/packets.pcap $PACKAGE/bare-headers.zeek %INPUT
# @TEST-EXEC: zeek -b -C -r giscope_packets.pcap $PACKAGE/bare.zeek %INPUT
# @TEST-EXEC: grep -v '^#' giscope_packets.log > rows
# @TEST-EXEC: btest-diff rows
# @TEST-EXEC-FAIL: grep -q payload giscope_packets.pcap

redef GiScope::subscribers += { 10.64.0.0/14, [2001:db8:64::]/48 };
