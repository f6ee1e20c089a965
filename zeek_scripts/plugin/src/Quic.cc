#include "Quic.h"

#include <algorithm>

namespace giscope {

namespace {

constexpr uint8_t LONG_HEADER = 0x80, FIXED_BIT = 0x40;
constexpr uint32_t VERSION_NEGOTIATION = 0, VERSION_1 = 1, VERSION_2 = 0x6b3343cf, VERSION_2_DRAFT = 0x709a50c4;
enum Form { INITIAL, ZERO_RTT, HANDSHAKE, RETRY };

// Minimum length of a datagram with a short header (RFC 9000, 10.3), and of any.
constexpr size_t MIN_SHORT_BYTES = 21, MIN_BYTES = 17;
constexpr size_t MAX_ID_BYTES = 20;

// A hash of a connection ID is of 8 bytes, or of 4 if it has less than 8.
constexpr size_t HASHED_BYTES = 8, SHORT_HASHED_BYTES = 4;

// Maximum number of flows that are remembered; then all are forgotten.
constexpr size_t MAX_FLOWS = 1 << 20;

bool IsQuicPort(uint16_t port) { return port == 443 || port == 80 || port == 8443; }

bool IsVersion2(uint32_t version) { return version == VERSION_2 || version == VERSION_2_DRAFT; }

// Returns whether this is a number of a version in use: see quic_headers.py.
bool IsVersion(uint32_t version) {
    auto name = version >> 16;
    return version == VERSION_1 || IsVersion2(version) || version >> 8 == 0xff0000 || version >> 8 == 0xff0200 ||
           version >> 4 == 0xfaceb00 || (version & 0x0f0f0f0f) == 0x0a0a0a0a ||
           ((name == 0x5130 || name == 0x5430) && (version & 0xf0f0) == 0x3030);
}

// Returns whether connection IDs have a byte for their length each: see quic_headers.py.
bool HasIdLengths(uint32_t version) {
    auto name = version >> 16, number = version & 0xffff;
    if ( name == 0x5130 || name == 0x5430 )
        return number <= 0x3030 || number >= 0x3439;
    return version <= 0xff000000 || version >= 0xff000016;
}

Form LongForm(uint8_t first, uint32_t version) {
    return static_cast<Form>(((first >> 4) + (IsVersion2(version) ? 3 : 0)) & 3);
}

} // namespace

const std::vector<uint8_t>& Quic::Headers(Endpoint from, Endpoint to, const uint8_t* arg_data, size_t arg_captured,
                                          size_t arg_size) {
    data = arg_data;
    captured = arg_captured;
    size = arg_size;
    kept.clear();
    if ( captured == 0 || size < MIN_BYTES )
        return kept;

    auto flow = flows.find(from.hash + to.hash);
    bool is_known = flow != flows.end();
    // Once both ends have agreed to it, the fixed bit may be random (RFC 9287).
    bool may_be = is_known || ((data[0] & FIXED_BIT) && (IsQuicPort(from.port) || IsQuicPort(to.port)));
    if ( data[0] & LONG_HEADER ) {
        KeepLong(from, to, may_be);
        return kept;
    }
    if ( flow == flows.end() && from.is_subscriber )
        flow = flows.find(from.host + to.hash);
    if ( flow == flows.end() && to.is_subscriber )
        flow = flows.find(from.hash + to.host);
    bool way = to.host > from.host;
    if ( flow == flows.end() && from.is_subscriber ) {
        flow = flows.find(from.hash + to.port);
        way = true;
    }
    if ( flow == flows.end() && to.is_subscriber ) {
        flow = flows.find(to.hash + from.port);
        way = false;
    }
    if ( (may_be || flow != flows.end()) && size >= MIN_SHORT_BYTES )
        KeepShort(flow != flows.end() ? flow->second[way] : 0);
    return kept;
}

void Quic::KeepShort(size_t length) {
    Keep(0, 1);
    if ( length < SHORT_HASHED_BYTES || captured < 1 + HASHED_BYTES )
        return;

    Keep(1, 1 + (length < HASHED_BYTES ? SHORT_HASHED_BYTES : HASHED_BYTES));
    kept.resize(1 + HASHED_BYTES);
}

void Quic::KeepLong(Endpoint from, Endpoint to, bool is_known) {
    if ( captured < 7 )
        return;

    uint32_t version = uint32_t{data[1]} << 24 | uint32_t{data[2]} << 16 | uint32_t{data[3]} << 8 | data[4];
    size_t source = 7 + data[5];
    if ( data[5] > MAX_ID_BYTES || source > captured || ! HasIdLengths(version) )
        return;

    uint8_t source_bytes = data[source - 1];
    size_t end = source + source_bytes;
    if ( source_bytes > MAX_ID_BYTES || end > std::min(captured, size) )
        return;

    bool may_negotiate = version == VERSION_NEGOTIATION && (IsQuicPort(from.port) || IsQuicPort(to.port));
    if ( ! (is_known || IsVersion(version) || may_negotiate) )
        return;

    if ( flows.size() >= MAX_FLOWS )
        flows.clear();
    auto way = from.host > to.host;
    flows[from.hash + to.hash][way] = source_bytes;
    if ( from.is_subscriber ) {
        flows[from.host + to.hash][way] = source_bytes;
        flows[from.hash + to.port][false] = source_bytes;
    }
    if ( to.is_subscriber ) {
        flows[from.hash + to.host][way] = source_bytes;
        flows[to.hash + from.port][true] = source_bytes;
    }

    Keep(0, end);
    if ( version == VERSION_NEGOTIATION )
        return;

    size_t at = KeepPacket(0, version);
    if ( at == 0 && captured >= size )
        kept.resize(std::max(kept.size(), size)); // nothing was cut: there is no Length
    while ( at != 0 && at < std::min(captured, size) ) {
        if ( data[at] == 0 ) {
            kept.resize(at + 1); // padding
            return;
        }
        Keep(at, at + 1);
        if ( (data[at] & LONG_HEADER) == 0 )
            return;

        at = KeepPacket(at, version);
        if ( at == 0 && captured >= size )
            kept.resize(std::max(kept.size(), size));
    }
}

// Keeps what leads from a packet with a long header to the next. Returns its position; 0 if it is not known.
size_t Quic::KeepPacket(size_t begin, uint32_t version) {
    auto form = LongForm(data[begin], version);
    if ( form == RETRY || begin + 6 > captured )
        return 0;

    Keep(begin, begin + 6);
    size_t at = begin + 6 + data[begin + 5];
    if ( at >= captured )
        return 0;

    Keep(at, at + 1);
    at += 1 + data[at];
    uint64_t value = 0;
    if ( form == INITIAL ) {
        if ( ! KeepNumber(at, value) )
            return 0;

        at += value;
    }
    return KeepNumber(at, value) ? at + value : 0;
}

// Keeps a number of variable length, and moves to the position after it. Returns false if the capture cut it.
bool Quic::KeepNumber(size_t& at, uint64_t& value) {
    if ( at >= captured )
        return false;

    size_t length = size_t{1} << (data[at] >> 6);
    if ( at + length > captured )
        return false;

    Keep(at, at + length);
    value = data[at] & 0x3f;
    for ( size_t i = 1; i < length; ++i )
        value = value << 8 | data[at + i];
    at += length;
    return true;
}

void Quic::Keep(size_t begin, size_t end) {
    if ( end <= kept.size() )
        return;

    begin = std::max(begin, kept.size());
    kept.resize(begin);
    kept.insert(kept.end(), data + begin, data + end);
}

} // namespace giscope
