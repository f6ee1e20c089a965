// QUIC's headers in UDP datagrams (RFC 8999; RFC 9000, 17; RFC 9369).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace giscope {

// One end of a flow of UDP: a hash of its address, one of address and port, the port, and whether it is a subscriber.
struct Endpoint {
    uint64_t host;
    uint64_t hash;
    uint16_t port;
    bool is_subscriber;
};

// Finds the headers that the built-in reader of giscope reads. The rules are the reader's (quic_headers.py and
// quic_flows.py): a short header counts on a port of QUIC's, or after a long one, also if the subscriber's port or
// the server's address has changed since. Only bytes that the reader needs are kept: of headers behind the first one, no
// connection ID is; of tokens, nothing is.
class Quic {
public:
    // Returns the first bytes of a datagram's payload, with zeros in place of what is no header. Empty if there is
    // no header. Valid until the next call.
    //
    // captured: bytes of the payload in the capture; size: on the wire.
    const std::vector<uint8_t>& Headers(Endpoint from, Endpoint to, const uint8_t* data, size_t captured, size_t size);

private:
    // Lengths of the connection IDs by which packets go to the host with the smaller hash, and to the other.
    using Flow = std::array<uint8_t, 2>;

    void KeepShort(size_t length);
    void KeepLong(Endpoint from, Endpoint to, bool is_known);
    size_t KeepPacket(size_t begin, uint32_t version);
    bool KeepNumber(size_t& at, uint64_t& value);
    void Keep(size_t begin, size_t end);

    // By the sum of both endpoints' hashes; with the hash of a subscriber's host in place of the endpoint's; and, to
    // the subscriber first, with the server's port in place of its hash.
    std::unordered_map<uint64_t, Flow> flows;
    std::vector<uint8_t> kept;

    // The present payload.
    const uint8_t* data = nullptr;
    size_t captured = 0;
    size_t size = 0;
};

} // namespace giscope
