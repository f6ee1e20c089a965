// Capture file without payload.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace giscope {

// Pcap file of raw IP packets, written through a buffer.
class File {
public:
    ~File();

    // Creates the file. Returns false and sets errno if that fails.
    bool Open(const std::string& path);

    // Returns the time of the first packet in a file; 0 if it has none.
    static double FirstTime(const std::string& path);

    bool IsOpen() const { return fd >= 0; }

    // Adds a packet: its first `kept` bytes, and its length on the wire.
    void Add(int64_t seconds, int32_t microseconds, const uint8_t* data, uint32_t kept, uint32_t length);

    // Writes the buffer. Returns false and sets errno if that fails; the packets that were not written are dropped.
    bool Flush();

    // Flushes and closes the file. Returns false and sets errno if not all could be written.
    bool Close();

    // Returns the second of the first packet in the buffer; undefined if the buffer is empty.
    int64_t WaitingSince() const { return waiting_since; }

    // Returns whether the buffer is large enough to be written.
    bool NeedsFlush() const { return buffer.size() >= FLUSH_SIZE; }

private:
    static constexpr size_t FLUSH_SIZE = 1 << 20;

    template<class T>
    void Append(T value);

    int fd = -1;
    int64_t waiting_since = 0;
    std::vector<uint8_t> buffer;
};

} // namespace giscope
