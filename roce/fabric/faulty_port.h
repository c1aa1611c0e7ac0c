// A port behind a bad cable: it lies between an engine and its real port, and does to the frames what a user asked for
// (link_faults.h).
//
// Every frame that is sent, an ARP request too, is built in memory of this port, passes the queue of the rate and the
// faults of its direction, and is copied into a buffer of the device when it comes out. Received frames are copied only
// if faults are named for them. All memory is set aside when the port is made; it is touched when it is used.
//
// Sans-I/O like every port, except that it asks the clock that it is given: an engine does not say when it sends. The
// times of faults count from when the port is made. A frame that is due leaves with the next call of any function that
// sends or of `flush`, so a thread asks `next_timeout` before it sleeps. For one thread at a time, except counters.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/random.h"
#include "fabric/buffer_pool.h"
#include "fabric/capped_queue.h"
#include "fabric/fault_counters.h"
#include "fabric/impaired_path.h"
#include "fabric/link_faults.h"
#include "uroce/port.h"
#include "uroce/time.h"

namespace uroce::fabric {

class FaultyPort final : public Port {
 public:
  using Clock = std::function<Instant()>;

  /// `device` outlives it. `frame_bytes` is the longest frame; `faults` have a seed.
  FaultyPort(const LinkFaults& faults, Port& device, uint32_t frame_bytes, Clock clock);
  /// Frames under way are lost.
  ~FaultyPort() override = default;

  uint32_t receive(RxFrame* frames, uint32_t max) override;
  void release_rx(RxFrame* frames, uint32_t count) override;
  uint32_t rx_backlog() override { return device_.rx_backlog(); }
  /// Lends nothing while the device does not take the frames that are due.
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override;
  void send(TxFrame* frames, uint32_t count) override;
  bool queues_by_destination() const override { return device_.queues_by_destination(); }
  bool congested(const MacAddress& dst, uint32_t dest_qpn) override { return device_.congested(dst, dest_qpn); }

  /// Hands the frames that are due to the device, as many as it takes.
  void flush();
  /// When the next frame is due, in either direction; Instant::never() when none is under way.
  Instant next_timeout() const;
  /// Whether frames are due that `flush` would send, or the engine would receive.
  bool is_due() const { return next_timeout() <= clock_(); }

  /// Calls `f(name, value)` for every counter.
  template <typename F>
  void for_each_counter(F&& f) const;

 private:
  static constexpr uint32_t kFlushBurst = 16;

  bool fill(TxFrame& to, Instant now);
  void take_in(const RxFrame& frame, Instant now);
  void drain_queue(Instant now);

  Port& device_;
  const uint32_t frame_bytes_;
  Clock clock_;
  SeededRandom random_;
  BufferPool pool_;
  ImpairedPath out_;
  ImpairedPath in_;
  std::unique_ptr<CappedQueue> queue_;  // nullptr: there is no rate
  uint64_t out_too_long_ = 0;           // for a buffer of the device
  uint64_t in_too_long_ = 0;
  uint64_t in_no_memory_ = 0;
};

template <typename F>
void FaultyPort::for_each_counter(F&& f) const {
  if (queue_) {
    const CappedQueueCounters& counters = queue_->counters();
    f("fault_queue_full", counters.full);
    f("fault_queue_most_bytes", counters.most_bytes);
    f("fault_ecn_marked", counters.ecn_marked);
    f("fault_ecn_not_capable", counters.ecn_not_capable);
  }
  for_each_fault(out_.faults(), "fault_out_", f);
  for_each_fault(in_.faults(), "fault_in_", f);
  f("fault_out_delay_full", out_.full());
  f("fault_in_delay_full", in_.full());
  f("fault_out_too_long", out_too_long_);
  f("fault_in_too_long", in_too_long_);
  f("fault_in_no_memory", in_no_memory_);
}

}  // namespace uroce::fabric
