# The script writes the rows of packets of all kinds. The expected rows were written by hand, from the way in
# which the packets were made.
#
# @TEST-EXEC: zeek -b -C -r $TRACES/packets.pcap $PACKAGE/bare.zeek %INPUT
# @TEST-EXEC: grep -v '^#' giscope_packets.log > rows
# @TEST-EXEC: btest-diff rows

redef GiScope::subscribers += { 10.64.0.0/14, [2001:db8:64::]/48 };
