// The switch in real time: one loop that polls every port, with the time stamp counter as its clock.
//
//   received burst -> faults of that direction -> Switch::on_frame -> Switch::poll_transmit, as fast as the link's cap
//   allows -> faults of that direction -> burst to send
//
// The loop owns the ports; telemetry and DPDK's interrupt thread (when a link changes) get them between two turns. The
// loop yields the CPU as soon as it finds nothing to do, and sleeps, up to a millisecond, when it has found nothing for
// some time.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "dpdk/clock.h"
#include "dpdk/engine_mutex.h"
#include "dpdk/interrupt_guard.h"
#include "dpdk/pcapng_writer.h"
#include "mbuf_pool.h"
#include "options.h"
#include "ports.h"
#include "switch_link.h"

namespace uroce::netswitch {

class LiveSwitch {
 public:
  /// The thread that holds `lock` owns the ports, the switch and the lcore id of the loop. `lock` outlives the switch.
  LiveSwitch(const Options& options, EngineMutex& lock) : options_(options), lock_(lock) {}
  ~LiveSwitch();
  LiveSwitch(const LiveSwitch&) = delete;
  LiveSwitch& operator=(const LiveSwitch&) = delete;

  /// Starts the ports, which must have been probed. Returns false, with one line in `error`, when that fails.
  bool start(const std::vector<PlannedPort>& ports, std::string& error);

  /// Runs until `stop` is set. The loop calls `every_turn` without the lock, at least every 100 ms.
  void run(const std::atomic<bool>& stop, const std::function<void()>& every_turn);
  /// Makes one turn, for a caller with a loop of its own; to be called under the lock. Returns how many frames were
  /// moved.
  uint32_t turn(Instant now);

  const Options& options() const { return options_; }
  const std::vector<std::unique_ptr<SwitchLink>>& links() const { return links_; }
  const fabric::Switch& fabric() const { return *switch_; }
  Duration uptime() const { return clock_.now() - started_; }
  EngineMutex& lock() { return lock_; }

 private:
  fabric::SwitchConfig switch_config(const std::vector<PlannedPort>& planned,
                                     const std::vector<std::unique_ptr<SwitchPort>>& ports) const;
  SwitchLinkConfig cable_config(const PlannedPort& planned, size_t number, unsigned delaying) const;
  unsigned impaired_directions(size_t ports) const;
  bool open_capture(std::string& error);
  void rest(Instant now);

  const Options& options_;
  EngineMutex& lock_;
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
