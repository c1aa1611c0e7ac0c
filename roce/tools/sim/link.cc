#include "sim/link.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace uroce::sim {

Link::Link(EventQueue& events, RandomSource& random, FrameSink& to, const LinkConfig& config)
    : events_(events),
      to_(to),
      delay_(config.delay),
      bits_per_second_(config.bits_per_second),
      random_(random.next_u64()) {
  set_impairments(config.impairments);
}

void Link::set_impairments(const fabric::ImpairmentConfig& config) {
  impairments_.emplace(config, pool_, random_, events_.now());
  impaired_ = impairments_->active();
  watch_storms();
}

void Link::watch_storms() {
  const Instant wanted = impairments_->next_event();
  if (wanted >= storm_at_) return;
  storm_at_ = wanted;
  events_.schedule(*this, wanted, Event::kStorm);
}

void Link::launch(Frame&& frame, Instant arrival) {
  ensure(arrival >= events_.now(), "no frame arrives before it was sent");
  events_.schedule(*this, arrival, Event::kArrival, std::move(frame));
}

void Link::deliver(Frame&& frame) {
  counters_.frames++;
  counters_.bytes += frame.size();
  int64_t start_ps = std::max(events_.now().ns * 1000, free_at_ps_);
  if (bits_per_second_ != 0) {
    const uint64_t bits = (frame.size() + fabric::kWireOverheadBytes) * 8;
    start_ps += static_cast<int64_t>(bits * 1'000'000'000'000 / bits_per_second_);
  }
  ensure(start_ps >= free_at_ps_, "frames leave one after the other");
  free_at_ps_ = start_ps;
  const Instant left{(start_ps + 999) / 1000};
  if (tap_ != nullptr) tap_->on_departure(number_, events_.now(), frame);
  if (drop_rule_ && drop_rule_(frame)) {
    counters_.dropped_by_rule++;
    return;
  }
  if (!impaired_) return launch(std::move(frame), left + delay_);
  fabric::Delivery out[fabric::Impairments::kMaxDeliveries];
  const uint32_t count = impairments_->on_frame(SimFramePool::to_fabric(std::move(frame)), left, out);
  for (uint32_t i = 0; i < count; i++) {
    launch(SimFramePool::from_fabric(out[i].frame), left + Duration{delay_.ns + out[i].delay.ns});
  }
}

void Link::on_event(Event event, Frame&& frame, Instant now) {
  switch (event) {
    case Event::kArrival:
      return arrive(std::move(frame), now);
    case Event::kStorm:
      return on_storm(now);
  }
}

void Link::on_storm(Instant now) {
  if (storm_at_ != now) return;
  storm_at_ = Instant::never();
  Frame frame = SimFramePool::from_fabric(impairments_->poll_injected(now));
  watch_storms();
  if (!frame.empty()) arrive(std::move(frame), now);
}

void Link::arrive(Frame&& frame, Instant now) {
  if (tap_ != nullptr) tap_->on_arrival(number_, now, frame);
  to_.deliver(std::move(frame));
}

Link::DropRule drop_nth(uint64_t n, std::function<bool(std::span<const uint8_t>)> matches) {
  return [n, matches = std::move(matches), seen = uint64_t{0}](std::span<const uint8_t> frame) mutable {
    return matches(frame) && ++seen == n;
  };
}

}  // namespace uroce::sim
