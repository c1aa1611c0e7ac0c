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

class Link final : public Actor, public FrameSink {
 public:
  /// True: the frame is lost. Asked before chance is.
  using DropRule = std::function<bool(std::span<const uint8_t> frame)>;

  Link(EventQueue& events, RandomSource& random, FrameSink& to, const LinkConfig& config)
      : events_(events), random_(random), to_(to), config_(config) {}

  void deliver(Frame&& frame) override;
  void on_event(uint64_t what, Instant now) override;

  LinkConfig& config() { return config_; }  // may be changed while frames are under way
  void set_drop_rule(DropRule rule) { drop_rule_ = std::move(rule); }
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
  LinkCounters counters_;
  Instant free_at_{0};  // when the last bit of the previous frame has left
  std::vector<Frame> under_way_;
  std::vector<uint32_t> free_slots_;
};

/// A rule that loses the n-th frame (from 1) for which `matches` holds, and only that one.
Link::DropRule drop_nth(uint64_t n, std::function<bool(std::span<const uint8_t>)> matches);

}  // namespace uroce::sim
