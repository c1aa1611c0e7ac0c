// The implementation of Endpoint.
#pragma once

#include <memory>
#include <string>

#include "base/random.h"
#include "dpdk/background_driver.h"
#include "dpdk/clock.h"
#include "dpdk/endpoint.h"
#include "dpdk/endpoint_captures.h"
#include "dpdk/endpoint_cm.h"
#include "dpdk/engine_mutex.h"
#include "dpdk/nic_keeper.h"
#include "dpdk/port_watch.h"

namespace uroce {

class EndpointImpl final : public Endpoint {
 public:
  EndpointImpl(const EndpointConfig& config, Observer& observer)
      : config_(config),
        observer_(observer),
        keeper_(config_, ownership_),
        captures_(*this),
        driver_(*this, config.progress),
        watch_(*this, keeper_, observer) {}
  ~EndpointImpl() override;
  bool start(std::string& error);

  Engine& engine() override { return *engine_; }
  Instant now() const override { return clock_.now(); }
  bool link_up() const override { return !abandoned_ && keeper_.link_up(); }
  uint64_t link_speed_mbps() const override { return keeper_.link_speed_mbps(); }
  const EndpointIdentity& identity() const override { return keeper_.plan().identity; }
  const std::string& port_name() const override { return keeper_.plan().name; }
  const std::string& netdev_name() const override { return keeper_.netdev_name(); }
  uint32_t drive() override;
  using Endpoint::transmit;
  void transmit(Instant now) override;
  void wake_thread() override { driver_.wake(); }
  void note_awake() override { driver_.driving().note_driven(now()); }

  EndpointCm& connections() override { return cm_; }

  Nic& nic() override { return keeper_.nic(); }
  EngineMutex& ownership() { return ownership_; }
  EndpointCaptures& captures() { return captures_; }
  uint64_t turns() const { return turns_; }
  uint64_t background_turns() const { return driver_.turns(); }

  // For the background thread.
  bool open_port(std::string& error);
  /// When the next turn is due even if no frame arrives.
  Instant next_timeout() const;
  /// To be called under an EngineLock.
  uint32_t turn(Instant now);
  /// Looks after capture and port now and then. To be called without the lock.
  void look_after(Instant now);

  /// Sends the last frames before the process ends: acknowledgements that were waiting for a request to travel with.
  void finish();
  /// To be called in the child of a fork, where DPDK does not work: calls then do nothing, instead of waiting for ever.
  void abandon();

  void lock() override;
  void unlock() override;

 private:
  void linger();

  EndpointConfig config_;
  Observer& observer_;
  bool begun_ = false;
  bool abandoned_ = false;
  EngineMutex ownership_;
  SystemRandom random_;
  TscClock clock_;
  NicKeeper keeper_;
  std::unique_ptr<Engine> engine_;
  EndpointCm cm_;
  EndpointCaptures captures_;
  BackgroundDriver driver_;
  PortWatch watch_;
  uint64_t turns_ = 0;
  bool yield_wanted_ = false;  // by the poll that holds the lock
};

/// Registers the commands of DPDK's telemetry that describe endpoints.
void register_telemetry();

}  // namespace uroce
