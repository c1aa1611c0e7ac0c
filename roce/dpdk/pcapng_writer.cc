#include "dpdk/pcapng_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "dpdk/log.h"

namespace uroce {
namespace {

// Block types and options of the pcapng format. All words are in the writer's byte order.
constexpr uint32_t kSectionHeader = 0x0A0D0D0A;
constexpr uint32_t kInterface = 1;
constexpr uint32_t kEnhancedPacket = 6;
constexpr uint32_t kByteOrderMagic = 0x1A2B3C4D;
constexpr uint16_t kOptionEnd = 0;
constexpr uint16_t kShbUserApplication = 4;
constexpr uint16_t kIfName = 2;
constexpr uint16_t kIfTimestampResolution = 9;
constexpr uint16_t kEpbFlags = 2;
constexpr uint32_t kInbound = 1;
constexpr uint32_t kOutbound = 2;
constexpr uint16_t kLinkEthernet = 1;

constexpr size_t padded(size_t bytes) { return (bytes + 3) & ~size_t{3}; }
constexpr size_t option_bytes(size_t bytes) { return 4 + padded(bytes); }

}  // namespace

std::unique_ptr<PcapngWriter> PcapngWriter::create(const std::string& path, const std::string& interface_name,
                                                   int64_t wall_offset_ns, std::string& error) {
  std::string name = path;
  if (const auto at = name.find("%p"); at != std::string::npos) name.replace(at, 2, std::to_string(getpid()));
  const int fd = open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    error = "cannot write the capture " + name + ": " + std::strerror(errno);
    return nullptr;
  }
  std::unique_ptr<PcapngWriter> writer(new PcapngWriter(fd, name, wall_offset_ns));
  writer->put_headers(interface_name);
  writer->begin_flush();
  writer->finish_flush();
  return writer;
}

PcapngWriter::PcapngWriter(int fd, std::string path, int64_t wall_offset_ns)
    : fd_(fd), path_(std::move(path)), wall_offset_ns_(wall_offset_ns) {
  active_.reserve(kBufferBytes);
  writing_.reserve(kBufferBytes);
}

PcapngWriter::~PcapngWriter() {
  begin_flush();
  finish_flush();
  close(fd_);
}

void PcapngWriter::put(const void* data, size_t bytes) {
  const auto* begin = static_cast<const uint8_t*>(data);
  active_.insert(active_.end(), begin, begin + bytes);
  active_.resize(padded(active_.size()));
}

void PcapngWriter::put_option(uint16_t code, const void* data, size_t bytes) {
  const uint16_t head[2] = {code, static_cast<uint16_t>(bytes)};
  put(head, sizeof head);
  put(data, bytes);
}

void PcapngWriter::put_headers(const std::string& interface_name) {
  static constexpr char kApplication[] = "uroce";
  const size_t application_bytes = sizeof kApplication - 1;
  const uint32_t section_bytes = static_cast<uint32_t>(28 + option_bytes(application_bytes) + 4);
  put_u32(kSectionHeader);
  put_u32(section_bytes);
  put_u32(kByteOrderMagic);
  put_u32(1);           // version 1.0: major in the low half
  put_u32(0xFFFFFFFF);  // section length, 64 bits: unknown
  put_u32(0xFFFFFFFF);
  put_option(kShbUserApplication, kApplication, application_bytes);
  put_option(kOptionEnd, nullptr, 0);
  put_u32(section_bytes);
  add_interface(interface_name);
}

uint32_t PcapngWriter::add_interface(const std::string& name) {
  const uint8_t nanoseconds = 9;
  const uint32_t interface_bytes =
      static_cast<uint32_t>(20 + option_bytes(name.size()) + option_bytes(sizeof nanoseconds) + 4);
  put_u32(kInterface);
  put_u32(interface_bytes);
  put_u32(kLinkEthernet);
  put_u32(0);  // no limit on the length of a frame
  put_option(kIfName, name.data(), name.size());
  put_option(kIfTimestampResolution, &nanoseconds, sizeof nanoseconds);
  put_option(kOptionEnd, nullptr, 0);
  put_u32(interface_bytes);
  return interfaces_++;
}

void PcapngWriter::on_frame_at(uint32_t interface, Direction direction, Instant now, std::span<const uint8_t> frame) {
  const size_t block_bytes = 32 + padded(frame.size()) + option_bytes(4) + 4;
  if (block_bytes > kBufferBytes) return;
  if (active_.size() + block_bytes > kBufferBytes) {
    begin_flush();
    finish_flush();
  }
  const auto time = static_cast<uint64_t>(now.ns + wall_offset_ns_);
  const auto bytes = static_cast<uint32_t>(frame.size());
  const auto block = static_cast<uint32_t>(block_bytes);
  const uint32_t head[] = {
      kEnhancedPacket, block, interface, static_cast<uint32_t>(time >> 32), static_cast<uint32_t>(time), bytes, bytes};
  put(head, sizeof head);
  put(frame.data(), frame.size());
  const uint32_t flags = direction == Direction::kReceived ? kInbound : kOutbound;
  put_option(kEpbFlags, &flags, sizeof flags);
  put_option(kOptionEnd, nullptr, 0);
  put_u32(block);
}

void PcapngWriter::begin_flush() {
  const std::lock_guard guard(writing_mutex_);
  // Not written yet: then both go out now, in order.
  if (!writing_.empty()) write_out(writing_);
  std::swap(active_, writing_);
}

void PcapngWriter::finish_flush() {
  const std::lock_guard guard(writing_mutex_);
  write_out(writing_);
}

void PcapngWriter::write_out(std::vector<uint8_t>& bytes) {
  size_t done = 0;
  while (!failed_ && done < bytes.size()) {
    const ssize_t n = write(fd_, bytes.data() + done, bytes.size() - done);
    if (n > 0) {
      done += static_cast<size_t>(n);
    } else if (n < 0 && errno != EINTR) {
      failed_ = true;
      log_message(LogLevel::kError, "the capture %s ends here: %s", path_.c_str(), std::strerror(errno));
    }
  }
  bytes.clear();
}

}  // namespace uroce
