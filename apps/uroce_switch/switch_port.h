// A port as the switch uses it: it receives and sends whole mbufs, and its peer may come and go.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "dpdk/dpdk_port.h"
#include "uroce/time.h"

struct rte_mbuf;

namespace uroce::netswitch {

class SwitchPort {
 public:
  static constexpr uint32_t kMaxBurst = DpdkPort::kMaxBurst;

  virtual ~SwitchPort() = default;

  /// Receives up to `max` (<= kMaxBurst) mbufs, which then belong to the caller. A frame may be in several segments.
  virtual uint32_t receive(rte_mbuf** mbufs, uint32_t max) = 0;
  /// Sends frames that wait. False when the port takes no more at the moment.
  virtual bool ready_to_send() = 0;
  /// Sends up to kMaxBurst mbufs in order; to be called after ready_to_send. Those that are not taken at once wait in
  /// the port.
  virtual void send(rte_mbuf* const* mbufs, uint32_t count) = 0;

  /// To be called once per turn: peers come and go, and frames that nobody takes are dropped.
  virtual void on_turn(Instant now) = 0;
  /// True when something other than a frame for the switch waits for the next turn.
  virtual bool waiting() const = 0;
  virtual bool link_up() const = 0;
  /// Asks the port for its link now; link_up() may be as old as the last turn.
  virtual void read_link() = 0;
  /// The speed of the link; 0 when it is not known.
  virtual uint32_t link_speed_mbps() const = 0;

  virtual const DpdkPortCounters& counters() const = 0;
  /// Calls `f` for counters that only this kind of port has.
  virtual void for_each_own_counter(const std::function<void(const char*, uint64_t)>& /*f*/) const {}
  /// Its port number in DPDK, if it has one.
  virtual std::optional<uint16_t> dpdk_id() const { return std::nullopt; }
};

/// A port of DPDK.
class EthdevPort final : public SwitchPort {
 public:
  explicit EthdevPort(std::unique_ptr<DpdkPort> port) : port_(std::move(port)) {}

  uint32_t receive(rte_mbuf** mbufs, uint32_t max) override { return port_->receive_mbufs(mbufs, max); }
  bool ready_to_send() override { return port_->ready_to_send(); }
  void send(rte_mbuf* const* mbufs, uint32_t count) override { port_->send_mbufs(mbufs, count); }
  void on_turn(Instant now) override { port_->on_turn(now); }
  bool waiting() const override { return port_->tx_pending(); }
  bool link_up() const override { return port_->link_up(); }
  void read_link() override { port_->read_link(); }
  uint32_t link_speed_mbps() const override { return port_->link_speed_mbps(); }
  const DpdkPortCounters& counters() const override { return port_->counters(); }
  std::optional<uint16_t> dpdk_id() const override { return port_->id(); }

 private:
  std::unique_ptr<DpdkPort> port_;
};

}  // namespace uroce::netswitch
