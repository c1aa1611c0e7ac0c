// A DPDK port with the engine's interface (uroce/port.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "host/port_options.h"
#include "host/port_spec.h"
#include "uroce/port.h"
#include "uroce/time.h"

struct rte_mbuf;
struct rte_mempool;

namespace uroce {

struct DpdkPortOptions : PortOptions {
  rte_mempool* pool = nullptr;  // the caller's, shared by several ports; nullptr: the port makes its own
};

/// Events at the port beyond the engine's counters.
struct DpdkPortCounters {
  uint64_t tx_dropped_no_link = 0;  // sent while the peer or the carrier was away
  uint64_t tx_dropped_stuck = 0;    // the peer has taken nothing for a long time
  uint64_t rx_linearized = 0;
  uint64_t link_ups = 0;
};

/// Calls `f(name, value)` for every counter.
template <typename F>
void for_each_counter(const DpdkPortCounters& counters, F&& f) {
  f("tx_dropped_no_link", counters.tx_dropped_no_link);
  f("tx_dropped_stuck", counters.tx_dropped_stuck);
  f("rx_linearized", counters.rx_linearized);
  f("link_ups", counters.link_ups);
}

class DpdkPort final : public Port {
 public:
  /// How to wait for a card, which may need its interrupt thread meanwhile; without it the caller sleeps.
  using Rest = std::function<void(Duration)>;
  /// Configures and starts the port. Returns nullptr, with one line in `error`, when that fails.
  static std::unique_ptr<DpdkPort> start(const DpdkPortOptions& options, std::string& error, const Rest& rest = {});
  /// Stops the port, and closes it unless it belongs to the application.
  ~DpdkPort() override;

  uint32_t receive(RxFrame* frames, uint32_t max) override;
  void release_rx(RxFrame* frames, uint32_t count) override;
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override;
  void send(TxFrame* frames, uint32_t count) override;
  uint32_t rx_backlog() override;

  /// Makes the device obey and send pause frames for these priorities (bits). False when it cannot, so that software
  /// has to.
  bool pause_in_hardware(uint8_t priorities);

  // Whole mbufs, for a switch that passes them on from port to port (`pool` is shared then).

  /// Receives up to `max` (<= kMaxBurst) mbufs, which then belong to the caller. A VLAN tag is in the frame; a frame
  /// may be in several segments.
  uint32_t receive_mbufs(rte_mbuf** mbufs, uint32_t max);
  /// Sends waiting frames. False when the driver takes no more at the moment.
  bool ready_to_send();
  /// Sends up to kMaxBurst mbufs in order; to be called after ready_to_send. Those that the driver does not take wait
  /// in the port.
  void send_mbufs(rte_mbuf* const* mbufs, uint32_t count);

  /// To be called once per turn. Sends frames that a full port did not take before (the engine may have nothing to
  /// add), checks the link ten times a second, and drops frames that the driver has not taken for a long time. True
  /// when it checked the link.
  bool on_turn(Instant now) {
    if (pending_count_ != 0) send_pending();
    if (now < next_check_) return false;
    check(now);
    return true;
  }
  bool tx_pending() const { return pending_count_ != 0; }
  bool link_up() const { return link_up_.load(std::memory_order_relaxed); }
  /// Asks the driver now; link_up() is only as recent as the last check.
  void read_link();
  uint32_t link_speed_mbps() const { return link_speed_mbps_.load(std::memory_order_relaxed); }
  uint16_t id() const { return options_.port_id; }
  const DpdkPortCounters& counters() const { return counters_; }

 private:
  explicit DpdkPort(const DpdkPortOptions& options) : options_(options) {}
  bool make_pool(std::string& error);
  bool configure(std::string& error);
  bool begin();
  bool set_hardware_pauses(uint8_t priority, bool on);
  void check(Instant now);
  void reconnect();
  void send_pending();
  void drop_pending(uint64_t& counter);
  void linearize(RxFrame& frame, const rte_mbuf* mbuf, uint32_t slot);

  DpdkPortOptions options_;
  rte_mempool* pool_ = nullptr;
  bool started_ = false;
  std::atomic<bool> link_up_{false};  // other threads may ask
  bool accepted_since_check_ = false;
  unsigned stuck_checks_ = 0;
  bool stuck_ = false;  // frames that the port does not take at once are dropped until it takes some again
  unsigned connect_attempts_ = 0;
  std::atomic<uint32_t> link_speed_mbps_{0};
  Instant next_check_{0};
  DpdkPortCounters counters_;

  // Frames that `send` accepted but the driver has not taken yet, oldest first.
  std::array<rte_mbuf*, kMaxBurst> pending_{};
  uint32_t pending_head_ = 0;
  uint32_t pending_count_ = 0;
  // Empty buffers, ready for `acquire_tx`.
  std::array<rte_mbuf*, kMaxBurst> stock_{};
  uint32_t stock_count_ = 0;
  std::unique_ptr<uint8_t[]> scratch_;  // for frames that came in several segments, one slot for each frame of a burst
};

}  // namespace uroce
