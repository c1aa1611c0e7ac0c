// A port of shared memory that its peer cannot harm: memif without DPDK's net_memif (memif/server.h says why).
//
// Frames are copied between shared memory and mbufs of the switch's pool. There is no interrupt thread: the loop looks
// at the socket now and then, so a peer comes and goes between two turns.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "memif/server.h"
#include "switch_port.h"

struct rte_mempool;

namespace uroce::netswitch {

class MemifPort final : public SwitchPort {
 public:
  /// Listens at `socket`. Returns nullptr, with one line in `error`, when that fails. `name` is told to peers and shown
  /// to users.
  static std::unique_ptr<MemifPort> start(const std::string& socket, const std::string& name, rte_mempool* pool,
                                          std::string& error);
  ~MemifPort() override;

  uint32_t receive(rte_mbuf** mbufs, uint32_t max) override;
  bool ready_to_send() override;
  void send(rte_mbuf* const* mbufs, uint32_t count) override;
  void on_turn(Instant now) override;
  bool waiting() const override { return pending_count_ != 0 || server_->handshaking(); }
  bool link_up() const override { return server_->connected(); }
  void read_link() override {}
  uint32_t link_speed_mbps() const override { return 0; }
  const PortCounters& counters() const override { return counters_; }
  void for_each_own_counter(const std::function<void(const char*, uint64_t)>& f) const override;

 private:
  MemifPort(std::unique_ptr<memif::Server> server, std::string name, rte_mempool* pool)
      : server_(std::move(server)), name_(std::move(name)), pool_(pool) {}

  void flush();
  void drop_pending(uint64_t& counter);
  void tell_news(Instant now);

  std::unique_ptr<memif::Server> server_;
  std::string name_;
  rte_mempool* pool_;
  rte_mbuf* spare_ = nullptr;  // for the next frame
  PortCounters counters_;
  uint64_t rx_too_long_ = 0;
  uint64_t tx_no_room_ = 0;

  // Frames that `send` accepted but the peer has no room for yet, oldest first.
  std::array<rte_mbuf*, kMaxBurst> pending_{};
  uint32_t pending_head_ = 0;
  uint32_t pending_count_ = 0;
  bool accepted_ = true;  // the peer took frames since the last turn that found some waiting
  Instant waiting_since_{0};
  bool stuck_ = false;  // frames that the peer does not take at once are dropped until it takes some again

  uint64_t seen_connected_ = 0;
  bool was_up_ = false;
  Instant next_news_{0};
};

}  // namespace uroce::netswitch
