#include "transport/acknowledger.h"

#include <algorithm>

namespace uroce {

namespace {

constexpr uint8_t kAnswersExpected = 2;  // after so many answers, the next message is likely to be answered, too
constexpr uint8_t kAnswersMax = 3;

}  // namespace

/// All transitions: a row for each event, a column for each state.
Acknowledger::State Acknowledger::after(State state, Event event) {
  using enum State;
  // clang-format off
  static constexpr State kNext[][4] = {
      // kNothing     kAck      kDelayedAck  kNak
      {  kAck,        kAck,     kAck,        kNak     },  // kAckNow
      {  kDelayedAck, kAck,     kAck,        kNak     },  // kAckLater: a second message ends the delay
      {  kNothing,    kAck,     kAck,        kNak     },  // kDelayEnds
      {  kNak,        kNak,     kNak,        kNak     },  // kNak
      {  kNothing,    kAck,     kDelayedAck, kNothing },  // kNakWithdrawn
      {  kNothing,    kNothing, kNothing,    kNak     },  // kResponse
      {  kNothing,    kNothing, kNothing,    kNothing },  // kSettled
  };
  // clang-format on
  return kNext[static_cast<uint8_t>(event)][static_cast<uint8_t>(state)];
}

void Acknowledger::reset() {
  silence();
  message_unanswered_ = false;
  answers_ = 0;
}

void Acknowledger::on_message(bool alone, Instant now) {
  if (state_ == State::kNak) return;
  const bool later = alone && answers_ >= kAnswersExpected && delay_.ns > 0;
  on(later ? Event::kAckLater : Event::kAckNow);
  if (delayed()) until_ = now + delay_;
  message_unanswered_ = true;
}

void Acknowledger::require_nak(uint8_t syndrome) {
  nak_syndrome_ = syndrome;
  on(Event::kNak);
}

void Acknowledger::on_answered() {
  message_unanswered_ = false;
  answers_ = static_cast<uint8_t>(std::min<int>(answers_ + 1, kAnswersMax));
}

void Acknowledger::on_timeout(Instant now) {
  if (!delayed() || now < until_) return;
  end_delay();
  answers_ = 0;
}

}  // namespace uroce
