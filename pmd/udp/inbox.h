// What has come to a socket: several messages with one call, each of which may be many datagrams of one size that the
// kernel has put together (UDP_GRO).
//
// Used under the lock of the port that has it. Nothing is allocated after it was made.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <memory>

#include "pmd/udp/datagram.h"
#include "pmd/udp/sockets.h"

namespace uroce::udp {

class Inbox {
 public:
  Inbox();

  /// Takes what waits at the address's port. False when there is nothing. To be called when the last datagram was
  /// taken.
  bool read(const AddressSockets& from);
  /// The next datagram; its bytes stay until `read`. False when there is none.
  bool next(InDatagram& out);
  /// Drops what was read.
  void clear() { at_ = count_; }
  bool empty() const { return at_ >= count_; }
  /// The last `read` took as much as it can: more may be waiting.
  bool had_more() const { return count_ == kMessages; }
  uint64_t messages() const { return messages_; }

 private:
  static constexpr uint32_t kMessages = 8;
  static constexpr uint32_t kMessageBytes = 65536;
  struct alignas(8) Control {
    uint8_t bytes[128];
  };

  void offer(uint32_t index);
  void open_message();

  std::unique_ptr<uint8_t[]> bytes_;
  std::array<mmsghdr, kMessages> headers_{};
  std::array<iovec, kMessages> pieces_{};
  std::array<sockaddr_storage, kMessages> names_{};
  std::array<Control, kMessages> controls_{};
  uint32_t count_ = 0;  // messages that were read
  uint32_t at_ = 0;     // the one that datagrams are taken from
  uint64_t messages_ = 0;
  bool opened_ = false;
  InDatagram datagram_;  // of it: what its datagrams have in common
  uint32_t segment_bytes_ = 0;
  uint32_t taken_bytes_ = 0;
};

}  // namespace uroce::udp
