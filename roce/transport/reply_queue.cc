#include "transport/reply_queue.h"

#include <utility>

#include "base/check.h"

namespace uroce {

void ReplyQueue::make_room(uint32_t depth) { ring_ = Ring<Reply>(2 * depth); }

void ReplyQueue::grow(uint32_t depth) {
  if (2 * depth <= ring_.capacity()) return;
  Ring<Reply> larger(2 * depth);
  for (; !ring_.empty(); ring_.pop()) larger.push(ring_.front());
  ring_ = std::move(larger);
}

void ReplyQueue::start(uint32_t mtu) {
  clear();
  mtu_ = mtu;
}

bool ReplyQueue::make_place(uint32_t limit) {
  uint32_t owed = 0;
  for (uint32_t at = ring_.head(); at != ring_.tail(); at++) owed += ring_.at(at).again ? 0 : 1;
  if (owed >= limit) return false;
  if (ring_.full()) ring_.pop();
  return true;
}

/// True when both are parts of the answer to one READ.
bool ReplyQueue::one_read(const Reply& a, const Reply& b) const {
  return !a.atomic && !b.atomic && a.rkey == b.rkey &&
         a.va - b.va == static_cast<uint64_t>(int64_t{mtu_} * distance(b.psn, a.psn));
}

ReplyQueue::Repeat ReplyQueue::repeat(Reply reply, bool parts) {
  uint32_t at = ring_.head();
  while (at != ring_.tail() && !reply.psn.before(ring_.at(at).end(mtu_))) at++;
  if (at != ring_.tail() && ring_.at(at).psn.before(reply.psn)) {
    const Reply& under_way = ring_.at(at);
    const bool more = under_way.end(mtu_).before(reply.end(mtu_));
    if (!more || !parts || !one_read(under_way, reply)) return Repeat::kUnderWay;
    const uint64_t end_va = reply.va + reply.remaining;
    reply = under_way;
    reply.remaining = static_cast<uint32_t>(end_va - reply.va);
  }
  const Psn end = reply.end(mtu_);
  uint32_t behind = at;
  for (; behind != ring_.tail() && ring_.at(behind).psn.before(end); behind++) {
    const Reply& queued = ring_.at(behind);
    reply.again = reply.again && queued.again;
    // The part that was asked for again, and then what was still to come.
    if (parts && one_read(queued, reply) && end.before(queued.end(mtu_))) {
      reply.remaining = static_cast<uint32_t>(queued.va + queued.remaining - reply.va);
    }
  }
  if (behind == at && ring_.full()) return Repeat::kFull;
  replace(at, behind, reply);
  return Repeat::kQueued;
}

/// `reply` takes the place of those in [from, to); when that range is empty, it is inserted before `from`.
void ReplyQueue::replace(uint32_t from, uint32_t to, const Reply& reply) {
  ensure(to - from <= ring_.size(), "what is replaced is queued");
  if (from == to) {
    ring_.push(reply);
    for (uint32_t i = ring_.tail() - 1; i != from; i--) std::swap(ring_.at(i), ring_.at(i - 1));
    return;
  }
  ring_.at(from) = reply;
  while (to != ring_.tail()) ring_.at(++from) = ring_.at(to++);
  ring_.truncate(from + 1);
}

ReplyQueue::Sent ReplyQueue::on_sent(uint32_t bytes) {
  Reply& reply = ring_.front();
  ensure(bytes <= reply.remaining, "no more is sent than is owed");
  const bool last = bytes == reply.remaining;
  reply.begun = true;
  reply.psn += 1;
  reply.va += bytes;
  reply.remaining -= bytes;
  if (!last) return Sent::kPart;
  pop();
  return Sent::kAll;
}

}  // namespace uroce
