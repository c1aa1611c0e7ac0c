// The READ responses and atomic results that a responder owes, in the order of their PSNs.
//
// Each stands there once, however often it was asked for, and no two overlap: one that stayed behind its copy would be
// owed to a peer that has it, and take a place from the peer's next READ. There is room for all requests that a peer
// may have in flight, and for as many of them asked for again.
//
// It knows neither memory nor frames: the responder makes each packet of the reply at the front, and says when it left.
#pragma once

#include <cstdint>

#include "base/ring.h"
#include "transport/packet_count.h"
#include "uroce/psn.h"

namespace uroce {

/// A READ or atomic whose response is not sent in full.
struct Reply {
  bool atomic = false;
  bool again = false;  // was answered in full before: owed to nobody who keeps to his max_rd_atomic
  Psn psn;             // of the next response packet
  uint32_t msn = 0;
  uint64_t va = 0;  // READ: of the next response packet
  uint32_t rkey = 0;
  uint32_t remaining = 0;  // bytes
  bool begun = false;
  uint64_t original = 0;  // atomic: the value before
  Psn end(uint32_t mtu) const { return psn + packets_of(remaining, mtu); }
};

class ReplyQueue {
 public:
  enum class [[nodiscard]] Repeat : uint8_t{
      kQueued,
      kUnderWay,  // it will come anyway
      kFull,
  };
  enum class [[nodiscard]] Sent : uint8_t{
      kPart,  // more of this reply follows
      kAll,
  };

  /// Room for the replies to so many requests; nothing is queued.
  void make_room(uint32_t depth);
  /// The same, and what is queued stays.
  void grow(uint32_t depth);
  /// A new connection. `mtu`: payload bytes of a full packet.
  void start(uint32_t mtu);
  void clear() { ring_.clear(); }

  /// A place for one more that is answered for the first time, of which at most `limit` may be owed. What is answered
  /// again does not count: it stands before them, and gives way.
  [[nodiscard]] bool make_place(uint32_t limit);
  /// Behind all others. There must be a place.
  void push(const Reply& reply) { ring_.push(reply); }
  /// Puts an answer that is given again where its PSN belongs: in place of all that is left of the same one, or before
  /// all later ones. Those stay: the network may have repeated a request that the requester did not. `parts`: the peer
  /// asks for parts of READs (selective repeat), so what overlaps is joined.
  Repeat repeat(Reply reply, bool parts);

  bool empty() const { return ring_.empty(); }
  bool read_is_next() const { return !empty() && !front().atomic; }
  const Reply& front() const { return ring_.front(); }
  /// The next packet of the reply at the front left, with so many bytes of payload.
  Sent on_sent(uint32_t bytes);
  /// The reply at the front will not be sent.
  void pop() { ring_.pop(); }

 private:
  bool one_read(const Reply& a, const Reply& b) const;
  void replace(uint32_t from, uint32_t to, const Reply& reply);

  Ring<Reply> ring_{1};
  uint32_t mtu_ = 1;
};

}  // namespace uroce
