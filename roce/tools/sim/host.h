// One simulated machine: the production engine, a port, and the code that calls turn() when there is something to do.
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
    kTurn,   // the host was woken, and its engine gets a turn
    kTimer,  // a deadline of the engine, as it was when this was scheduled
  };

  Host(EventQueue& events, const EngineConfig& config, uint64_t seed);

  Engine& engine() { return *engine_; }
  SimPort& port() { return port_; }
  RecordingObserver& observer() { return observer_; }
  /// The time by the host's own clock, which is that of its engine.
  Instant now() const { return events_.now() + ahead_; }

  /// Moves the host's clock forward, as in a virtual machine that did not run for a while. The clock never goes back.
  void leap(Duration forward);
  /// Destroys the engine with everything in it, and makes a new one with the same addresses, which knows no neighbours.
  /// What the port has received stays there. With `same_numbers` the new engine draws the same queue pair numbers and
  /// keys as the old one, in the same order. Frames and timers of the old engine may still come.
  void restart_engine(bool same_numbers);

  /// The engine gets a turn: something was posted from outside the simulation, or a frame came.
  void wake() override { wake_at(events_.now() + turn_delay_); }
  /// How long after a frame arrives the engine gets to run.
  void set_turn_delay(Duration delay) { turn_delay_ = delay; }
  /// Called after every turn: the program that runs on this host.
  void set_program(std::function<void()> program) { program_ = std::move(program); }
  /// When that program wants a turn of its own, by the host's clock; asked after every turn.
  void set_deadline(std::function<Instant()> deadline) { deadline_ = std::move(deadline); }

  void on_event(Event event, Instant now);

 private:
  void wake_at(Instant when);
  Instant next_timeout() const;
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
  Duration ahead_{0};  // of the host's clock, before that of the network
  Duration turn_delay_{0};
  Instant wakes_at_ = Instant::never();
  /// When the one timer event that counts is due, by the network's clock. Every answer puts deadlines off; the event
  /// then stays where it is, and is scheduled again if it comes too early.
  Instant timer_at_ = Instant::never();
  std::function<void()> program_;
  std::function<Instant()> deadline_;
};

}  // namespace uroce::sim
