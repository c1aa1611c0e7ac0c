// A port of the switch that is a segment (roce/segment): one that all the programs of a machine share, or one of the
// switch's own, on which it meets the program that is plugged in.
//
// The switch is a bridge there. It gets broadcast and multicast frames and those for no member of the segment, and what
// it sends goes to the member that it is for. Frames are copied between the segment's memory and mbufs of the switch's
// pool.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "segment/segment_port.h"
#include "switch_port.h"

struct rte_mempool;

namespace uroce::netswitch {

class BridgePort final : public SwitchPort {
 public:
  /// kOwn: its link is up as long as a program is plugged in.
  enum class Of : uint8_t { kAll, kOwn };
  /// Joins the segment in `directory`. Returns nullptr, with one line in `error`, when that fails. `name` is shown to
  /// users.
  static std::unique_ptr<BridgePort> start(const std::string& directory, Of of, const std::string& name,
                                           rte_mempool* pool, std::string& error);
  ~BridgePort() override;

  uint32_t receive(rte_mbuf** mbufs, uint32_t max) override;
  bool ready_to_send() override;
  void send(rte_mbuf* const* mbufs, uint32_t count) override;
  void on_turn(Instant now) override;
  bool waiting() const override { return pending_count_ != 0 || segment_->tx_pending(); }
  bool link_up() const override { return link_up_; }
  void read_link() override {}
  uint32_t link_speed_mbps() const override { return 0; }
  const DpdkPortCounters& counters() const override { return counters_; }
  void for_each_own_counter(const std::function<void(const char*, uint64_t)>& f) const override;

 private:
  BridgePort(std::unique_ptr<segment::SegmentPort> segment, Of of, std::string name, rte_mempool* pool)
      : segment_(std::move(segment)), of_(of), name_(std::move(name)), pool_(pool), link_up_(of == Of::kAll) {}

  void take_spares(uint32_t count);
  bool fill(rte_mbuf& mbuf, const RxFrame& frame);
  void fill(TxFrame& out, const rte_mbuf& mbuf);
  void flush();
  void look_who_is_there(Instant now);

  std::unique_ptr<segment::SegmentPort> segment_;
  const Of of_;
  const std::string name_;
  rte_mempool* pool_;
  DpdkPortCounters counters_;
  uint64_t rx_too_long_ = 0;
  uint64_t tx_too_long_ = 0;
  bool turned_ = false;  // the segment knows the time
  bool link_up_;
  Instant next_look_{0};

  std::array<rte_mbuf*, kMaxBurst> spares_{};  // for the next frames
  uint32_t spare_count_ = 0;
  // Frames that `send` accepted but the segment has no memory for yet, oldest first.
  std::array<rte_mbuf*, kMaxBurst> pending_{};
  uint32_t pending_head_ = 0;
  uint32_t pending_count_ = 0;
};

}  // namespace uroce::netswitch
