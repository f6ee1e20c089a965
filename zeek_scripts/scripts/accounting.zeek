##! Logs RADIUS accounting: which subscriber has which address, from when, until when. Zeek's own
##! radius.log has authentications only.

@load base/frameworks/logging
@load base/frameworks/analyzer
@load ./columns
@load ./landing

module GiScope;

export {
	redef enum Log::ID += { ACCOUNTING_LOG };

	## Ports of the accounting servers.
	const accounting_ports: set[port] = { 1813/udp } &redef;
}

# RFC 2865, RFC 2866: message code and attributes.
const accounting_request = 4;
const user_name = 1;
const framed_ip_address = 8;
const vendor_specific = 26;
const calling_station_id = 31;
const acct_status_type = 40;
const acct_delay_time = 41;
const acct_session_id = 44;
const acct_session_time = 46;

# 3GPP TS 29.061, 16.4.7: vendor 10415, 3GPP-IMSI; a length byte follows.
const imsi_header = "\x00\x00\x28\xaf\x01";

event zeek_init()
	{
	Log::create_stream(ACCOUNTING_LOG, Log::Stream($columns=Accounting,
	    $path="giscope_accounting"));
	Log::remove_default_filter(ACCOUNTING_LOG);
	Log::add_filter(ACCOUNTING_LOG, Log::Filter($name="giscope", $path="giscope_accounting",
	    $interv=reading_traces() ? 0secs : rotation_interval, $postprocessor=land));
	Analyzer::register_for_ports(Analyzer::ANALYZER_RADIUS, accounting_ports);
	}

function subscriber_of(attributes: RADIUS::Attributes): string
	{
	if ( vendor_specific in attributes )
		for ( _, value in attributes[vendor_specific] )
			if ( |value| > 6 && sub_bytes(value, 1, 5) == imsi_header )
				return sub_bytes(value, 7, |value| - 6);

	for ( _, code in vector(calling_station_id, user_name) )
		if ( code in attributes )
			return attributes[code][0];

	return "";
	}

event radius_message(c: connection, result: RADIUS::Message)
	{
	if ( result$code != accounting_request || ! result?$attributes )
		return;

	local said = result$attributes;
	if ( acct_status_type !in said )
		return;

	local row = Accounting($ts=network_time(), $nas=c$id$orig_h,
	    $status=bytestring_to_count(said[acct_status_type][0]));

	if ( acct_session_id in said )
		row$session = said[acct_session_id][0];
	if ( framed_ip_address in said )
		row$address = raw_bytes_to_v4_addr(said[framed_ip_address][0]);
	if ( acct_session_time in said )
		row$session_time = bytestring_to_count(said[acct_session_time][0]);
	if ( acct_delay_time in said )
		row$delay = bytestring_to_count(said[acct_delay_time][0]);

	local subscriber = subscriber_of(said);
	if ( subscriber != "" )
		row$subscriber = subscriber;

	Log::write(ACCOUNTING_LOG, row);
	}
