#include "Headers.h"

#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <zeek/IP.h>
#include <zeek/IPAddr.h>
#include <zeek/Reporter.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace giscope {

namespace {

// Returns the bytes of the headers in a message of ICMP that a datagram of UDP could not be delivered (RFC 792; RFC
// 4443, 3.1): its own, and the datagram's. Returns its own for any other message.
size_t IcmpHeaderLength(int protocol, size_t len, const uint8_t* data) {
    size_t length = sizeof(icmp6_hdr);
    bool is_ipv6 = protocol == IPPROTO_ICMPV6;
    size_t ip_length = is_ipv6 ? sizeof(ip6_hdr) : sizeof(ip);
    if ( len < length + ip_length || data[0] != (is_ipv6 ? ICMP6_DST_UNREACH : ICMP_DEST_UNREACH) )
        return length;

    auto inside = data + length;
    bool is_udp = inside[0] >> 4 == (is_ipv6 ? 6 : 4) && inside[is_ipv6 ? 6 : 9] == IPPROTO_UDP;
    if ( ! is_ipv6 ) {
        bool is_later_fragment = (inside[6] & 0x1f) != 0 || inside[7] != 0;
        is_udp = is_udp && ! is_later_fragment && (inside[0] & 15) >= 5;
        ip_length = (inside[0] & 15) * 4;
    }
    return is_udp ? length + ip_length + sizeof(udphdr) : length;
}

// Returns the bytes to keep of a packet above IP: the transport header with its options, no payload. The
// built-in reader does not look for QUIC in fragments, so a reassembled packet has none here either.
size_t HeaderLength(int protocol, size_t len, const uint8_t* data, bool reassembled) {
    size_t length = 0;
    if ( protocol == IPPROTO_TCP )
        length = len < sizeof(tcphdr) ? len : std::max<size_t>(sizeof(tcphdr), (data[12] >> 4) * 4);
    else if ( protocol == IPPROTO_UDP )
        length = sizeof(udphdr);
    else if ( protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6 )
        length = reassembled ? sizeof(icmp6_hdr) : IcmpHeaderLength(protocol, len, data);
    return std::min(len, length);
}

} // namespace

bool Headers::AnalyzePacket(size_t len, const uint8_t* data, zeek::Packet* packet) {
    const auto& ip = *packet->ip_hdr;
    if ( IsSubscriber(ip.IPHeaderSrcAddr()) || IsSubscriber(ip.IPHeaderDstAddr()) ) {
        Write(len, data, *packet);
        if ( ! pass_on ) {
            packet->processed = true;
            return true;
        }
    }
    // Other packets are always analyzed: they may be tunnels that contain subscribers' packets.
    return ForwardPacket(len, data, packet, packet->proto);
}

void Headers::Start(const std::string& arg_path, const std::vector<zeek::IPPrefix>& prefixes, bool arg_pass_on) {
    path = arg_path;
    subscribers = RangesOf(prefixes);
    pass_on = arg_pass_on;
}

double Headers::Finish() {
    CheckWritten(file.Close());
    return std::exchange(begun, 0);
}

Headers::Number Headers::NumberOf(const zeek::IPAddr& address) {
    in6_addr bytes;
    address.CopyIPv6(&bytes);
    Number number;
    memcpy(number.data(), &bytes, sizeof(number));
    for ( auto& half : number )
        half = be64toh(half);
    return number;
}

std::vector<Headers::Range> Headers::RangesOf(const std::vector<zeek::IPPrefix>& prefixes) {
    std::vector<Range> ranges;
    for ( const auto& prefix : prefixes ) {
        auto first = NumberOf(prefix.Prefix());
        auto last = first;
        int host_bits = 128 - prefix.LengthIPv6();
        last[1] |= host_bits >= 64 ? ~0ULL : (1ULL << host_bits) - 1;
        last[0] |= host_bits >= 128 ? ~0ULL : (host_bits > 64 ? (1ULL << (host_bits - 64)) - 1 : 0);
        ranges.emplace_back(first, last);
    }
    std::sort(ranges.begin(), ranges.end());

    // If two prefixes overlap, one contains the other. In this order the wider one comes first, or ends later.
    std::vector<Range> merged;
    for ( const auto& range : ranges ) {
        if ( ! merged.empty() && range.first <= merged.back().second )
            merged.back().second = std::max(merged.back().second, range.second);
        else
            merged.push_back(range);
    }
    return merged;
}

Endpoint Headers::EndpointOf(const zeek::IPAddr& address, const uint8_t* port) {
    auto add = [](uint64_t hash, uint64_t part) {
        hash = (hash ^ part) * 0x9e3779b97f4a7c15;
        return hash ^ hash >> 32;
    };
    auto number = NumberOf(address);
    uint16_t port_number = port[0] << 8 | port[1];
    auto host = add(add(0, number[0]), number[1]);
    return {host, add(host, port_number), port_number, IsSubscriber(address)};
}

bool Headers::IsSubscriber(const zeek::IPAddr& address) {
    auto number = NumberOf(address);
    auto next = std::upper_bound(subscribers.begin(), subscribers.end(), number,
                                   [](const Number& n, const Range& range) { return n < range.first; });
    return next != subscribers.begin() && number <= std::prev(next)->second;
}

void Headers::Write(size_t len, const uint8_t* data, const zeek::Packet& packet) {
    if ( ! file.IsOpen() ) {
        if ( ! file.Open(path) ) {
            CheckWritten(false);
            return;
        }
        begun = packet.time;
    }

    const auto& ip = *packet.ip_hdr;
    auto header = ip.IP4_Hdr() ? reinterpret_cast<const uint8_t*>(ip.IP4_Hdr()) :
                                 reinterpret_cast<const uint8_t*>(ip.IP6_Hdr());
    // Segmentation offload may leave the length in the IP header 0; then the length of the captured packet is used.
    bool offloaded = ip.IP4_Hdr() ? ip.IP4_Hdr()->ip_len == 0 : ip.IP6_Hdr()->ip6_plen == 0;
    uint32_t length = offloaded ? packet.len - (header - packet.data) : ip.TotalLen();
    auto kept = (data - header) + HeaderLength(packet.proto, len, data, ip.Reassembled());
    if ( packet.proto == IPPROTO_UDP && len > sizeof(udphdr) && ! ip.Reassembled() ) {
        size_t size = std::max<size_t>(data[4] << 8 | data[5], sizeof(udphdr)) - sizeof(udphdr);
        const auto& above =
            quic.Headers(EndpointOf(ip.IPHeaderSrcAddr(), data), EndpointOf(ip.IPHeaderDstAddr(), data + 2),
                         data + sizeof(udphdr), len - sizeof(udphdr), size);
        if ( ! above.empty() ) {
            with_quic.assign(header, header + kept);
            with_quic.insert(with_quic.end(), above.begin(), above.end());
            header = with_quic.data();
            kept = with_quic.size();
        }
    }
    file.Add(packet.ts.tv_sec, packet.ts.tv_usec, header, kept, std::max<uint32_t>(length, kept));
    if ( file.NeedsFlush() || packet.ts.tv_sec > file.WaitingSince() )
        CheckWritten(file.Flush());
}

void Headers::CheckWritten(bool written) {
    static bool reported = false;
    if ( ! written && ! reported )
        zeek::reporter->Error("giscope: %s: %s; packets are lost", path.c_str(), strerror(errno));
    reported = ! written;
}

} // namespace giscope
