// One direction of a cable: delay, rate, and everything that can go wrong on the way.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "sim/actor.h"
#include "sim/event_queue.h"
#include "sim/frame.h"

namespace uroce::sim {

/// Probabilities are per frame, independent of each other.
struct Impairments {
  double loss = 0;
  double reorder = 0;    // delayed by up to `reorder_span` more, so that later frames overtake it
  double duplicate = 0;  // a copy follows, up to `reorder_span` later
  double corrupt = 0;    // one to three bits of the frame flip; frames that are not IP arrive whole
  Duration reorder_span = microseconds(20);
};

struct LinkConfig {
  Duration delay = microseconds(2);
  uint64_t bits_per_second = 100'000'000'000;  // 0: no serialisation time
  Impairments impairments;
};

struct LinkCounters {
  uint64_t frames = 0;
  uint64_t bytes = 0;
  uint64_t lost = 0;
  uint64_t dropped_by_rule = 0;
  uint64_t reordered = 0;
  uint64_t duplicated = 0;
  uint64_t corrupted = 0;
};

/// Sees every frame of a link: leaving as it was sent, arriving as it came out.
class LinkTap {
 public:
  virtual ~LinkTap() = default;
  virtual void on_departure(uint32_t /*link*/, Instant /*now*/, std::span<const uint8_t> /*frame*/) {}
  virtual void on_arrival(uint32_t /*link*/, Instant /*now*/, std::span<const uint8_t> /*frame*/) {}
};

class Link final : public Actor, public FrameSink {
 public:
  /// True: the frame is lost. Asked before chance is.
  using DropRule = std::function<bool(std::span<const uint8_t> frame)>;

  Link(EventQueue& events, RandomSource& random, FrameSink& to, const LinkConfig& config)
      : events_(events), random_(random), to_(to), config_(config) {}

  /// Takes any number of frames at once: they leave one after the other. Who wants a queue of its own in front waits
  /// for `ready_at` with each.
  void deliver(Frame&& frame) override;
  /// From when on a frame that is delivered need not wait for the one before; rounded down, no rate is lost by it.
  Instant ready_at() const { return {free_at_ps_ / 1000}; }
  void on_event(uint64_t what, Instant now) override;

  LinkConfig& config() { return config_; }  // may be changed while frames are under way
  void set_drop_rule(DropRule rule) { drop_rule_ = std::move(rule); }
  /// `number`: what the tap is told. nullptr: none.
  void set_tap(LinkTap* tap, uint32_t number) {
    tap_ = tap;
    number_ = number;
  }
  const LinkCounters& counters() const { return counters_; }

 private:
  bool chance(double probability);
  void corrupt(Frame& frame);
  void launch(Frame&& frame, Instant arrival);
  Duration extra_delay();

  EventQueue& events_;
  RandomSource& random_;
  FrameSink& to_;
  LinkConfig config_;
  DropRule drop_rule_;
  LinkTap* tap_ = nullptr;
  uint32_t number_ = 0;
  LinkCounters counters_;
  int64_t free_at_ps_ = 0;  // when the last bit of the previous frame has left: a frame at 400 Gb/s is 21.28 ns
  std::vector<Frame> under_way_;
  std::vector<uint32_t> free_slots_;
};

/// A rule that loses the n-th frame (from 1) for which `matches` holds, and only that one.
Link::DropRule drop_nth(uint64_t n, std::function<bool(std::span<const uint8_t>)> matches);

}  // namespace uroce::sim
