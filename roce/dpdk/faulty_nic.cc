#include "dpdk/faulty_nic.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "dpdk/log.h"
#include "fabric/faulty_port.h"

namespace uroce {
namespace {

class FaultyNic final : public Nic, private WakeSource {
 public:
  FaultyNic(std::unique_ptr<Nic> nic, const fabric::LinkFaults& faults, uint32_t frame_bytes, const TscClock& clock)
      : nic_(std::move(nic)), port_(faults, nic_->port(), frame_bytes, [&clock] { return clock.now(); }) {}

  Port& port() override { return port_; }
  QpnBlocks* qpn_blocks() override { return nic_->qpn_blocks(); }
  bool pause_in_hardware(uint8_t priorities) override { return nic_->pause_in_hardware(priorities); }
  void obey_pauses(uint8_t paused) override { nic_->obey_pauses(paused); }
  bool on_turn(Instant now) override {
    const bool looked = nic_->on_turn(now);
    port_.flush();
    return looked;
  }
  uint32_t moved() const override { return nic_->moved(); }
  AddressSource* address_source() override { return nic_->address_source(); }
  void tell_addresses(const std::vector<LocalAddress>& addresses) override { nic_->tell_addresses(addresses); }
  int claim_service(uint64_t service_id) override { return nic_->claim_service(service_id); }
  void release_service(uint64_t service_id) override { nic_->release_service(service_id); }
  int listen(uint64_t service_id, uint64_t mask) override { return nic_->listen(service_id, mask); }
  void unlisten(uint64_t service_id, uint64_t mask) override { nic_->unlisten(service_id, mask); }
  bool another_listens(uint64_t service_id) override { return nic_->another_listens(service_id); }
  MulticastFilter* multicast_filter() override { return nic_->multicast_filter(); }
  RawFilter* raw_filter() override { return nic_->raw_filter(); }
  void on_lost(const segment::LossListener& listener) override { nic_->on_lost(listener); }
  bool tx_pending() const override { return nic_->tx_pending() || port_.is_due(); }
  bool unread() const override { return nic_->unread(); }
  Instant next_timeout() const override { return std::min(nic_->next_timeout(), port_.next_timeout()); }
  bool link_up() const override { return nic_->link_up(); }
  uint32_t link_speed_mbps() const override { return nic_->link_speed_mbps(); }
  void for_each_counter(const Counter& f) const override {
    nic_->for_each_counter(f);
    port_.for_each_counter([&f](const std::string& name, uint64_t value) { f(name.c_str(), value); });
  }
  WakeSource* wake_source() override { return inner() != nullptr ? this : nullptr; }
  void abandon() override { nic_->abandon(); }

 private:
  WakeSource* inner() const { return nic_->wake_source(); }
  int fd() const override { return inner()->fd(); }
  bool sees_left_lying() const override { return inner()->sees_left_lying(); }
  bool arm() override { return !port_.is_due() && inner()->arm(); }
  bool stand_back() override { return inner()->stand_back(); }
  void disarm() override { inner()->disarm(); }
  bool watching() const override { return inner()->watching(); }
  void look() override { inner()->look(); }

  std::unique_ptr<Nic> nic_;
  fabric::FaultyPort port_;
};

}  // namespace

std::unique_ptr<Nic> impair_nic(std::unique_ptr<Nic> nic, const fabric::LinkFaults& faults, uint32_t frame_bytes,
                                const TscClock& clock) {
  fabric::LinkFaults drawn = faults;
  if (!drawn.seed) drawn.seed = SystemRandom().next_u32();
  log_message(LogLevel::kInfo, "faults: %s", to_text(drawn).c_str());
  return std::make_unique<FaultyNic>(std::move(nic), drawn, frame_bytes, clock);
}

}  // namespace uroce
