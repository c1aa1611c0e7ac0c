// Messages over a vfio-user socket: their framing, and the file descriptors that come with them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pmd/vfio_user/protocol.h"

namespace mqnic::vfio_user {

/// A file descriptor that is closed with its owner.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

struct Message {
  Header header{};
  std::vector<uint8_t> body;
  std::vector<UniqueFd> fds;
};

/// One connection. The peer is not trusted: whatever it sends, the result is a well-formed message or the end of the
/// connection.
class Channel {
 public:
  explicit Channel(UniqueFd socket) : socket_(std::move(socket)) {}

  enum class Received : uint8_t { kMessage, kNothing, kClosed };
  /// Receives the next message; kNothing when it is not complete after `timeout_ms` (0: does not wait), and then what
  /// came so far is kept. After kClosed nothing comes any more.
  Received receive(Message& message, int timeout_ms);

  /// Sends header and body together; the descriptors still belong to the caller. False when the peer is gone, or has
  /// not taken the message for seconds.
  bool send(const Header& header, std::span<const uint8_t> body, std::span<const int> fds = {});

  // The same without waiting:

  /// Sends what the peer takes now; the rest is kept for `flush`. One message at a time. False when the peer is gone.
  bool begin_send(const Header& header, std::span<const uint8_t> body, std::span<const int> fds = {});
  bool flush();
  bool sending() const { return !unsent_.empty(); }
  /// True when a message has arrived in part.
  bool receiving() const { return !partial_.empty(); }

  int fd() const { return socket_.get(); }

 private:
  Received fill(size_t want);
  bool wait(short events, int timeout_ms);

  UniqueFd socket_;
  std::vector<uint8_t> partial_;
  std::vector<UniqueFd> fds_;
  std::vector<uint8_t> unsent_;
  std::vector<UniqueFd> unsent_fds_;
};

/// The capabilities of either side, from the JSON of a VERSION message.
struct Capabilities {
  uint64_t message_fds_max = 1;
  uint64_t data_bytes_max = 1u << 20;
};
std::string version_json();
/// Returns nothing when `text` (what comes after the numbers of a VERSION message) is not NUL-terminated JSON.
std::optional<Capabilities> parse_version_json(std::span<const uint8_t> text);

}  // namespace mqnic::vfio_user
