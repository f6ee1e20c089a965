// A capture file without payload.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace giscope {

// A pcap file of raw IP packets, written through a buffer.
class File {
public:
    ~File();

    // Creates the file; false, with errno, where it cannot be.
    bool Open(const std::string& path);

    // The time of the first packet in such a file; 0 where there is none.
    static double FirstTime(const std::string& path);

    bool IsOpen() const { return fd >= 0; }

    // Adds a packet: what is kept of it, and its length on the wire.
    void Add(int64_t seconds, int32_t microseconds, const uint8_t* data, uint32_t kept, uint32_t length);

    // Writes what is buffered; false, with errno, where it cannot be. What could not be written is dropped.
    bool Flush();

    // Flushes and closes; false, with errno, where not all could be written.
    bool Close();

    // Seconds of the packet that was the first since the last flush; meaningless where there is none.
    int64_t WaitingSince() const { return waiting_since; }

    bool HoldsMuch() const { return buffer.size() >= MUCH; }

private:
    static constexpr size_t MUCH = 1 << 20;

    template<class T>
    void Append(T value);

    int fd = -1;
    int64_t waiting_since = 0;
    std::vector<uint8_t> buffer;
};

} // namespace giscope
