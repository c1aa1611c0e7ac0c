#include "pmd/card/interrupts.h"

namespace mqnic::card {

void Interrupts::request(unsigned vector, uint64_t now_ns) {
  if (vector >= vectors_.size()) return;
  Vector& state = vectors_[vector];
  if (state.running && now_ns < state.until_ns) {
    state.pending = true;
    return;
  }
  if (!state.running && interval_us_ != 0) {
    state.running = true;
    running_.push_back(static_cast<uint16_t>(vector));
  }
  fire(vector, now_ns);
}

void Interrupts::fire(unsigned number, uint64_t now_ns) {
  Vector& state = vectors_[number];
  state.pending = false;
  state.until_ns = now_ns + uint64_t{interval_us_} * 1000;
  if (handler_) handler_(number);
}

uint32_t Interrupts::run(uint64_t now_ns) {
  uint32_t fired = 0;
  for (size_t i = 0; i < running_.size();) {
    const unsigned number = running_[i];
    Vector& state = vectors_[number];
    if (now_ns < state.until_ns) {
      ++i;
    } else if (state.pending) {
      fire(number, now_ns);
      ++fired;
      ++i;
    } else {
      state.running = false;
      running_[i] = running_.back();
      running_.pop_back();
    }
  }
  return fired;
}

void Interrupts::reset() {
  for (Vector& state : vectors_) state = {};
  running_.clear();
  interval_us_ = kDefaultIntervalUs;
}

}  // namespace mqnic::card
