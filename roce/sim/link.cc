#include "sim/link.h"

#include <algorithm>
#include <utility>

#include "base/big_endian.h"

namespace uroce::sim {

namespace {

constexpr uint32_t kWireOverheadBytes = 24;  // preamble, frame check sequence, gap
constexpr uint32_t kEthertypeAt = 12;

/// ARP has no checksum of its own; what protects it, Ethernet's frame check sequence, is not simulated.
bool is_checksummed(const Frame& frame) {
  if (frame.size() < kEthertypeAt + 2) return false;
  const uint16_t ethertype = load_be16(frame.data() + kEthertypeAt);
  if (ethertype == 0x8100) return frame.size() >= 18 && load_be16(frame.data() + 16) != 0x0806;
  return ethertype == 0x0800 || ethertype == 0x86dd;
}

}  // namespace

bool Link::chance(double probability) {
  return probability > 0 && static_cast<double>(random_.next_u32()) < probability * 4294967296.0;
}

Duration Link::extra_delay() {
  const auto span = static_cast<uint32_t>(config_.impairments.reorder_span.ns);
  return nanoseconds(span == 0 ? 0 : 1 + random_.below(span));
}

void Link::corrupt(Frame& frame) {
  const uint32_t flips = 1 + random_.below(3);
  for (uint32_t i = 0; i < flips; i++) {
    const uint32_t bit = random_.below(static_cast<uint32_t>(frame.size()) * 8);
    frame[bit / 8] = static_cast<uint8_t>(frame[bit / 8] ^ (1u << (bit % 8)));
  }
}

void Link::launch(Frame&& frame, Instant arrival) {
  uint32_t slot = static_cast<uint32_t>(under_way_.size());
  if (free_slots_.empty()) {
    under_way_.push_back(std::move(frame));
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    under_way_[slot] = std::move(frame);
  }
  events_.schedule(*this, arrival, slot);
}

void Link::deliver(Frame&& frame) {
  counters_.frames++;
  counters_.bytes += frame.size();
  int64_t start_ps = std::max(events_.now().ns * 1000, free_at_ps_);
  if (config_.bits_per_second != 0) {
    const uint64_t bits = (frame.size() + kWireOverheadBytes) * 8;
    start_ps += static_cast<int64_t>(bits * 1'000'000'000'000 / config_.bits_per_second);
  }
  free_at_ps_ = start_ps;
  const Instant left{(start_ps + 999) / 1000};
  if (tap_ != nullptr) tap_->on_departure(number_, events_.now(), frame);
  const Impairments& wrong = config_.impairments;
  if (drop_rule_ && drop_rule_(frame)) {
    counters_.dropped_by_rule++;
    return;
  }
  if (chance(wrong.loss)) {
    counters_.lost++;
    return;
  }
  if (chance(wrong.corrupt) && is_checksummed(frame)) {
    counters_.corrupted++;
    corrupt(frame);
  }
  Instant arrival = left + config_.delay;
  if (chance(wrong.duplicate)) {
    counters_.duplicated++;
    launch(Frame(frame), arrival + extra_delay());
  }
  if (chance(wrong.reorder)) {
    counters_.reordered++;
    arrival = arrival + extra_delay();
  }
  launch(std::move(frame), arrival);
}

void Link::on_event(uint64_t what, Instant now) {
  Frame frame = std::move(under_way_[what]);
  free_slots_.push_back(static_cast<uint32_t>(what));
  if (tap_ != nullptr) tap_->on_arrival(number_, now, frame);
  to_.deliver(std::move(frame));
}

Link::DropRule drop_nth(uint64_t n, std::function<bool(std::span<const uint8_t>)> matches) {
  return [n, matches = std::move(matches), seen = uint64_t{0}](std::span<const uint8_t> frame) mutable {
    return matches(frame) && ++seen == n;
  };
}

}  // namespace uroce::sim
