#include "transport/retry_timer.h"

#include <algorithm>

#include "base/check.h"
#include "transport/timing.h"

namespace uroce {

namespace {

constexpr uint8_t kEndlessRnrRetries = 7;
constexpr uint8_t kDoublings = 2;

}  // namespace

void RetryTimer::start() {
  retries_left_ = attributes_.retry_cnt;
  rnr_retries_left_ = attributes_.rnr_retry;
  reset();
}

void RetryTimer::reset() {
  stop();
  timeouts_ = 0;
  heard_.reset();
}

void RetryTimer::stop() {
  state_ = State::kIdle;
  until_ = Instant::never();
}

void RetryTimer::await_answer(Instant now) {
  ensure(state_ != State::kAwaitsReceive, "a wait for a receive ends before an answer is awaited");
  if (attributes_.timeout == 0) return;
  state_ = State::kAwaitsAnswer;
  until_ = now + answer_time();
}

/// The timeout that was asked for, then twice and then four times as long; the specification lets the timer run for up
/// to four times the timeout. So the first retransmission is prompt, and a peer in software that waits for a CPU has
/// more time before it is given up (doc/adr/0010-patient-timer.md).
Duration RetryTimer::answer_time() const { return ack_timeout(attributes_.timeout) * (1 << timeouts_); }

void RetryTimer::on_progress(bool more, Instant now) {
  timeouts_ = 0;
  retries_left_ = attributes_.retry_cnt;
  rnr_retries_left_ = attributes_.rnr_retry;
  if (state_ == State::kAwaitsReceive) return;
  stop();
  if (more) await_answer(now);
}

void RetryTimer::on_other_response(Psn psn, Instant now) {
  if (state_ != State::kAwaitsAnswer || (heard_ && !heard_->before(psn))) return;
  heard_ = psn;
  await_answer(now);
}

RetryTimer::Expired RetryTimer::expire(Instant now) {
  if (now < until_) return Expired::kNothing;
  ensure(state_ != State::kIdle, "an idle timer does not expire");
  const State was = state_;
  stop();
  return was == State::kAwaitsReceive ? Expired::kReceiveWait : Expired::kAnswerWait;
}

void RetryTimer::lengthen() { timeouts_ = std::min<uint8_t>(timeouts_ + 1, kDoublings); }

RetryTimer::Budget RetryTimer::spend_retry() {
  if (retries_left_ == 0) return Budget::kExhausted;
  retries_left_--;
  stop();
  return Budget::kLeft;
}

RetryTimer::Budget RetryTimer::await_receive(Duration wait, bool further, Instant now) {
  const bool again = state_ == State::kAwaitsReceive && !further;
  if (!again && attributes_.rnr_retry != kEndlessRnrRetries) {
    if (rnr_retries_left_ == 0) return Budget::kExhausted;
    rnr_retries_left_--;
  }
  retries_left_ = attributes_.retry_cnt;  // the peer answers, so earlier losses are over
  const Instant until = now + wait;
  until_ = again ? std::max(until_, until) : until;
  state_ = State::kAwaitsReceive;
  return Budget::kLeft;
}

}  // namespace uroce
