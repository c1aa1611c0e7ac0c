// The READ responses and atomic results that a responder owes, in the order of their PSNs.
//
// Each is in the queue once, however often it was asked for, and no two overlap: a second copy would be owed to a peer
// that already has the data, and would take room from the peer's next READ. There is room for all requests that a peer
// may have in flight, and for as many that are asked for again.
//
// The queue knows neither memory nor frames: the responder makes each packet of the reply at the front, and reports
// when it left.
#pragma once

#include <cstdint>

#include "base/ring.h"
#include "transport/packet_count.h"
#include "uroce/psn.h"
#include "uroce/types.h"

namespace uroce {

/// A READ or atomic whose response is not sent in full.
struct Reply {
  bool atomic = false;
  bool again = false;  // it was answered in full before, so it does not count against the peer's max_rd_atomic
  Psn psn;             // of the next response packet
  uint32_t msn = 0;
  PdId pd = 0;      // READ: protection domain of the memory
  uint64_t va = 0;  // READ: address of the data of the next response packet
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
      kUnderWay,  // it is on its way, or already in the queue
      kFull,
  };
  enum class [[nodiscard]] Sent : uint8_t{
      kPart,  // more of this reply follows
      kAll,
  };

  /// Makes room for the replies to so many requests. The queue is empty afterwards.
  void make_room(uint32_t depth);
  /// The same, but what is queued stays.
  void grow(uint32_t depth);
  /// Begins anew for a connection. `mtu` is the payload of a full packet in bytes.
  void start(uint32_t mtu);
  void clear() { ring_.clear(); }

  /// Makes room for one more reply that is given for the first time. False when `limit` of those are already owed.
  /// Replies that are given again do not count: they stand before the others, and the first of them is dropped if the
  /// queue is full.
  [[nodiscard]] bool make_place(uint32_t limit);
  /// Appends a reply. There must be room.
  void push(const Reply& reply) { ring_.push(reply); }
  /// Puts an answer that is given again where its PSN belongs: in place of what is left of the same answer, or before
  /// all later ones. The later ones stay, because it may be the network that repeated the request, and not the
  /// requester. With `parts` the peer asks for parts of READs (selective repeat), so answers that overlap are joined.
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
