// One simulated machine: the production engine, a port, and somebody who calls turn() when there is something to do.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/random.h"
#include "engine/engine.h"
#include "sim/actor.h"
#include "sim/event_queue.h"
#include "sim/recording_observer.h"
#include "sim/sim_port.h"

namespace uroce::sim {

class Host final : public Actor<Host>, private Waker {
 public:
  enum class Event : uint8_t {
    kTurn,   // somebody has woken the host: its engine gets a turn
    kTimer,  // a deadline of the engine, as it was when this was scheduled
  };

  Host(EventQueue& events, const EngineConfig& config, uint64_t seed);

  Engine& engine() { return *engine_; }
  SimPort& port() { return port_; }
  RecordingObserver& observer() { return observer_; }
  /// By its own clock, which is the engine's.
  Instant now() const { return events_.now() + ahead_; }

  /// The clock leaps, as in a virtual machine that did not run for a while. It is a steady one: it never goes back.
  void leap(Duration forward);
  /// The engine and everything in it is gone; the new one has the same addresses and knows nobody. What the port has
  /// received stays there. `same_numbers`: it draws the queue pair numbers and keys that the old one drew, in the same
  /// order. Frames and timers of the old one may still come.
  void restart_engine(bool same_numbers);

  /// Something was posted from outside of the simulation: look at it now.
  void kick() { wake(); }
  /// How long after a frame arrives the engine gets to run.
  void set_turn_delay(Duration delay) { turn_delay_ = delay; }
  /// Called after every turn: the program that runs on this host.
  void set_program(std::function<void()> program) { program_ = std::move(program); }

  void on_event(Event event, Instant now);

 private:
  void wake() override { wake_at(events_.now() + turn_delay_); }
  void wake_at(Instant when);
  void watch_timers();
  void turn(Instant now);
  void on_wake(Instant now);
  void on_timer(Instant now);

  EventQueue& events_;
  const EngineConfig config_;
  const uint64_t seed_;
  SeededRandom random_;
  RecordingObserver observer_;
  SimPort port_;
  std::optional<Engine> engine_;
  Duration ahead_{0};  // of the network's clock
  Duration turn_delay_{0};
  Instant wakes_at_ = Instant::never();
  /// By the network's clock, when the one timer event that counts is due. Deadlines move back with every answer: the
  /// event stays, and is scheduled anew when it comes up too early.
  Instant timer_at_ = Instant::never();
  std::function<void()> program_;
};

}  // namespace uroce::sim
