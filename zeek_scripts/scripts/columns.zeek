##! Rows of the logs that this package writes. Generated from schemas/ by
##! `python -m schemas.zeek`; change it there.

module GiScope;

export {
	type Info: record {
		## when the monitor saw it
		ts: time &log;
		## the subscriber's key: its address, or its pseudonym
		user: addr &log;
		## the mobile side's TCP or UDP port
		user_port: port &log &optional;
		## the Internet side's address
		server: addr &log;
		## the Internet side's TCP or UDP port
		server_port: port &log &optional;
		## towards the mobile
		downlink: bool &log;
		## protocol above IP, after IPv6 extension headers
		ip_proto: count &log;
		## IP total length, from the header; of a datagram in fragments, that of the whole (B)
		ip_len: count &log;
		## IPv4 identification; null for IPv6
		ip_id: count &log &optional;
		## time to live or hop limit (hops)
		ttl: count &log;
		## the 12 flag bits: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128, AE 256; null where there is no TCP header (another protocol, a later fragment that could not be joined, a header that the capture or fragments cut)
		tcp_flags: count &log &optional;
		## sequence number
		seq: count &log &optional;
		## acknowledgement number, as on the wire
		ack: count &log &optional;
		## window as on the wire, not scaled
		window: count &log &optional;
		## TCP payload, by the IP and TCP headers (B)
		payload_len: count &log &optional;
		## maximum segment size option (B)
		mss: count &log &optional;
		## window scale option: shift count (bit)
		window_scale: count &log &optional;
		## true where the option is there
		sack_permitted: bool &log &optional;
		## timestamp option: sender's clock
		ts_val: count &log &optional;
		## timestamp option: echoed clock
		ts_ecr: count &log &optional;
		## SACK block edges: left, right, left, right, ...
		sack: vector of count &log &optional;
		## true where the capture cut the TCP options, so that an option that is null may have been there
		options_cut: bool &log &optional;
	};

	type Accounting: record {
		## when the message was seen
		ts: time &log;
		## who sent it
		nas: addr &log;
		## Acct-Status-Type; 0: an Access-Accept
		status: count &log;
		## Acct-Session-Id
		session: string &log &optional;
		## Framed-IP-Address
		address: addr &log &optional;
		## IMSI, Calling-Station-Id or User-Name
		subscriber: string &log &optional;
		## Acct-Session-Time (s)
		session_time: count &log &optional;
		## Acct-Delay-Time (s)
		delay: count &log &optional;
	};

	type Monitor: record {
		## since when it was counted
		ts: time &log;
		## which Zeek
		peer: string &log &optional;
		## packets that it got since the row before
		received: count &log;
		## packets that it did not get
		dropped: count &log;
		## acknowledgements of data
		acks: count &log;
		## those of data that it did not see
		gaps: count &log;
	};
}
