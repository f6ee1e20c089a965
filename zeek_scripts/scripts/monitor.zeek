##! Logs how many packets a live Zeek received and how many were dropped before it saw them.

@load base/frameworks/logging
@load ./columns
@load ./landing

module GiScope;

export {
	redef enum Log::ID += { MONITOR_LOG };
}

global since = double_to_time(0.0);
global received = 0;
global dropped = 0;
global acks = 0;
global gaps = 0;

function write_monitor()
	{
	if ( since == double_to_time(0.0) )
		since = network_time();

	local net = get_net_stats();
	local gap = get_gap_stats();
	Log::write(MONITOR_LOG, Monitor($ts=since, $peer=peer_description,
	    $received=net$pkts_recvd - received, $dropped=net$pkts_dropped - dropped,
	    $acks=gap$ack_events - acks, $gaps=gap$gap_events - gaps));
	received = net$pkts_recvd;
	dropped = net$pkts_dropped;
	acks = gap$ack_events;
	gaps = gap$gap_events;
	}

event await_rotation()
	{
	since = network_time();
	}

event rotation()
	{
	if ( ! zeek_is_terminating() )
		write_monitor();
	}

event zeek_init()
	{
	if ( reading_traces() )
		return;

	# Not only for live traffic: a cluster's logger reads none, but writes the workers' rows.
	Log::create_stream(MONITOR_LOG, Log::Stream($columns=Monitor, $path="giscope_monitor"));
	Log::remove_default_filter(MONITOR_LOG);
	Log::add_filter(MONITOR_LOG, Log::Filter($name="giscope", $path="giscope_monitor",
	    $interv=rotation_interval, $postprocessor=land));
	}

# This must happen before zeek_done, which comes after the last rotation of the logs.
event net_done(t: time)
	{
	# If Zeek ended before it had a time, it would not rotate the log.
	if ( reading_live_traffic() && network_time() > double_to_time(0.0) )
		write_monitor();
	}
