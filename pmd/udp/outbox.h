// What is sent in one burst: packets of one size that follow each other to one destination become one message, which
// the kernel cuts into datagrams again (UDP_SEGMENT), and all messages of a socket one call.
//
// Used under the lock of the port that has it. Nothing is allocated after it was made.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <functional>
#include <utility>

#include "pmd/udp/datagram.h"
#include "pmd/udp/sockets.h"

namespace uroce::udp {

struct OutboxCounters {
  uint64_t tx_packets = 0;
  uint64_t tx_bytes = 0;        // of frames
  uint64_t tx_messages = 0;     // that the kernel was given
  uint64_t tx_too_long = 0;     // for the way that they would go
  uint64_t tx_unreachable = 0;  // the kernel knows no way, or a rule of its own forbids it
  uint64_t tx_waits = 0;        // times that a socket had no room
};

class Outbox {
 public:
  static constexpr uint32_t kFramesMost = 64;
  /// Is told of a frame that could not be sent, and the errno.
  using Complain = std::function<void(const OutFrame&, int)>;

  explicit Outbox(Complain complain) : complain_(std::move(complain)) {}

  /// `scope`: the interface of link-local addresses.
  void begin(uint32_t scope);
  /// At most kFramesMost between two `begin`. `tag` is the caller's, for `left`. The frame's bytes stay until `flush`.
  void add(const OutFrame& frame, uint32_t tag, const AddressSockets& from);
  /// Sends what was added.
  void flush();
  /// The tags of frames that a socket had no room for, in order: they are to be sent again.
  const uint32_t* left() const { return left_.data(); }
  uint32_t left_count() const { return left_count_; }

  const OutboxCounters& counters() const { return counters_; }

 private:
  struct Entry {
    OutFrame frame;
    uint32_t tag = 0;
    uint32_t next = 0;  // of the same message
  };
  struct Message {
    const Source* source = nullptr;
    IpAddress dst;
    uint32_t first = 0;
    uint32_t last = 0;
    uint32_t count = 0;
    uint32_t bytes = 0;
    bool closed = false;  // a shorter packet is the last one
  };
  struct alignas(8) Control {
    uint8_t bytes[96];
  };

  Message* find_open(const OutFrame& frame, const Source& source);
  void prepare(uint32_t index);
  void fill_control(const Message& message, msghdr& header, Control& control) const;
  bool send_from(uint32_t& at);
  bool send_singly(Message& message);
  bool send_one(const Message& message, uint32_t entry);
  void note_sent(const Message& message);
  void drop(const Message& message, int code);
  void drop_entry(const Entry& entry, int code);
  void keep(uint32_t at);

  const Complain complain_;
  OutboxCounters counters_;
  bool segments_ = true;  // the kernel cuts
  uint32_t scope_ = 0;
  uint32_t frame_count_ = 0;
  uint32_t message_count_ = 0;
  std::array<Entry, kFramesMost> entries_{};
  std::array<Message, kFramesMost> messages_{};
  std::array<mmsghdr, kFramesMost> headers_{};
  std::array<sockaddr_storage, kFramesMost> names_{};
  std::array<Control, kFramesMost> controls_{};
  std::array<iovec, kFramesMost> pieces_{};
  uint32_t piece_count_ = 0;
  std::array<uint32_t, kFramesMost> left_{};
  uint32_t left_count_ = 0;
};

}  // namespace uroce::udp
