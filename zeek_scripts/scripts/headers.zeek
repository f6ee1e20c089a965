##! Writes a capture of subscribers' packet headers with the plugin GiScope::Headers, instead of a log.
##! Load this script or main, not both.

@load-plugin GiScope::Headers
@load base/packet-protocols
@load ./landing
@load ./monitor

module PacketAnalyzer::GISCOPE_HEADERS;

export {
	const default_analyzer: PacketAnalyzer::Tag = PacketAnalyzer::ANALYZER_UNKNOWN_IP_TRANSPORT &redef;
}

redef PacketAnalyzer::IP::default_analyzer = PacketAnalyzer::ANALYZER_GISCOPE_HEADERS;

event zeek_init() &priority=10
	{
	local above = table([6] = PacketAnalyzer::ANALYZER_TCP, [17] = PacketAnalyzer::ANALYZER_UDP,
	    [1] = PacketAnalyzer::ANALYZER_ICMP, [58] = PacketAnalyzer::ANALYZER_ICMP,
	    [4] = PacketAnalyzer::ANALYZER_IPTUNNEL, [41] = PacketAnalyzer::ANALYZER_IPTUNNEL,
	    [47] = PacketAnalyzer::ANALYZER_GRE);

	for ( protocol, analyzer in above )
		{
		PacketAnalyzer::register_packet_analyzer(PacketAnalyzer::ANALYZER_IP, protocol,
		    PacketAnalyzer::ANALYZER_GISCOPE_HEADERS);
		PacketAnalyzer::register_packet_analyzer(PacketAnalyzer::ANALYZER_GISCOPE_HEADERS, protocol,
		    analyzer);
		}
	}

module GiScope;

export {
	## T: Zeek also analyzes subscribers' packets, for its own logs.
	const analyze_subscribers = T &redef;
}

const headers_path = "giscope_packets.pcap";

function name_and_land(begun: time)
	{
	local name = free_name(fmt("giscope_packets.%s", utc(begun)), ".pcap");
	if ( rename(headers_path, name) )
		land_file(name, begun);
	}

function finish_file()
	{
	local begun = finish_headers();
	if ( begun > double_to_time(0.0) )
		name_and_land(begun);
	}

event rotation()
	{
	finish_file();
	}

event zeek_init()
	{
	local left = headers_left_behind(headers_path);
	if ( left > double_to_time(0.0) && ! reading_traces() )
		name_and_land(left);

	start_headers(headers_path, subscribers, analyze_subscribers);
	}

event zeek_done()
	{
	if ( reading_traces() )
		finish_headers();
	else
		finish_file();
	}
