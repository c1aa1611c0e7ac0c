// A run over reliable connections, and what befalls them on the way.
#pragma once

#include <memory>
#include <vector>

#include "oracle/rc_end.h"
#include "oracle/run.h"
#include "oracle/spoofer.h"
#include "oracle/trace_checker.h"

namespace uroce::oracle {

class RcRun {
 public:
  explicit RcRun(const MixedOptions& options);
  MixedReport run();

 private:
  static constexpr unsigned kSides = 2;
  /// Everything that was under way has arrived by then: reordering, jitter, late hosts.
  static constexpr Duration kUnderWay = milliseconds(2);
  /// Something that happens when so many operations have completed.
  struct Incident {
    Fault what;
    uint64_t at;
  };
  struct Pair {
    sim::QpOptions options;
    unsigned vanished = kSides;           // the side whose QP went without a word; kSides: none
    Instant deadline = Instant::never();  // until when its peer must have noticed
  };

  // rc_run.cc
  void make_pair(uint64_t ops_each);
  void program(unsigned side);
  bool done() const;
  void check_end();
  std::string refusals() const;
  std::string states() const;

  // rc_hosts.cc
  void make_objects(unsigned side);
  void watch(unsigned side);
  void restart_engine(unsigned side);
  void begin_leaps();
  void leap();
  void step_memory();
  void step_spoofer();

  // rc_incidents.cc
  void draw_incidents();
  void calm_ports();
  bool run_to_end();
  void step();
  void begin(const Incident& incident);
  void reset_pair(unsigned pair);
  void vanish(unsigned pair, unsigned side);
  void begin_blackout();
  void end_blackout();
  void mend(unsigned pair);
  void reconnect(unsigned pair);
  bool needs_mending(unsigned pair) const;
  bool shared_receives() const { return srqs_[0] != nullptr || srqs_[1] != nullptr; }
  sim::Side side_of(unsigned pair, unsigned side) const;
  Duration retry_budget(const Qp& qp) const;
  void drain();

  MixedOptions options_;
  SeededRandom random_;
  SeededRandom incident_random_;
  // Of these each has its own, so that the others stay what they are when it is left out.
  SeededRandom engine_random_;
  SeededRandom clock_random_;
  SeededRandom memory_random_;
  Verdict verdict_;
  uint64_t completions_ = 0;
  uint64_t reconnects_ = 0;
  uint64_t engines_ = 0;
  TraceChecker checkers_[kSides] = {TraceChecker(verdict_), TraceChecker(verdict_)};
  std::unique_ptr<MixedBed> bed_;
  sim::Side sides_[kSides];
  SharedReceiveQueue* srqs_[kSides] = {};
  uint32_t srq_slots_[kSides] = {};
  HostShare shares_[kSides];
  std::vector<std::unique_ptr<Receiver>> receivers_[kSides];
  std::vector<std::unique_ptr<RcEnd>> ends_[kSides];
  std::vector<Pair> pairs_;
  fabric::ImpairmentConfig wrong_;
  std::vector<Incident> incidents_;  // the next one last
  Instant starved_until_ = Instant::never();
  Instant shortage_until_{0};
  uint32_t leaps_left_ = 0;
  unsigned leaping_ = 0;  // the side whose clock leaps
  Instant leaps_at_ = Instant::never();
  Spoofer spoofer_;
  Instant blackout_began_ = Instant::never();
  Duration blackout_length_{};
  std::vector<const RcEnd*> doomed_;  // had something under way when the cable was cut
};

}  // namespace uroce::oracle
