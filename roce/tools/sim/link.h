// One direction of a cable: delay, rate, and everything that can go wrong on the way.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "fabric/impairments.h"
#include "sim/actor.h"
#include "sim/event_queue.h"
#include "sim/frame.h"
#include "sim/frame_pool.h"
#include "uroce/time.h"

namespace uroce::sim {

struct LinkConfig {
  Duration delay = microseconds(2);
  uint64_t bits_per_second = 100'000'000'000;  // 0: no serialisation time
  fabric::ImpairmentConfig impairments;        // their times count from when they are set
};

struct LinkCounters {
  uint64_t frames = 0;
  uint64_t bytes = 0;
  uint64_t dropped_by_rule = 0;  // by the rule of set_drop_rule
};

/// Sees every frame of a link, both when it is sent and when it arrives.
class LinkTap {
 public:
  virtual ~LinkTap() = default;
  virtual void on_departure(uint32_t /*link*/, Instant /*now*/, std::span<const uint8_t> /*frame*/) {}
  virtual void on_arrival(uint32_t /*link*/, Instant /*now*/, std::span<const uint8_t> /*frame*/) {}
};

class alignas(64) Link final : public Actor<Link>, public FrameSink {
 public:
  enum class Event : uint8_t {
    kArrival,  // the frame that the event brings has come to the other end
    kStorm,    // the impairments have a pause frame of their own to inject
  };

  /// True when the frame is to be lost. Applied before random faults.
  using DropRule = std::function<bool(std::span<const uint8_t> frame)>;

  /// `random` is used only in the constructor, for the link's own streams.
  Link(EventQueue& events, RandomSource& random, FrameSink& to, const LinkConfig& config);

  /// Takes any number of frames at once, which leave one after the other. A caller with a queue of its own waits until
  /// `ready_at` before each frame.
  void deliver(Frame&& frame) override;
  /// The instant from which on a delivered frame need not wait for the one before. Rounded down, so that no rate is
  /// lost.
  Instant ready_at() const { return {free_at_ps_ / 1000}; }
  void on_event(Event event, Frame&& frame, Instant now);

  uint64_t bits_per_second() const { return bits_per_second_; }
  /// Sets the faults for frames that are sent from now on.
  void set_impairments(const fabric::ImpairmentConfig& config);
  void set_drop_rule(DropRule rule) { drop_rule_ = std::move(rule); }
  /// `number` is passed to the tap with every frame. nullptr removes the tap.
  void set_tap(LinkTap* tap, uint32_t number) {
    tap_ = tap;
    number_ = number;
  }
  const LinkCounters& counters() const { return counters_; }
  /// What went wrong since the impairments were set.
  const fabric::ImpairmentCounters& faults() const { return impairments_->counters(); }

 private:
  void launch(Frame&& frame, Instant arrival);
  void arrive(Frame&& frame, Instant now);
  void watch_storms();
  void on_storm(Instant now);

  // The fields that every frame needs come first.
  EventQueue& events_;
  FrameSink& to_;
  LinkTap* tap_ = nullptr;
  Duration delay_;
  uint64_t bits_per_second_;
  int64_t free_at_ps_ = 0;  // when the last bit of the previous frame has left: a frame at 400 Gb/s is 21.28 ns
  uint32_t number_ = 0;
  bool impaired_ = false;  // impairments_->active()
  LinkCounters counters_;
  DropRule drop_rule_;
  std::optional<fabric::Impairments> impairments_;
  SeededRandom random_;
  SimFramePool pool_;
  Instant storm_at_ = Instant::never();
};

/// A rule that loses the n-th frame (from 1) for which `matches` holds, and only that one.
Link::DropRule drop_nth(uint64_t n, std::function<bool(std::span<const uint8_t>)> matches);

}  // namespace uroce::sim
