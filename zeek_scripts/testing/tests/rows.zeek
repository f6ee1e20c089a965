# A row for each packet of the capture, all with this package's columns.
#
# @TEST-EXEC: zstd -dqc $CAPTURE > capture.pcap
# @TEST-EXEC: zeek -b -C -r capture.pcap $PACKAGE/bare.zeek %INPUT
# @TEST-EXEC: test $(grep -vc '^#' giscope_packets.log) -eq $(zeek -b -C -r capture.pcap $PACKAGE/../testing/count.zeek)

redef GiScope::subscribers += { 10.64.0.0/14 };
