#include "pmd/card/wires/impaired_wire.h"

#include <algorithm>
#include <cstring>

#include "pmd/card/wires/frame_ring.h"

namespace mqnic::card {
namespace {

constexpr uint32_t kSlotBytes = kFrameBytesMax;
constexpr uint64_t kFramingBytes = 24;              // preamble, FCS, gap
constexpr uint64_t kMinimumFrameBytes = 60;         // without FCS
constexpr uint64_t kBacklogNs = 100'000;            // covers the time between two runs of the card
constexpr uint64_t kReorderPatienceNs = 1'000'000;  // a frame that no other follows leaves after this time
constexpr uint64_t kNsPerSecond = 1'000'000'000;

// What the random numbers of a frame decide.
enum Purpose : unsigned { kLoss, kCorrupt, kCorruptWhere, kDuplicate, kReorder, kPurposes };

/// A stateless generator (the finalizer of SplitMix64).
uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
  value = (value ^ value >> 27) * 0x94d049bb133111ebu;
  return value ^ value >> 31;
}

std::vector<uint8_t> make_pause_frame(uint16_t quanta) {
  std::vector<uint8_t> frame = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01, 0x02, 0x00,
                                0x00, 0x00, 0x00, 0x01, 0x88, 0x08, 0x00, 0x01};
  frame.push_back(static_cast<uint8_t>(quanta >> 8));
  frame.push_back(static_cast<uint8_t>(quanta & 0xff));
  frame.resize(kMinimumFrameBytes);
  return frame;
}

}  // namespace

ImpairedWire::ImpairedWire(std::unique_ptr<Wire> inner, const WireKnobs& knobs)
    : inner_(std::move(inner)),
      knobs_(knobs),
      memory_(std::make_unique_for_overwrite<uint8_t[]>(size_t{kSlots} * kSlotBytes)),
      queue_(kSlots),
      pause_frame_(make_pause_frame(knobs.pause_quanta)) {
  // Different seeds, so that the two ends of a cable do not lose the same frames.
  knobs_.seed = mix(knobs.seed ^ uint64_t{inner_->end()} << 63);
  for (uint32_t slot = kSlots; slot-- > 0;) free_slots_.push_back(slot);
  held_.slot = kNone;
  if (knobs_.bandwidth_bps != 0) {
    const uint64_t one_frame_ns = kFrameBytesMax * 8 * kNsPerSecond / knobs_.bandwidth_bps;
    backlog_ns_ = std::max(kBacklogNs, one_frame_ns);
  }
}

uint8_t* ImpairedWire::slot_bytes(uint32_t slot) { return memory_.get() + size_t{slot} * kSlotBytes; }

uint64_t ImpairedWire::random(unsigned purpose) const {
  return mix(knobs_.seed ^ mix(frame_number_ * kPurposes + purpose));
}

bool ImpairedWire::happens(double chance, unsigned purpose) const {
  return chance > 0 && static_cast<double>(random(purpose) >> 11) * 0x1p-53 < chance;
}

std::span<uint8_t> ImpairedWire::reserve(size_t bytes) {
  if (bytes == 0 || bytes > kSlotBytes) return {};
  if (knobs_.bandwidth_bps != 0 && free_at_ns_ + fresh_ns_ > now_ns_ + backlog_ns_) return {};
  // Two slots are needed: for the frame and its duplicate.
  if (free_slots_.size() < 2) return {};
  if (open_slot_ == kNone) {
    open_slot_ = free_slots_.back();
    free_slots_.pop_back();
  }
  return {slot_bytes(open_slot_), bytes};
}

uint64_t ImpairedWire::time_on_wire_ns(size_t bytes) const {
  if (knobs_.bandwidth_bps == 0) return 0;
  const uint64_t bits = (std::max<uint64_t>(bytes, kMinimumFrameBytes) + kFramingBytes) * 8;
  return (bits * kNsPerSecond + knobs_.bandwidth_bps - 1) / knobs_.bandwidth_bps;
}

void ImpairedWire::queue(const Frame& frame) { queue_[queue_head_++ % kSlots] = frame; }

/// Queues a frame, and then the one that waited for it.
void ImpairedWire::send(const Frame& frame) {
  queue(frame);
  if (held_.slot == kNone) return;
  queue(held_);
  held_.slot = kNone;
}

void ImpairedWire::commit(size_t bytes) {
  const Frame frame{open_slot_, static_cast<uint32_t>(bytes), 0};
  open_slot_ = kNone;
  fresh_ns_ += time_on_wire_ns(bytes);
  uint8_t* const data = slot_bytes(frame.slot);
  if (happens(knobs_.loss, kLoss)) {
    counts_.lost++;
    lost_ns_ += time_on_wire_ns(bytes);
    free_slots_.push_back(frame.slot);
    frame_number_++;
    return;
  }
  if (happens(knobs_.corrupt, kCorrupt)) {
    counts_.corrupted++;
    const uint64_t bit = random(kCorruptWhere) % (bytes * 8);
    data[bit / 8] = static_cast<uint8_t>(data[bit / 8] ^ 1u << bit % 8);
  }
  const bool twice = happens(knobs_.duplicate, kDuplicate);
  if (held_.slot == kNone && happens(knobs_.reorder, kReorder)) {
    counts_.reordered++;
    held_ = frame;
    held_.due_ns = now_ns_;
  } else {
    send(frame);
  }
  if (twice) {
    counts_.duplicated++;
    fresh_ns_ += time_on_wire_ns(bytes);
    const Frame copy{free_slots_.back(), frame.bytes, 0};
    free_slots_.pop_back();
    std::memcpy(slot_bytes(copy.slot), data, bytes);
    send(copy);
  }
  frame_number_++;
}

/// Sets the times of the frames of the run that ends now: they leave from now on, one after the other.
void ImpairedWire::set_times() {
  free_at_ns_ = std::max(free_at_ns_, now_ns_) + lost_ns_;
  for (; queue_timed_ != queue_head_; queue_timed_++) {
    Frame& frame = queue_[queue_timed_ % kSlots];
    free_at_ns_ += time_on_wire_ns(frame.bytes);
    frame.due_ns = free_at_ns_ + knobs_.delay_ns;
  }
  fresh_ns_ = lost_ns_ = 0;
}

bool ImpairedWire::deliver(const Frame& frame) {
  const std::span<uint8_t> room = inner_->reserve(frame.bytes);
  if (room.empty()) return false;
  std::memcpy(room.data(), slot_bytes(frame.slot), frame.bytes);
  inner_->commit(frame.bytes);
  free_slots_.push_back(frame.slot);
  return true;
}

void ImpairedWire::flush(uint64_t now_ns) {
  if (next_pause_ns_ == 0) next_pause_ns_ = now_ns + knobs_.pause_interval_ns;
  now_ns_ = now_ns;
  if (held_.slot != kNone && held_.due_ns + kReorderPatienceNs <= now_ns) {
    queue(held_);
    held_.slot = kNone;
  }
  set_times();
  while (queue_tail_ != queue_head_) {
    const Frame& frame = queue_[queue_tail_ % kSlots];
    if (frame.due_ns > now_ns || !deliver(frame)) break;
    queue_tail_++;
  }
  inner_->flush(now_ns);
}

std::span<const uint8_t> ImpairedWire::front() {
  if (knobs_.pause_interval_ns != 0 && next_pause_ns_ != 0 && now_ns_ >= next_pause_ns_) {
    pause_shown_ = true;
    return pause_frame_;
  }
  return inner_->front();
}

void ImpairedWire::pop() {
  if (!pause_shown_) {
    inner_->pop();
    return;
  }
  pause_shown_ = false;
  counts_.pauses++;
  const uint64_t late = now_ns_ - next_pause_ns_;
  next_pause_ns_ += (late / knobs_.pause_interval_ns + 1) * knobs_.pause_interval_ns;
}

}  // namespace mqnic::card
