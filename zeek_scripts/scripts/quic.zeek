##! Fills QUIC's columns of the packet log: what a datagram shows without any key. Of connection IDs, only
##! hashes are logged. The rules are those of giscope's built-in reader (RFC 8999; RFC 9000, 17; RFC 9369).

@load ./columns

module GiScope;

export {
	## Fills QUIC's columns of a row if its datagram may be QUIC's.
	##
	## row: The row, without these columns.
	##
	## c: The datagram's connection.
	##
	## udp: The datagram's UDP header.
	global fill_quic: function(row: Info, c: connection, udp: udp_hdr);
}

redef record connection += {
	## Lengths of the connection IDs by which QUIC datagrams go to the originator, and to the responder.
	giscope_orig_id_bytes: count &optional;
	giscope_resp_id_bytes: count &optional;
};

# Lengths of the connection IDs of downlink packets (T) and of uplink packets (F), by user, server and server's
# port: a connection may go on from another port of the user's. The same by user, user's port and server's port: it
# may go on to another server.
global id_bytes_of_moved: table[addr, addr, port, bool] of count &write_expire=10min;
global id_bytes_of_port: table[addr, port, port, bool] of count &write_expire=10min;

const quic_forms = vector("initial", "zero_rtt", "handshake", "retry");
const quic_initial = 0;
const quic_retry = 3;

# Bits of the column quic_coalesced.
const quic_one_rtt_bit = 32;
const quic_not_captured_bit = 128;

# Minimum length of a datagram with a short header (RFC 9000, 10.3), and of any.
const quic_min_short_bytes = 21;
const quic_min_bytes = 17;
const quic_max_id_bytes = 20;

const quic_max_length = 0xffff;

# Version 2 and its draft.
const quic_versions_2: set[count] = { 0x6b3343cf, 0x709a50c4 };

function number_at(data: string, at: count, size: count): count
	{
	return bytestring_to_count(sub_bytes(data, at + 1, size));
	}

# Before version 22 of the drafts, and before Q049, connection IDs had no bytes for their lengths.
function has_id_lengths(version: count): bool
	{
	local family = version / 0x10000;
	if ( family == 0x5130 || family == 0x5430 )
		return version % 0x10000 <= 0x3030 || version % 0x10000 >= 0x3439;

	return version <= 0xff000000 || version >= 0xff000016;
	}

# Returns whether this is a number of a version in use: see quic_headers.py.
function is_version(version: count): bool
	{
	local family = version / 0x10000;
	return version == 1 || version in quic_versions_2 || version / 0x100 == 0xff0000 ||
	    version / 0x100 == 0xff0200 || version / 0x10 == 0xfaceb00 || ( version & 0x0f0f0f0f ) == 0x0a0a0a0a ||
	    ( ( family == 0x5130 || family == 0x5430 ) && ( version & 0xf0f0 ) == 0x3030 );
	}

# Returns an index of quic_forms.
function long_form(first: count, version: count): count
	{
	return ( first / 16 + ( version in quic_versions_2 ? 3 : 0 ) ) % 4;
	}

# Returns the hash of a connection ID's first 8 bytes; of 4 if it has less than 8.
function id_hash(data: string, at: count, size: count): count
	{
	return size == 0 ? 0 : fnv1a32(sub_bytes(data, at + 1, size >= 8 ? 8 : ( size < 4 ? size : 4 )));
	}

# Returns a number of variable length and the position after it; nothing if the capture cut it.
function varint(data: string, at: count): vector of count
	{
	if ( at >= |data| )
		return vector();

	local size = 1 << ( number_at(data, at, 1) / 64 );
	if ( at + size > |data| )
		return vector();

	return vector(number_at(data, at, size) & ( ( 1 << ( 8 * size - 2 ) ) - 1 ), at + size);
	}

# Returns the Length field of a packet with a long header and the position after it; nothing if there is none, or
# if the capture cut it.
function length_field(data: string, begin: count, version: count): vector of count
	{
	local form = long_form(number_at(data, begin, 1), version);
	if ( form == quic_retry || begin + 6 > |data| )
		return vector();

	local at = begin + 6 + number_at(data, begin + 5, 1);
	if ( at >= |data| )
		return vector();

	at += 1 + number_at(data, at, 1);
	if ( form == quic_initial )
		{
		local token = varint(data, at);
		if ( |token| == 0 )
			return vector();

		at = token[0] + token[1];
		}

	return varint(data, at);
	}

# Returns the forms of the packets that follow the first one of a datagram, as bits.
function coalesced(data: string, size: count, version: count): count
	{
	local found = 0;
	local at = 0;
	while ( long_form(number_at(data, at, 1), version) != quic_retry )
		{
		local length = length_field(data, at, version);
		at = |length| == 0 ? |data| : length[0] + length[1];
		if ( at >= size )
			return found;

		if ( at >= |data| )
			return found | quic_not_captured_bit;

		local first = number_at(data, at, 1);
		if ( first == 0 ) # padding
			return found;

		if ( first < 0x80 )
			return found | quic_one_rtt_bit;

		found = found | ( 1 << long_form(first, version) );
		}

	return found;
	}

function fill_short_header(row: Info, data: string, id_bytes: count)
	{
	row$quic_form = "one_rtt";
	row$quic_spin = ( number_at(data, 0, 1) & 0x20 ) != 0;
	if ( id_bytes >= 4 && |data| >= 9 )
		row$quic_dcid = id_hash(data, 1, id_bytes);
	}

# Returns whether there is a long header. Without the fixed bit, a version in use shows it, or an earlier header.
function fill_long_header(row: Info, data: string, size: count, is_known: bool): bool
	{
	if ( |data| < 7 )
		return F;

	local version = number_at(data, 1, 4);
	local target_bytes = number_at(data, 5, 1);
	local source = 7 + target_bytes;
	if ( target_bytes > quic_max_id_bytes || source > |data| || ! has_id_lengths(version) )
		return F;

	local source_bytes = number_at(data, source - 1, 1);
	local end = source + source_bytes;
	if ( source_bytes > quic_max_id_bytes || end > |data| || end > size )
		return F;

	local first = number_at(data, 0, 1);
	if ( version != 0 && ( first & 0x40 ) == 0 && ! is_known && ! is_version(version) )
		return F;

	row$quic_form = version == 0 ? "version_negotiation" : quic_forms[long_form(first, version)];
	row$quic_version = version;
	row$quic_dcid = id_hash(data, 6, target_bytes);
	row$quic_scid = id_hash(data, source, source_bytes);
	if ( version != 0 )
		{
		local more = coalesced(data, size, version);
		if ( more != 0 )
			row$quic_coalesced = more;

		local length = length_field(data, 0, version);
		if ( |length| != 0 )
			row$quic_length = length[0] < quic_max_length ? length[0] : quic_max_length;
		}

	return T;
	}

function fill_quic(row: Info, c: connection, udp: udp_hdr)
	{
	if ( udp$ulen < 8 + quic_min_bytes )
		return;

	# Zeek 8.0's event udp_contents gives more bytes than the capture has, so the frame is searched for the
	# UDP header. In the last fragment of a datagram there is none.
	local frame = get_current_packet()$data;
	local header = hexstr_to_bytestring(fmt("%04x%04x%04x", port_to_count(udp$sport),
	    port_to_count(udp$dport), udp$ulen));
	local at = strstr(frame, header);
	if ( at == 0 || at + 8 > |frame| )
		return;

	local data = sub_bytes(frame, at + 8, |frame|);
	local from_orig = udp$sport == c$id$orig_p && ( row$downlink ? row$server : row$user ) == c$id$orig_h;
	local first = number_at(data, 0, 1);
	local is_known = c?$giscope_orig_id_bytes || c?$giscope_resp_id_bytes;
	if ( first < 0x80 )
		{
		local has_length = [row$user, row$server, row$server_port, row$downlink] in id_bytes_of_moved;
		local may_have_moved = has_length ||
		    [row$user, row$server, row$server_port, ! row$downlink] in id_bytes_of_moved;
		local of_port = [row$user, row$user_port, row$server_port, row$downlink] in id_bytes_of_port;
		local may_have_changed = of_port ||
		    [row$user, row$user_port, row$server_port, ! row$downlink] in id_bytes_of_port;
		local id_bytes = from_orig ? ( c?$giscope_resp_id_bytes ? c$giscope_resp_id_bytes : 0 ) :
		    ( c?$giscope_orig_id_bytes ? c$giscope_orig_id_bytes : 0 );
		if ( ! is_known && has_length )
			id_bytes = id_bytes_of_moved[row$user, row$server, row$server_port, row$downlink];
		else if ( ! is_known && ! may_have_moved && of_port )
			id_bytes = id_bytes_of_port[row$user, row$user_port, row$server_port, row$downlink];

		if ( ( first >= 0x40 || is_known || may_have_moved || may_have_changed ) && udp$ulen >= 8 + quic_min_short_bytes )
			fill_short_header(row, data, id_bytes);
		}
	else if ( fill_long_header(row, data, udp$ulen - 8, is_known) )
		{
		local source_bytes = number_at(data, 6 + number_at(data, 5, 1), 1);
		id_bytes_of_moved[row$user, row$server, row$server_port, ! row$downlink] = source_bytes;
		id_bytes_of_port[row$user, row$user_port, row$server_port, ! row$downlink] = source_bytes;
		if ( from_orig )
			c$giscope_orig_id_bytes = source_bytes;
		else
			c$giscope_resp_id_bytes = source_bytes;
		}
	}
