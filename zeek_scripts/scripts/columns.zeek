##! Rows of the logs that this package writes. Generated from schemas/ by
##! `python -m schemas.zeek`; change it there.

module GiScope;

export {
	type Info: record {
		## time at which the monitor saw the packet
		ts: time &log;
		## the mobile's address
		user: addr &log;
		## the mobile's TCP or UDP port
		user_port: port &log &optional;
		## the server's address
		server: addr &log;
		## the server's TCP or UDP port
		server_port: port &log &optional;
		## true: the packet goes to the mobile; false: it comes from the mobile
		downlink: bool &log;
		## number of the protocol above IP, after IPv6 extension headers
		ip_proto: count &log;
		## total length of the IP packet, from its header; of a datagram in fragments, the length of the whole datagram (B)
		ip_len: count &log;
		## IPv4 identification. Null for IPv6
		ip_id: count &log &optional;
		## time to live or hop limit (hops)
		ttl: count &log;
		## Differentiated Services codepoint
		dscp: count &log;
		## ECN field: 0 not ECN-capable, 1 ECT(1), 2 ECT(0), 3 CE (congestion experienced)
		ecn: count &log;
		## the 12 flag bits: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128, AE 256. Null if there is no TCP header: another protocol, a later fragment that could not be joined, or a header that the capture or fragments cut
		tcp_flags: count &log &optional;
		## sequence number
		seq: count &log &optional;
		## acknowledgment number, as on the wire
		ack: count &log &optional;
		## window, as on the wire, not scaled
		window: count &log &optional;
		## TCP payload, by the IP and TCP headers (B)
		payload_len: count &log &optional;
		## maximum segment size option (B)
		mss: count &log &optional;
		## window scale option: shift count (bit)
		window_scale: count &log &optional;
		## SACK-permitted option: true if the packet has it
		sack_permitted: bool &log &optional;
		## timestamp option: the sender's clock
		ts_val: count &log &optional;
		## timestamp option: the echoed clock
		ts_ecr: count &log &optional;
		## edges of the SACK blocks: left, right, left, right, ...
		sack: vector of count &log &optional;
		## true if the capture cut the TCP options, so that an option may have been there though its column is null
		options_cut: bool &log &optional;
		## of a QUIC datagram, the form of its first packet: initial (begins a connection), zero_rtt (a client's data before the server's answer), handshake (completes the handshake), retry (the server's demand to prove the address), version_negotiation (the server's list of its versions), one_rtt (data, with a short header), unreachable (a message of ICMP: a datagram of the flow could not be delivered). Null if it is not QUIC's: a flow of QUIC's had a long header, or goes on from another port of the mobile, or has the port 443, 80 or 8443
		quic_form: string &log &optional;
		## the forms of the packets that follow the first one in the datagram: initial 1, zero_rtt 2, handshake 4, retry 8, version_negotiation 16, one_rtt 32, unreachable 64, not captured 128. Null if there are none
		quic_coalesced: count &log &optional;
		## version of a long header; 0: version negotiation
		quic_version: count &log &optional;
		## spin bit of a short header: true if it is 1
		quic_spin: bool &log &optional;
		## 32-bit hash of the destination connection ID's first 8 bytes, or 4 if it has fewer than 8. Null for a short header if no long header showed its length
		quic_dcid: count &log &optional;
		## 32-bit hash of the source connection ID's first 8 bytes, or 4 if it has fewer than 8. Null for a short header
		quic_scid: count &log &optional;
		## bytes of the first packet after its long header: its packet number and what is encrypted, at most 65535. Null for a short header, Retry and version negotiation, and if the capture cut the field off (B)
		quic_length: count &log &optional;
	};

	type Accounting: record {
		## time at which the message was seen
		ts: time &log;
		## address of the sender
		nas: addr &log;
		## Acct-Status-Type; 0 for an Access-Accept
		status: count &log;
		## Acct-Session-Id
		session: string &log &optional;
		## Framed-IP-Address
		address: addr &log &optional;
		## Framed-IPv6-Prefix and Delegated-IPv6-Prefix
		prefixes: vector of subnet &log &optional;
		## IMSI, Calling-Station-Id or User-Name
		subscriber: string &log &optional;
		## Acct-Session-Time (s)
		session_time: count &log &optional;
		## Acct-Delay-Time (s)
		delay: count &log &optional;
		## 3GPP-Charging-Id
		charging: string &log &optional;
		## Acct-Multi-Session-Id
		multi_session: string &log &optional;
		## Called-Station-Id
		apn: string &log &optional;
		## 3GPP-RAT-Type, as hexadecimal digits
		rat: string &log &optional;
		## 3GPP-User-Location-Info, as hexadecimal digits
		area: string &log &optional;
		## the first eight digits of 3GPP-IMEISV
		device: string &log &optional;
		## 3GPP-IMSI-MCC-MNC
		home: string &log &optional;
		## 3GPP-SGSN-MCC-MNC
		visited: string &log &optional;
		## 3GPP-GPRS-Negotiated-QoS-Profile
		qci: string &log &optional;
	};

	type Monitor: record {
		## time since which the packets are counted
		ts: time &log;
		## name of the Zeek process
		peer: string &log &optional;
		## packets that Zeek got since the previous row
		received: count &log;
		## packets that Zeek did not get
		dropped: count &log;
		## acknowledgments of data
		acks: count &log;
		## acknowledgments of data that Zeek did not see
		gaps: count &log;
	};
}
