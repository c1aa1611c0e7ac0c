#include "engine/last_answers.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace uroce {

LastAnswers::LastAnswers(Counters& counters) : counters_(counters) {
  std::iota(order_.begin(), order_.end(), uint8_t{0});
}

bool LastAnswers::any_for(uint8_t paused) const {
  for (uint32_t i = 0; i < count_; i++) {
    if ((paused >> at(i).priority & 1) == 0) return true;
  }
  return false;
}

bool LastAnswers::has_room() {
  if (count_ == kMax) counters_.tx_drop_last_answer++;
  return count_ < kMax;
}

TxFrame LastAnswers::room() {
  ensure(count_ < kMax, "an answer is kept where there is room");
  Answer& answer = answers_[order_[count_]];
  return {.data = answer.frame.data(), .capacity = static_cast<uint32_t>(answer.frame.size())};
}

void LastAnswers::keep(uint32_t bytes, uint32_t qpn, uint32_t peer_qpn, uint8_t priority, Instant now) {
  ensure(count_ < kMax, "an answer is kept where there is room");
  Answer& answer = answers_[order_[count_++]];
  ensure(bytes <= answer.frame.size(), "an answer fits its room");
  answer.bytes = bytes;
  answer.qpn = qpn;
  answer.peer_qpn = peer_qpn;
  answer.priority = priority;
  answer.until = now + kPatience;
}

void LastAnswers::remove(uint32_t index) {
  const auto first = order_.begin() + index;
  std::rotate(first, first + 1, order_.begin() + count_);
  count_--;
}

void LastAnswers::forget(uint32_t peer_qpn) {
  for (uint32_t i = 0; i < count_;) {
    if (at(i).peer_qpn == peer_qpn) {
      remove(i);
    } else {
      i++;
    }
  }
}

uint32_t LastAnswers::send(TxFrame* frames, uint32_t* senders, uint32_t count, uint8_t paused, Instant now) {
  uint32_t used = 0;
  for (uint32_t i = 0; i < count_ && used < count;) {
    const Answer& answer = at(i);
    if (answer.until < now) {
      counters_.tx_drop_last_answer++;
    } else if ((paused >> answer.priority & 1) != 0) {
      i++;
      continue;
    } else {
      ensure(answer.bytes <= frames[used].capacity, "a port's frames have room for an answer");
      std::memcpy(frames[used].data, answer.frame.data(), answer.bytes);
      frames[used].bytes = answer.bytes;
      senders[used++] = answer.qpn;
    }
    remove(i);
  }
  return used;
}

}  // namespace uroce
