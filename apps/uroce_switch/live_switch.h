// The switch in real time: one loop that polls every port, with the time stamp counter for a clock.
//
//   received burst -> faults of that direction -> Switch::on_frame -> Switch::poll_transmit, as fast as the link's cap
//   allows -> faults of that direction -> burst to send
//
// The loop owns the ports; telemetry and DPDK's interrupt thread (a link changes) get them between two turns. It gives
// the processor to others as soon as it finds nothing, and sleeps, up to a millisecond, when it has found nothing for
// some time.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "dpdk/clock.h"
#include "dpdk/interrupt_guard.h"
#include "dpdk/ownership.h"
#include "dpdk/pcapng_writer.h"
#include "mbuf_pool.h"
#include "options.h"
#include "ports.h"
#include "switch_link.h"

namespace uroce::netswitch {

class LiveSwitch {
 public:
  /// Who has `lock` owns ports, switch and the lcore id of the loop. It outlives the switch.
  LiveSwitch(const Options& options, Ownership& lock) : options_(options), lock_(lock) {}
  ~LiveSwitch();
  LiveSwitch(const LiveSwitch&) = delete;
  LiveSwitch& operator=(const LiveSwitch&) = delete;

  /// Starts the ports, which have been probed. False and one line in `error` when that cannot be.
  bool start(const std::vector<PlannedPort>& ports, std::string& error);

  /// Until `stop`. `every_turn` is called by the loop, without the lock, at least every 100 ms.
  void run(const std::atomic<bool>& stop, const std::function<void()>& every_turn);
  /// One turn, for who has a loop of its own, under the lock. How much happened.
  uint32_t turn(Instant now);

  const Options& options() const { return options_; }
  const std::vector<std::unique_ptr<SwitchLink>>& links() const { return links_; }
  const fabric::Switch& fabric() const { return *switch_; }
  Duration uptime() const { return clock_.now() - started_; }
  Ownership& lock() { return lock_; }

 private:
  fabric::SwitchConfig switch_config(const std::vector<PlannedPort>& planned,
                                     const std::vector<std::unique_ptr<SwitchPort>>& ports) const;
  SwitchLinkConfig cable_config(const PlannedPort& planned, size_t number, unsigned delaying) const;
  uint64_t rate_of(size_t port) const;
  unsigned impaired_directions(size_t ports) const;
  bool open_capture(std::string& error);
  void rest(Instant now);

  const Options& options_;
  Ownership& lock_;
  TscClock clock_;
  Instant started_;
  SeededRandom random_{0};
  std::unique_ptr<MbufPool> pool_;
  std::unique_ptr<fabric::Switch> switch_;
  std::vector<std::unique_ptr<SwitchLink>> links_;
  std::unique_ptr<PcapngWriter> capture_;
  Instant last_work_;
  Duration nap_{};
};

}  // namespace uroce::netswitch
