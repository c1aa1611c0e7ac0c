#include "dpdk/pcapng_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file_lock.h"
#include "capture/pcapng_blocks.h"
#include "dpdk/log.h"

namespace uroce {

namespace {

/// Opens the file, and empties it unless another process is writing to it. Returns -1, with one line in `error`, when
/// that fails.
int open_capture(const std::string& name, std::string& error) {
  const int fd = open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd >= 0 && !lock_file(fd) && is_held_by_another(errno)) {
    error = "the capture " + name +
            " is being written already, by another program or for another endpoint of this one: "
            "name another file, or put %p into the name, which becomes the process id";
    close(fd);
    return -1;
  }
  struct stat file {};
  const bool regular = fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode);  // or a pipe, which has no length
  if (fd < 0 || (regular && ftruncate(fd, 0) != 0)) {
    error = "cannot write the capture " + name + ": " + std::strerror(errno);
    if (fd >= 0) close(fd);
    return -1;
  }
  return fd;
}

}  // namespace

std::unique_ptr<PcapngWriter> PcapngWriter::create(const std::string& path, const std::string& interface_name,
                                                   int64_t wall_offset_ns, std::string& error) {
  std::string name = path;
  if (const auto at = name.find("%p"); at != std::string::npos) name.replace(at, 2, std::to_string(getpid()));
  const int fd = open_capture(name, error);
  if (fd < 0) return nullptr;
  std::unique_ptr<PcapngWriter> writer(new PcapngWriter(fd, name, wall_offset_ns));
  capture::append_section(writer->active_);
  writer->add_interface(interface_name);
  writer->begin_flush();
  writer->finish_flush();
  return writer;
}

PcapngWriter::PcapngWriter(int fd, std::string path, int64_t wall_offset_ns)
    : fd_(fd), path_(std::move(path)), wall_offset_ns_(wall_offset_ns) {
  active_.reserve(kBufferBytes);
  writing_.reserve(kBufferBytes);
}

void PcapngWriter::abandon() {
  close(fd_);
  fd_ = -1;
  failed_ = true;
}

PcapngWriter::~PcapngWriter() {
  begin_flush();
  finish_flush();
  close(fd_);
}

uint32_t PcapngWriter::add_interface(const std::string& name) {
  capture::append_interface(active_, name);
  return interfaces_++;
}

void PcapngWriter::on_frame_at(uint32_t interface, Direction direction, Instant now, std::span<const uint8_t> frame) {
  const size_t block_bytes = capture::packet_block_bytes(frame.size());
  if (block_bytes > kBufferBytes) return;
  if (active_.size() + block_bytes > kBufferBytes) {
    begin_flush();
    finish_flush();
  }
  capture::append_packet(active_, {.interface = interface,
                                   .time = now + Duration{wall_offset_ns_},
                                   .inbound = direction == Direction::kReceived,
                                   .frame = frame});
}

void PcapngWriter::begin_flush() {
  const std::lock_guard guard(writing_mutex_);
  // If the last part is not written yet, both are written now, in order.
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
