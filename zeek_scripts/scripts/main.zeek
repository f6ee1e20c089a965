##! Logs each packet of a subscriber: sizes of all, header fields and options of TCP. No payload.

@load ./columns

module GiScope;

export {
	redef enum Log::ID += { LOG };

	## The subscribers' address pools. `giscope zeek-options` writes them from the networks file.
	option subscribers: set[subnet] = {};

	## How often the log of a live interface is rotated.
	const rotation_interval = 5min &redef;

	## Folder that finished logs are moved to; on the file system that Zeek writes its logs to.
	## Empty: they stay where Zeek rotated them.
	const landing = "" &redef;
}

# tcp_options comes behind its packet's new_packet and before the next one's, so one row waits.
global pending: Info;
global waiting = F;
global both_ends = F;

function flush()
	{
	if ( ! waiting )
		return;

	waiting = F;
	Log::write(LOG, pending);

	if ( both_ends )
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

function land(info: Log::RotationInfo): bool
	{
	if ( landing == "" )
		return T;

	local parts = split_string(info$fname, /\//);
	local name = parts[|parts| - 1];
	local folder = fmt("%s/%s", landing, strftime("%Y-%m-%d", info$open));
	return mkdir(folder) && rename(info$fname, fmt("%s/%s-%s", folder, peer_description, name));
	}

event zeek_init()
	{
	Log::create_stream(LOG, Log::Stream($columns=Info, $path="giscope_packets"));
	Log::remove_default_filter(LOG);
	Log::add_filter(LOG, Log::Filter($name="giscope", $path="giscope_packets",
	    $interv=reading_traces() ? 0secs : rotation_interval, $postprocessor=land));
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
	pending = Info($ts=network_time(), $user=up ? src : dst, $server=up ? dst : src,
	    $downlink=! up, $ip_proto=proto, $ip_len=p?$ip ? p$ip$len : 40 + p$ip6$len,
	    $ttl=p?$ip ? p$ip$ttl : p$ip6$hlim);

	if ( p?$ip )
		pending$ip_id = p$ip$id;

	if ( p?$tcp )
		{
		local from = port_to_count(p$tcp$sport);
		local to = port_to_count(p$tcp$dport);
		pending$user_port = up ? from : to;
		pending$server_port = up ? to : from;
		pending$tcp_flags = p$tcp$reserved * 256 + p$tcp$flags;
		pending$seq = p$tcp$seq;
		pending$ack = p$tcp$ack;
		pending$window = p$tcp$win;
		pending$payload_len = p$tcp$dl;
		}
	else if ( p?$udp )
		{
		pending$user_port = port_to_count(up ? p$udp$sport : p$udp$dport);
		pending$server_port = port_to_count(up ? p$udp$dport : p$udp$sport);
		}

	both_ends = up && dst in subscribers;
	waiting = T;
	}

event tcp_options(c: connection, is_orig: bool, options: TCP::OptionList)
	{
	if ( ! waiting )
		return;

	for ( i, o in options )
		{
		if ( o?$mss )
			pending$mss = o$mss;
		if ( o?$window_scale )
			pending$window_scale = o$window_scale;
		if ( o$kind == 4 )
			pending$sack_permitted = T;
		if ( o?$sack )
			pending$sack = o$sack;
		if ( o?$send_timestamp )
			{
			pending$ts_val = o$send_timestamp;
			pending$ts_ecr = o$echo_timestamp;
			}
		}
	}

event zeek_done()
	{
	flush();
	}
