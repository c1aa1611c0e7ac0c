// The client's memory by messages over its connection, for memory that it does not share.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "pmd/vfio_user/channel.h"

namespace mqnic::card {

/// One message is answered before the next is sent, and before the card goes on: as with a read over a real bus, and so
/// that no interrupt overtakes what it is about.
///
/// The client is not trusted. A limited number of commands that it sends meanwhile are kept, in their order. A client
/// that takes longer than the patience for all messages of a turn, breaks the protocol or goes away is in `trouble`:
/// from then on it is asked nothing any more, and the owner of this object has to end the connection.
class DmaMessages {
 public:
  static constexpr size_t kDeferredMax = 256;
  static constexpr size_t kDeferredFdsMax = 64;

  /// `stop` is called every few milliseconds while an answer is waited for; true ends the wait.
  DmaMessages(uint64_t patience_ns, std::function<bool()> stop) : patience_ns_(patience_ns), stop_(std::move(stop)) {}

  /// `channel` lives until `end_client`.
  void begin_client(vfio_user::Channel& channel);
  void end_client();
  /// How many bytes the client takes in one message.
  void set_bytes_max(uint64_t bytes);
  /// From now on the client has all its time again.
  void begin_turn() { waited_ns_ = 0; }

  /// False when the client refuses, or is in trouble.
  bool read(uint64_t address, std::span<uint8_t> to);
  bool write(uint64_t address, std::span<const uint8_t> from);

  enum class Trouble : uint8_t { kNone, kSlow, kGone };
  Trouble trouble() const { return trouble_; }

  bool has_deferred() const { return !deferred_.empty(); }
  /// The next command that came meanwhile. False: there is none.
  bool take_deferred(vfio_user::Message& command);

 private:
  bool exchange(vfio_user::Command command, std::span<const uint8_t> body);
  bool receive(const vfio_user::Header& request, bool& answered);
  bool defer();
  bool wait(uint64_t begun_ns);
  bool fail(Trouble trouble);

  const uint64_t patience_ns_;
  const std::function<bool()> stop_;
  vfio_user::Channel* channel_ = nullptr;
  Trouble trouble_ = Trouble::kNone;
  size_t bytes_max_ = 0;
  uint64_t waited_ns_ = 0;  // in this turn
  uint16_t next_id_ = 1;
  std::vector<uint8_t> request_;
  vfio_user::Message reply_;
  std::deque<vfio_user::Message> deferred_;
  size_t deferred_fds_ = 0;
};

}  // namespace mqnic::card
