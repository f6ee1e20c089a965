##! Logs each packet of a subscriber: its sizes, TCP's header fields and options, and what QUIC's headers
##! show. No payload.

@load ./columns
@load ./landing
@load ./monitor
@load ./quic

module GiScope;

export {
	redef enum Log::ID += { LOG };
}

# The events tcp_options and icmp_unreachable come after their packet's new_packet and before the next one's.
# So a row is written when the next packet comes.
global pending: Info;
global has_pending = F;

function flush()
	{
	if ( ! has_pending )
		return;

	has_pending = F;
	Log::write(LOG, pending);

	if ( ! pending$downlink && pending$server in subscribers )
		{
		local other: Info = copy(pending);
		other$user = pending$server;
		other$server = pending$user;
		other$downlink = T;
		if ( pending?$user_port )
			{
			other$user_port = pending$server_port;
			other$server_port = pending$user_port;
			}
		Log::write(LOG, other);
		}
	}

event zeek_init()
	{
	Log::create_stream(LOG, Log::Stream($columns=Info, $path="giscope_packets"));
	Log::remove_default_filter(LOG);
	# All texts are addresses and numbers; checking them for UTF-8 would take time.
	Log::add_filter(LOG, Log::Filter($name="giscope", $path="giscope_packets",
	    $interv=reading_traces() ? 0secs : rotation_interval, $postprocessor=land,
	    $config=table(["enable_utf_8"] = "F")));
	}

event new_packet(c: connection, p: pkt_hdr)
	{
	flush();

	local src: addr;
	local dst: addr;
	if ( p?$ip )
		{
		src = p$ip$src;
		dst = p$ip$dst;
		}
	else if ( p?$ip6 )
		{
		src = p$ip6$src;
		dst = p$ip6$dst;
		}
	else
		return;

	local up = src in subscribers;
	if ( ! up && dst !in subscribers )
		return;

	local proto = p?$ip ? p$ip$p : ( p?$tcp ? 6 : ( p?$udp ? 17 : ( p?$icmp ? 58 : p$ip6$nxt ) ) );
	local traffic_class = p?$ip ? p$ip$tos : p$ip6$class;
	# network_time() never goes back, but the times of packets may.
	local row = Info($ts=get_current_packet_ts(), $user=up ? src : dst, $server=up ? dst : src,
	    $downlink=! up, $ip_proto=proto, $ip_len=p?$ip ? p$ip$len : 40 + p$ip6$len,
	    $ttl=p?$ip ? p$ip$ttl : p$ip6$hlim, $dscp=traffic_class / 4, $ecn=traffic_class % 4);

	if ( p?$ip )
		row$ip_id = p$ip$id;

	if ( p?$tcp )
		{
		local t = p$tcp;
		row$user_port = up ? t$sport : t$dport;
		row$server_port = up ? t$dport : t$sport;
		row$tcp_flags = t$reserved * 256 + t$flags;
		row$seq = t$seq;
		row$ack = t$ack;
		row$window = t$win;
		row$payload_len = t$dl;
		}
	else if ( p?$udp )
		{
		row$user_port = up ? p$udp$sport : p$udp$dport;
		row$server_port = up ? p$udp$dport : p$udp$sport;
		fill_quic(row, c, p$udp);
		}

	pending = row;
	has_pending = T;
	}

event tcp_options(c: connection, is_orig: bool, options: TCP::OptionList)
	{
	if ( ! has_pending )
		return;

	local row = pending;
	for ( _, o in options )
		switch ( o$kind )
			{
			case 2:
				if ( o?$mss )
					row$mss = o$mss;
				break;
			case 3:
				if ( o?$window_scale )
					row$window_scale = o$window_scale;
				break;
			case 4:
				row$sack_permitted = T;
				break;
			case 5:
				if ( o?$sack )
					row$sack = o$sack;
				break;
			case 8:
				if ( o?$send_timestamp )
					{
					row$ts_val = o$send_timestamp;
					row$ts_ecr = o$echo_timestamp;
					}
				break;
			}
	}

# The message goes the other way than the datagram that could not be delivered.
event icmp_unreachable(c: connection, info: icmp_info, code: count, context: icmp_context)
	{
	if ( ! has_pending || context$bad_hdr_len || context$frag_offset != 0 ||
	     get_port_transport_proto(context$id$orig_p) != udp )
		return;

	# Fragmentation needed: it says how large a datagram may be.
	if ( code == 4 && is_v4_addr(context$id$orig_h) )
		return;

	local row = pending;
	row$user_port = row$downlink ? context$id$orig_p : context$id$resp_p;
	row$server_port = row$downlink ? context$id$resp_p : context$id$orig_p;
	row$quic_form = "unreachable";
	}

# This must happen before zeek_done, which comes after the last rotation of the logs.
event net_done(t: time)
	{
	flush();
	}
