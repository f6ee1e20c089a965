##! Logs how many packets a live Zeek received and how many were dropped before it saw them.

@load base/frameworks/logging
@load ./columns
@load ./landing

module GiScope;

export {
	redef enum Log::ID += { MONITOR_LOG };
}

global received = 0;
global dropped = 0;
global acks = 0;
global gaps = 0;

function write_monitor()
	{
	local net = get_net_stats();
	local gap = get_gap_stats();
	Log::write(MONITOR_LOG, Monitor($ts=network_time(), $peer=peer_description,
	    $received=net$pkts_recvd - received, $dropped=net$pkts_dropped - dropped,
	    $acks=gap$ack_events - acks, $gaps=gap$gap_events - gaps));
	received = net$pkts_recvd;
	dropped = net$pkts_dropped;
	acks = gap$ack_events;
	gaps = gap$gap_events;
	}

event monitor()
	{
	write_monitor();
	schedule rotation_interval { monitor() };
	}

event zeek_init()
	{
	if ( ! reading_live_traffic() )
		return;

	Log::create_stream(MONITOR_LOG, Log::Stream($columns=Monitor, $path="giscope_monitor"));
	Log::remove_default_filter(MONITOR_LOG);
	Log::add_filter(MONITOR_LOG, Log::Filter($name="giscope", $path="giscope_monitor",
	    $interv=rotation_interval, $postprocessor=land));
	schedule rotation_interval { monitor() };
	}

event zeek_done()
	{
	if ( reading_live_traffic() )
		write_monitor();
	}
