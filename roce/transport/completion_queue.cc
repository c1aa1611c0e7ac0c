#include "transport/completion_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "transport/observer.h"
#include "transport/qp_context.h"

namespace uroce {

CompletionQueue::CompletionQueue(uint32_t capacity, Observer& observer, void* user)
    : ring_(capacity), observer_(observer), user_(user) {}

uint32_t CompletionQueue::poll(std::span<Completion> out) {
  auto to = out.begin();
  return drain(static_cast<uint32_t>(out.size()), [&to](const Completion& completion) { *to++ = completion; });
}

void CompletionQueue::arm(Wake wake) {
  const uint64_t newest = wake == Wake::kAny ? added_ : newest_solicited_;
  const bool news = newest > announced_ && still_here(newest);
  if (news && !moderated()) return raise();
  if (armed_ != Armed::kAny) armed_ = wake == Wake::kAny ? Armed::kAny : Armed::kSolicited;
  if (!news || held_back_ != 0) return;
  const auto count = static_cast<uint32_t>(std::min<uint64_t>(added_ - announced_, ring_.size()));
  on_arrival(count, ring_.at(ring_.tail() - count).completion.timestamp_ns);
}

void CompletionQueue::on_arrival(uint32_t count, int64_t first_ns) {
  if (!moderated()) return raise();
  held_back_ += count;
  if (moderation_count_ != 0 && held_back_ >= moderation_count_) return raise();
  if (moderation_period_.ns != 0 && due_ == Instant::never()) due_ = Instant{first_ns} + moderation_period_;
}

void CompletionQueue::moderate(uint32_t count, Duration period) {
  moderation_count_ = count;
  moderation_period_ = period;
  if (held_back_ == 0) return;
  if (!moderated() || (count != 0 && held_back_ >= count)) return raise();
  const uint32_t first = ring_.tail() - std::min(held_back_, ring_.size());
  due_ = period.ns != 0 ? Instant{ring_.at(first).completion.timestamp_ns} + period : Instant::never();
}

void CompletionQueue::raise() {
  ensure(announced_ <= added_, "only what was added is announced");
  armed_ = Armed::kNo;
  forget_held_back();
  if (unheard_ == 0) unheard_ = std::max(announced_, added_ - ring_.size()) + 1;
  announced_ = added_;
  observer_.on_cq_event(*this);
}

bool CompletionQueue::push(const Completion& completion, bool solicited, WorkQueueSlots& queue) {
  if (ring_.full()) {
    if (!std::exchange(overrun_, true)) observer_.on_cq_error(*this);
    return false;
  }
  Entry& entry = ring_.next_slot();
  entry.completion = completion;
  entry.slots = queue.report();
  entry.queue = &queue;
  ring_.push();
  added_++;
  const bool counts_as_solicited = solicited || completion.status != WcStatus::kSuccess;
  if (counts_as_solicited) newest_solicited_ = added_;
  if (armed_ == Armed::kAny || (armed_ == Armed::kSolicited && counts_as_solicited)) {
    on_arrival(1, completion.timestamp_ns);
  }
  return true;
}

void CompletionQueue::remove(uint32_t qpn) {
  remove_if([qpn](const Entry& entry) {
    return entry.completion.qp_num == qpn && entry.completion.opcode < WcOpcode::kTmAdd;
  });
}

void CompletionQueue::remove(const WorkQueueSlots& queue) {
  remove_if([&queue](const Entry& entry) { return entry.queue == &queue; });
}

bool CompletionQueue::has_of(uint32_t qpn) const {
  for (uint32_t at = ring_.head(); at != ring_.tail(); at++) {
    if (ring_.at(at).completion.qp_num == qpn) return true;
  }
  return false;
}

template <typename Belongs>
void CompletionQueue::remove_if(Belongs belongs) {
  // The completions that stay are renumbered so that the newest keeps its number. The remembered numbers are moved by
  // counting how many of those that stay are newer than each of them.
  uint64_t number = added_ - ring_.size();
  uint64_t not_announced = 0;
  uint64_t after_solicited = 0;
  uint64_t not_heard = 0;
  uint32_t kept = ring_.head();
  for (uint32_t at = ring_.head(); at != ring_.tail(); at++) {
    const Entry& entry = ring_.at(at);
    number++;
    if (belongs(entry)) {
      entry.queue->give_back(entry.slots);
      continue;
    }
    not_announced += number > announced_;
    after_solicited += number > newest_solicited_;
    not_heard += unheard_ != 0 && number >= unheard_;
    ring_.at(kept++) = entry;
  }
  ensure(number == added_, "completions are numbered without gaps");
  ring_.truncate(kept);
  announced_ = added_ - not_announced;
  newest_solicited_ = added_ - after_solicited;
  unheard_ = not_heard != 0 ? added_ - not_heard + 1 : 0;
  if (ring_.empty()) forget_held_back();
}

bool CompletionQueue::resize(uint32_t capacity) {
  if (capacity < ring_.size()) return false;
  Ring<Entry> larger(capacity);
  for (; !ring_.empty(); ring_.pop()) larger.push(ring_.front());
  ring_ = std::move(larger);
  return true;
}

Outcome QpContext::complete(CompletionQueue& cq, WorkQueueSlots& queue, Completion& completion, bool solicited,
                            Instant now) {
  completion.qp_num = qpn;
  completion.timestamp_ns = now.ns;
  if (completion.status != WcStatus::kSuccess) {
    const bool receive = completion.opcode >= WcOpcode::kRecv;
    if (completion.status == WcStatus::kWrFlushErr) {
      (receive ? counters().resp_cqe_flush_error : counters().req_cqe_flush_error)++;
    } else {
      (receive ? counters().resp_cqe_error : counters().req_cqe_error)++;
    }
    events.on_error_completion(completion);
  }
  if (cq.push(completion, solicited, queue)) return Outcome::kGoesOn;
  events.on_completion_lost();
  return Outcome::kFailed;
}

}  // namespace uroce
