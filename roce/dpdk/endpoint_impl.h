// The one endpoint of a process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/random.h"
#include "dpdk/clock.h"
#include "dpdk/dpdk_port.h"
#include "dpdk/endpoint.h"
#include "dpdk/netdev.h"
#include "dpdk/netdev_watch.h"
#include "dpdk/pcapng_writer.h"
#include "dpdk/port_plan.h"

namespace uroce {

/// Does the program use the CPU, whatever for? The background thread asks, and does not count itself. Looked at over
/// windows that are long enough for the kernel's bookkeeping.
class ProgramLoad {
 public:
  bool busy(Instant now);

 private:
  Instant window_start_{0};
  int64_t used_before_ns_ = 0;
  bool busy_ = false;
};

class EndpointImpl final : public Endpoint {
 public:
  EndpointImpl(const EndpointConfig& config, Observer& observer) : config_(config), observer_(observer) {}
  ~EndpointImpl() override;
  bool start(std::string& error);

  Engine& engine() override { return *engine_; }
  Instant now() const override { return clock_.now(); }
  bool link_up() const override;
  uint64_t link_speed_mbps() const override;
  const EndpointIdentity& identity() const override { return plan_.identity; }
  const std::string& port_name() const override { return plan_.name; }
  const std::string& netdev_name() const override { return netdev_name_; }
  uint32_t drive() override;
  using Endpoint::flush;
  void flush(Instant now) override;
  void kick() override;
  void attend() override { last_driven_ns_.store(now().ns, std::memory_order_relaxed); }

  const PortPlan& plan() const { return plan_; }
  DpdkPort& port() { return *port_; }
  const PcapngWriter* capture() const { return capture_.get(); }
  uint64_t turns() const { return turns_; }
  uint64_t background_turns() const { return background_turns_; }

  /// The last frames before the process ends: acknowledgements that wait for a request to travel with.
  void finish();
  /// In the child of a fork: nothing of DPDK works here, so calls do nothing instead of waiting for ever.
  void abandon() { abandoned_ = true; }

  void lock() override;
  void unlock() override;

 private:
  bool plan_it(std::string& error);
  bool open_port(std::string& error);
  bool probe(std::string& error);
  bool share_netdev(std::string& error);
  bool make_capture(std::string& error);
  uint32_t turn(Instant now);
  void linger();
  void log_counters();

  // The background thread.
  bool start_thread(std::string& error);
  void thread_main();
  void drive_in_background();
  bool somebody_drives(Instant now) const;
  bool program_polls(Instant now) const;
  void note_background_work(Instant now);
  void give_way();
  void look_after_capture(Instant now);
  // port_watch.cc
  void start_port_watch();
  void look_after_port(Instant now);
  void follow_addresses();
  bool sleep(Duration duration);

  EndpointConfig config_;
  Observer& observer_;
  PortPlan plan_;
  std::string netdev_name_;
  SystemRandom random_;
  TscClock clock_;
  RocePortHold port_hold_;
  std::unique_ptr<DpdkPort> port_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<PcapngWriter> capture_;
  bool abandoned_ = false;
  uint64_t turns_ = 0;
  uint64_t background_turns_ = 0;
  Instant next_capture_flush_{0};
  Instant next_port_look_{0};
  bool link_was_up_ = true;
  std::unique_ptr<NetdevWatch> netdev_watch_;

  std::atomic<int64_t> last_driven_ns_{0};  // by the program
  Instant last_work_{0};                    // of the program's own turns
  bool yield_wanted_ = false;
  std::atomic<int> left_lying_{0};  // frames that the background thread found and the program's calls had not; bounded
  // The background thread's own.
  Instant last_background_work_{0};
  Instant crowded_until_{0};
  ProgramLoad program_load_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint32_t> kicked_{0};

  std::thread thread_;
  std::mutex start_mutex_;
  std::condition_variable start_condition_;
  bool start_done_ = false;
  std::string start_error_;
};

/// Makes the endpoint visible to DPDK's telemetry and to `uroce stats`; nullptr takes it away.
void publish_endpoint(EndpointImpl* endpoint);
/// How an onlooker sees the endpoint: as owner of the engine; or from outside, since a thread does not come out of it.
enum class Look : uint8_t { kInside, kOutside };
/// Runs `f`; false when no endpoint is published. From outside only what does not change may be read, and counters.
bool with_published_endpoint(void (*f)(EndpointImpl&, Look, void*), void* context);

}  // namespace uroce
