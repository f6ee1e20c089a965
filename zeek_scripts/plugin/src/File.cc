#include "File.h"

#include <fcntl.h>
#include <unistd.h>
#include <cerrno>
#include <fstream>
#include <utility>

namespace giscope {

namespace {

constexpr uint32_t PCAP_MAGIC = 0xa1b2c3d4;
constexpr uint32_t MAX_PACKET_LENGTH = 262144;
constexpr uint32_t LINKTYPE_RAW = 101;

// Headers of a pcap file and of a packet in it (draft-ietf-opsawg-pcap).
struct FileHeader {
    uint32_t magic = PCAP_MAGIC;
    uint16_t major = 2, minor = 4;
    uint32_t reserved[2] = {0, 0};
    uint32_t max_length = MAX_PACKET_LENGTH;
    uint32_t link_type = LINKTYPE_RAW;
};

struct PacketHeader {
    uint32_t seconds, microseconds, kept, length;
};

} // namespace

template<class T>
void File::Append(T value) {
    auto bytes = reinterpret_cast<const uint8_t*>(&value);
    buffer.insert(buffer.end(), bytes, bytes + sizeof(T));
}

File::~File() { Close(); }

bool File::Open(const std::string& path) {
    fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if ( fd < 0 )
        return false;

    buffer.reserve(2 * FLUSH_SIZE);
    Append(FileHeader());
    if ( Flush() )
        return true;

    auto error = errno;
    close(std::exchange(fd, -1));
    errno = error;
    return false;
}

double File::FirstTime(const std::string& path) {
    FileHeader file;
    PacketHeader packet;
    std::ifstream source(path, std::ios::binary);
    source.read(reinterpret_cast<char*>(&file), sizeof(file));
    source.read(reinterpret_cast<char*>(&packet), sizeof(packet));
    return source ? packet.seconds + packet.microseconds / 1e6 : 0;
}

void File::Add(int64_t seconds, int32_t microseconds, const uint8_t* data, uint32_t kept, uint32_t length) {
    if ( buffer.empty() )
        waiting_since = seconds;

    Append(PacketHeader{static_cast<uint32_t>(seconds), static_cast<uint32_t>(microseconds), kept, length});
    buffer.insert(buffer.end(), data, data + kept);
}

bool File::Flush() {
    auto start = lseek(fd, 0, SEEK_CUR);
    size_t written = 0;
    while ( written < buffer.size() ) {
        auto n = write(fd, buffer.data() + written, buffer.size() - written);
        if ( n < 0 && errno != EINTR )
            break;
        written += n > 0 ? n : 0;
    }
    bool complete = written == buffer.size();
    buffer.clear();
    if ( ! complete ) {
        // Remove the packet that was written in part, so that the file has whole packets only.
        auto error = errno;
        if ( ftruncate(fd, start) == 0 )
            lseek(fd, start, SEEK_SET);
        errno = error;
    }
    return complete;
}

bool File::Close() {
    if ( ! IsOpen() )
        return true;

    bool complete = Flush();
    return close(std::exchange(fd, -1)) == 0 && complete;
}

} // namespace giscope
