##! Logs RADIUS accounting: which subscriber has which address, from when, until when. Also logs the
##! addresses that authentications grant, which are not in Zeek's own radius.log.

@load base/frameworks/logging
@load base/frameworks/analyzer
@load ./columns
@load ./landing

module GiScope;

export {
	redef enum Log::ID += { ACCOUNTING_LOG };

	## Ports of the accounting servers.
	const accounting_ports: set[port] = { 1813/udp } &redef;

	## Ports of the authentication servers.
	const authentication_ports: set[port] = { 1812/udp } &redef;
}

# RFC 2865, RFC 2866: message code and attributes.
const access_request = 1;
const access_accept = 2;
const accounting_request = 4;

# Value of the log's column status for an Access-Accept.
const accepted = 0;

const user_name = 1;
const framed_ip_address = 8;
const vendor_specific = 26;
const called_station_id = 30;
const calling_station_id = 31;
const acct_status_type = 40;
const acct_delay_time = 41;
const acct_session_id = 44;
const acct_session_time = 46;
const acct_multi_session_id = 50;

# RFC 3162, RFC 4818.
const framed_ipv6_prefix = 97;
const delegated_ipv6_prefix = 123;

# 3GPP TS 29.061, 16.4.7: vendor 10415, and its attributes that are read.
const vendor_3gpp = "\x00\x00\x28\xaf";
const imsi = 1;
const charging_id = 2;
const negotiated_qos_profile = 5;
const imsi_mcc_mnc = 8;
const sgsn_mcc_mnc = 18;
const imeisv = 20;
const rat_type = 21;
const user_location_info = 22;

# Attributes of requests without an answer yet, by client, port, server and the message's identifier.
global pending_requests: table[addr, port, addr, count] of RADIUS::Attributes &create_expire=1min;

event zeek_init()
	{
	Log::create_stream(ACCOUNTING_LOG, Log::Stream($columns=Accounting,
	    $path="giscope_accounting"));
	Log::remove_default_filter(ACCOUNTING_LOG);
	Log::add_filter(ACCOUNTING_LOG, Log::Filter($name="giscope", $path="giscope_accounting",
	    $interv=reading_traces() ? 0secs : rotation_interval, $postprocessor=land));
	Analyzer::register_for_ports(Analyzer::ANALYZER_RADIUS, accounting_ports);
	Analyzer::register_for_ports(Analyzer::ANALYZER_RADIUS, authentication_ports);
	}

# Vendor-specific attributes may contain several values, each with its type and length (RFC 2865, 5.26).
function value_of_3gpp(value: string, kind: count): string
	{
	if ( sub_bytes(value, 1, 4) != vendor_3gpp )
		return "";

	local offset = 5;
	while ( offset + 1 < |value| )
		{
		local length = bytestring_to_count(sub_bytes(value, offset + 1, 1));
		if ( length < 2 || offset + length > |value| + 1 )
			return "";

		if ( bytestring_to_count(sub_bytes(value, offset, 1)) == kind )
			return sub_bytes(value, offset + 2, length - 2);

		offset += length;
		}

	return "";
	}

# The first value of one of 3GPP's attributes; empty if there is none.
function attribute_of_3gpp(attributes: RADIUS::Attributes, kind: count): string
	{
	if ( vendor_specific in attributes )
		for ( _, value in attributes[vendor_specific] )
			{
			local found = value_of_3gpp(value, kind);
			if ( found != "" )
				return found;
			}

	return "";
	}

function subscriber_of(attributes: RADIUS::Attributes): string
	{
	local identity = attribute_of_3gpp(attributes, imsi);
	if ( identity != "" )
		return identity;

	for ( _, code in vector(calling_station_id, user_name) )
		if ( code in attributes && attributes[code][0] != "" )
			return attributes[code][0];

	return "";
	}

function has_address(attributes: RADIUS::Attributes): bool
	{
	return framed_ip_address in attributes && |attributes[framed_ip_address][0]| == 4;
	}

# An attribute has a reserved byte, the prefix's length, and as many bytes of it as are not 0.
function prefixes_of(attributes: RADIUS::Attributes): vector of subnet
	{
	local found: vector of subnet = vector();
	for ( _, code in vector(framed_ipv6_prefix, delegated_ipv6_prefix) )
		if ( code in attributes )
			for ( _, value in attributes[code] )
				{
				if ( |value| < 2 || |value| > 18 )
					next;

				local length = bytestring_to_count(sub_bytes(value, 2, 1));
				if ( length == 0 || length > 128 || 8 * (|value| - 2) < length - 7 )
					next;

				local bytes = sub_bytes(value, 3, |value| - 2);
				while ( |bytes| < 16 )
					bytes += "\x00";
				found += raw_bytes_to_v6_addr(bytes)/length;
				}

	return found;
	}

# Adds what a message assigns to its row.
function add_addresses(row: Accounting, attributes: RADIUS::Attributes)
	{
	if ( has_address(attributes) )
		row$address = raw_bytes_to_v4_addr(attributes[framed_ip_address][0]);

	local prefixes = prefixes_of(attributes);
	if ( |prefixes| > 0 )
		row$prefixes = prefixes;
	}

# Adds what a message says of the user besides the address. The first eight digits of a device's
# number are its model; the others are not logged.
function add_labels(row: Accounting, attributes: RADIUS::Attributes)
	{
	if ( called_station_id in attributes )
		row$apn = attributes[called_station_id][0];

	local value = attribute_of_3gpp(attributes, rat_type);
	if ( value != "" )
		row$rat = bytestring_to_hexstr(value);

	value = attribute_of_3gpp(attributes, user_location_info);
	if ( value != "" )
		row$area = bytestring_to_hexstr(value);

	value = attribute_of_3gpp(attributes, imeisv);
	if ( value != "" )
		row$device = sub_bytes(value, 1, 8);

	value = attribute_of_3gpp(attributes, imsi_mcc_mnc);
	if ( value != "" )
		row$home = value;

	value = attribute_of_3gpp(attributes, sgsn_mcc_mnc);
	if ( value != "" )
		row$visited = value;

	value = attribute_of_3gpp(attributes, negotiated_qos_profile);
	if ( value != "" )
		row$qci = value;
	}

# Logs an Access-Accept that grants an address, with the subscriber of the request.
function log_accept(c: connection, result: RADIUS::Message)
	{
	if ( [c$id$orig_h, c$id$orig_p, c$id$resp_h, result$trans_id] !in pending_requests )
		return;

	local request = pending_requests[c$id$orig_h, c$id$orig_p, c$id$resp_h, result$trans_id];
	delete pending_requests[c$id$orig_h, c$id$orig_p, c$id$resp_h, result$trans_id];
	if ( ! result?$attributes )
		return;

	local row = Accounting($ts=network_time(), $nas=c$id$orig_h, $status=accepted);
	add_addresses(row, result$attributes);
	if ( ! row?$address && ! row?$prefixes )
		return;

	local subscriber = subscriber_of(request);
	if ( subscriber != "" )
		row$subscriber = subscriber;

	add_labels(row, request);
	Log::write(ACCOUNTING_LOG, row);
	}

event radius_message(c: connection, result: RADIUS::Message)
	{
	if ( result$code == access_accept )
		{
		log_accept(c, result);
		return;
		}

	if ( ! result?$attributes )
		return;

	local attributes = result$attributes;
	if ( result$code == access_request )
		pending_requests[c$id$orig_h, c$id$orig_p, c$id$resp_h, result$trans_id] = attributes;

	if ( result$code != accounting_request || acct_status_type !in attributes )
		return;

	local row = Accounting($ts=network_time(), $nas=c$id$orig_h,
	    $status=bytestring_to_count(attributes[acct_status_type][0]));

	if ( row$status == accepted )
		return; # no accounting request has that status

	if ( acct_session_id in attributes )
		row$session = attributes[acct_session_id][0];
	add_addresses(row, attributes);
	if ( acct_multi_session_id in attributes )
		row$multi_session = attributes[acct_multi_session_id][0];
	if ( acct_session_time in attributes )
		row$session_time = bytestring_to_count(attributes[acct_session_time][0]);
	if ( acct_delay_time in attributes )
		row$delay = bytestring_to_count(attributes[acct_delay_time][0]);

	local charging = attribute_of_3gpp(attributes, charging_id);
	if ( |charging| == 4 )
		row$charging = fmt("%d", bytestring_to_count(charging));

	local subscriber = subscriber_of(attributes);
	if ( subscriber != "" )
		row$subscriber = subscriber;

	add_labels(row, attributes);
	Log::write(ACCOUNTING_LOG, row);
	}
