// Packet analyzer between IP and the protocols above it.
#pragma once

#include <zeek/iosource/Packet.h>
#include <zeek/packet_analysis/Analyzer.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "File.h"
#include "Quic.h"

namespace giscope {

// Writes the headers of subscribers' packets to a file, and passes packets on to Zeek's other analyzers.
class Headers : public zeek::packet_analysis::Analyzer {
public:
    Headers() : zeek::packet_analysis::Analyzer("GISCOPE_HEADERS") {}

    bool AnalyzePacket(size_t len, const uint8_t* data, zeek::Packet* packet) override;

    static zeek::packet_analysis::AnalyzerPtr Instantiate() { return std::make_shared<Headers>(); }

    // Begins a file with the next packet from or to an address in these prefixes. pass_on: Zeek also analyzes
    // subscribers' packets; else they are only written.
    static void Start(const std::string& path, const std::vector<zeek::IPPrefix>& subscribers, bool pass_on);

    // Ends the file. Returns the time of its first packet; 0 if it has none.
    static double Finish();

private:
    // Address as a number; IPv4 addresses as IPv4-mapped IPv6 addresses.
    using Number = std::array<uint64_t, 2>;

    // Range of addresses: the first and the last.
    using Range = std::pair<Number, Number>;

    static Number NumberOf(const zeek::IPAddr& address);
    static std::vector<Range> RangesOf(const std::vector<zeek::IPPrefix>& prefixes);
    // port: as in the UDP header.
    static Endpoint EndpointOf(const zeek::IPAddr& address, const uint8_t* port);
    static bool IsSubscriber(const zeek::IPAddr& address);
    static void Write(size_t len, const uint8_t* data, const zeek::Packet& packet);
    static void CheckWritten(bool written);

    static inline File file;
    static inline Quic quic;
    static inline std::vector<uint8_t> with_quic;
    static inline std::string path;
    static inline std::vector<Range> subscribers;
    static inline double begun = 0;
    static inline bool pass_on = true;
};

} // namespace giscope
