// The receive that the current message fills: taken from the QP's own queue or from a shared one, filled packet by
// packet, completed once. The three responders (RC, UC, UD) share it.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/qp_context.h"
#include "transport/receive_queue.h"
#include "transport/sge_list.h"

namespace uroce {

/// What tag matching (tag_arrivals.h) says about the message that fills a receive, for its completion.
struct ReceiveMark {
  WcOpcode opcode = WcOpcode::kRecv;
  uint8_t flags = 0;
  bool tagged = false;      // it is a tagged receive
  bool fetches = false;     // its data is still to be fetched
  bool unexpected = false;  // the message counts as unexpected
  uint32_t context = 0;     // of the header of a message that matched
  uint64_t tag = 0;
};

class ReceiveSlot {
 public:
  /// `own` is unused, and empty, when the QP has a shared queue.
  ReceiveSlot(QpContext& context, ReceiveQueue& own)
      : context_(context), own_(own), shared_sges_(takes_of_shared(context) ? new Sge[kMaxSges] : nullptr) {}

  bool available() const { return context_.srq != nullptr ? !context_.srq->empty() : !own_.empty(); }
  bool active() const { return active_; }
  /// How many receives the peer may be told of. Those of a shared queue do not count, because other QPs may take them.
  uint32_t posted() const { return own_.size(); }

  /// Takes the oldest receive. One must be available and none active.
  void take();
  /// The same for a receive that was taken from its queue already.
  void take(const TaggedReceive& receive, const ReceiveMark& mark);
  void mark(const ReceiveMark& mark) { mark_ = mark; }
  /// Whether the message that ended last left its receive to be filled by a READ, and that receive.
  bool fetches() const { return mark_.fetches; }
  TaggedReceive tagged() const { return {.wr_id = wqe_.wr_id, .sges = wqe_.sges, .num_sge = wqe_.num_sge}; }
  /// The next message overwrites what the active receive holds so far (UC, after a loss; UC and UD, after one too
  /// long).
  void restart() { filled_ = 0; }

  /// Appends message data. Returns a cause other than kNone when the message is too long, or when the program may not
  /// use the memory that the receive's elements name.
  Cause append(const uint8_t* data, uint32_t bytes);
  uint32_t filled() const { return filled_; }
  /// Whether there is room for `bytes` more.
  bool fits(uint32_t bytes) const { return room_ >= filled_ && bytes <= room_ - filled_; }

  /// Completes the active receive. Fills in wr_id and, if a SEND filled the receive and byte_len is 0, byte_len.
  /// kFailed when there was no room for the completion.
  Outcome complete(Completion& completion, bool solicited, Instant now);
  /// Ends the active receive, if there is one, in error.
  void fail(WcStatus status, Cause cause, Instant now);
  /// Unreliable services: the message is longer than the active receive, which stays for the next one. A shared queue's
  /// receive ends in error instead: other QPs might need it. kFailed when there was no room for that completion.
  Outcome drop_too_long(Instant now);

  /// Forgets the active receive, without a completion (RESET).
  void drop();
  /// Flushes the active receive and the QP's own queue, in order.
  void flush(Instant now);

 private:
  /// An XRC target has the queue that each message names.
  static bool takes_of_shared(const QpContext& context) {
    return context.srq != nullptr || context.type == QpType::kXrcRecv;
  }
  void begin(const RecvWqe& wqe);
  Outcome end(WcStatus status, Cause cause, Instant now);
  void forget_unexpected() {
    if (mark_.unexpected) context_.srq->tags()->on_unexpected_lost();
  }
  WorkQueueSlots& slots() {
    if (mark_.tagged) return context_.srq->tags()->tag_slots();
    return context_.srq != nullptr ? context_.srq->slots() : own_.slots();
  }

  QpContext& context_;
  ReceiveQueue& own_;
  bool active_ = false;
  uint32_t filled_ = 0;
  ReceiveMark mark_;
  uint64_t room_ = 0;  // of the active receive, in bytes
  RecvWqe wqe_;
  // Elements of a receive of a shared queue, whose slot is free for the next post as soon as it is taken.
  const std::unique_ptr<Sge[]> shared_sges_;
};

}  // namespace uroce
