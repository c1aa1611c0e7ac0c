#include "dpdk/nic.h"

#include <errno.h>
#include <rte_ethdev.h>
#include <unistd.h>

#include <utility>

#include "dpdk/log.h"
#include "engine/address_table.h"
#include "engine/port_filters.h"
#include "engine/qpn_blocks.h"
#include "host/port_driver.h"
#include "segment/host_identity.h"
#include "segment/segment_port.h"

namespace uroce {
namespace {

static_assert(kQpnBlockBits == segment::kQpnBlockBits);
static_assert(AddressTable::kGidsMax == segment::kAddressesMax + 1, "the first GID is on no record");

class DpdkNic final : public Nic, private WakeSource {
 public:
  explicit DpdkNic(std::unique_ptr<DpdkPort> port) : port_(std::move(port)), wake_fd_(find_wake_fd(port_->id())) {}

  Port& port() override { return *port_; }
  bool pause_in_hardware(uint8_t priorities) override { return port_->pause_in_hardware(priorities); }
  bool on_turn(Instant now) override { return port_->on_turn(now); }
  bool tx_pending() const override { return port_->tx_pending(); }
  bool link_up() const override { return port_->link_up(); }
  uint32_t link_speed_mbps() const override { return port_->link_speed_mbps(); }
  void for_each_counter(const Counter& f) const override { uroce::for_each_counter(port_->counters(), f); }
  void abandon() override { static_cast<void>(port_.release()); }  // DPDK's memory is shared with the parent
  WakeSource* wake_source() override { return wake_fd_ >= 0 ? this : nullptr; }

 private:
  int fd() const override { return wake_fd_; }
  bool sees_left_lying() const override { return false; }
  /// The driver's descriptor is also readable when frames wait already. Sending frames that wait has to be tried again.
  bool arm() override { return !port_->tx_pending() && rte_eth_dev_rx_intr_enable(port_->id(), 0) == 0; }
  bool stand_back() override { return true; }
  void disarm() override {}
  bool watching() const override { return false; }
  void look() override {}

  static int find_wake_fd(uint16_t port_id) {
    rte_eth_dev_info info{};
    const bool wakes = rte_eth_dev_info_get(port_id, &info) == 0 && port_driver(info.driver_name).wakes;
    return wakes ? rte_eth_dev_rx_intr_ctl_q_get_fd(port_id, 0) : -1;
  }

  std::unique_ptr<DpdkPort> port_;
  const int wake_fd_;
};

/// A member of a segment: a port in shared memory.
class MemberNic : public Nic, private WakeSource {
 public:
  Port& port() override { return *port_; }
  bool tx_pending() const override { return port_->tx_pending(); }
  bool unread() const override { return port_->peers().unread(); }
  void for_each_counter(const Counter& f) const override { segment::for_each_counter(port_->counters(), f); }
  WakeSource* wake_source() override { return this; }
  void abandon() override {
    if (port_) port_.release()->abandon();
  }

 protected:
  explicit MemberNic(std::unique_ptr<segment::SegmentPort> port) : port_(std::move(port)) {}

  std::unique_ptr<segment::SegmentPort> port_;

 private:
  int fd() const override { return port_->sleep().fd(); }
  bool sees_left_lying() const override { return true; }
  bool arm() override { return port_->sleep().arm(); }
  bool stand_back() override { return port_->sleep().stand_back(); }
  void disarm() override { port_->sleep().disarm(); }
  bool watching() const override { return port_->sleep().watching(); }
  void look() override { port_->sleep().look(); }
};

/// The port of a switch alone: every frame on the segment comes from the switch or goes to it.
class SwitchPortNic final : public MemberNic {
 public:
  explicit SwitchPortNic(std::unique_ptr<segment::SegmentPort> port) : MemberNic(std::move(port)) {}

  bool on_turn(Instant now) override {
    port_->on_turn(now);
    return !std::exchange(turned_, true);
  }
  /// Even without a switch: programs refuse a port that is down.
  bool link_up() const override { return true; }
  uint32_t link_speed_mbps() const override { return kSegmentMbps; }

 private:
  bool turned_ = false;  // and so the engine knows the speed
};

class SegmentNic final : public MemberNic,
                         public QpnBlocks,
                         public MulticastFilter,
                         public RawFilter,
                         public AddressSource {
 public:
  SegmentNic(std::unique_ptr<segment::SegmentPort> port, const PortPlan& plan)
      : MemberNic(std::move(port)),
        has_uplink_(plan.has_uplink),
        host_(plan.host),
        mac_(plan.identity.mac),
        link_mbps_(plan.identity.link_mbps) {}

  QpnBlocks* qpn_blocks() override { return this; }
  std::optional<uint32_t> take() override { return port_->take_block(); }
  bool another_has(uint32_t qpn) override {
    const bool sure = port_->peers().refresh();
    return !sure || port_->peers().find(mac_, qpn) != nullptr;
  }
  bool on_turn(Instant now) override {
    port_->on_turn(now);
    return false;
  }
  AddressSource* address_source() override { return this; }
  /// On a host with an uplink, its addresses.
  std::vector<LocalAddress> choose(const std::vector<LocalAddress>& of_machine) override {
    if (has_uplink_) return port_->uplink().addresses();
    port_->peers().refresh(true);
    return segment::choose_addresses(port_->registration().directory(), host_, of_machine);
  }
  bool take_news() override { return port_->uplink().take_news(); }
  uint32_t mtu() override { return port_->uplink().mtu(); }
  void tell_addresses(const std::vector<LocalAddress>& addresses) override {
    std::string error;
    if (port_->registration().record().addresses == addresses) return;
    port_->registration().update([&](segment::MemberRecord& record) { record.addresses = addresses; }, error);
    warn(error);
  }
  int claim_service(uint64_t service_id) override {
    return port_->registration().services().take(service_id) ? 0 : errno;
  }
  void release_service(uint64_t service_id) override { port_->registration().services().give_back(service_id); }
  int listen(uint64_t service_id, uint64_t mask) override {
    std::string error;
    const int code = port_->registration().listen({service_id, mask}, error);
    warn(error);
    return code;
  }
  void unlisten(uint64_t service_id, uint64_t mask) override {
    std::string error;
    port_->registration().unlisten({service_id, mask}, error);
    warn(error);
  }
  MulticastFilter* multicast_filter() override { return this; }
  void want(const MacAddress& group, bool wanted) override {
    std::string error;
    port_->registration().want_group(group, wanted, error);
    warn(error);
  }
  RawFilter* raw_filter() override { return this; }
  void want_raw(const std::vector<MacAddress>& macs, bool all) override {
    std::string error;
    port_->registration().want_raw(macs, all, error);
    warn(error);
  }
  bool another_listens(uint64_t service_id) override {
    segment::Peer* shut = nullptr;
    port_->peers().refresh();
    if (port_->peers().listener(mac_, service_id, &shut) != nullptr) return true;
    if (shut != nullptr) warn(line_of_shut(*shut));
    return false;
  }
  void on_lost(const segment::LossListener& listener) override { port_->on_lost(listener); }
  bool link_up() const override { return !has_uplink_ || port_->uplink().up(); }
  uint32_t link_speed_mbps() const override { return link_mbps_; }

 private:
  static void warn(const std::string& line) {
    if (!line.empty()) log_message(LogLevel::kWarning, "segment: %s", line.c_str());
  }

  const bool has_uplink_;  // the port is up only while its host's uplink is; one that programs started is none
  const std::string host_;
  const MacAddress mac_;
  const uint32_t link_mbps_;
};

}  // namespace

bool link_is_up(const PortPlan& plan, const Nic& nic) {
  if (plan.options.wire) return true;
  if (plan.identity.netdev.empty() || plan.spec.kind == PortKind::kSegment) return nic.link_up();
  const auto carrier = netdev_carrier(plan.identity.netdev);
  return carrier ? *carrier : nic.link_up();
}

std::unique_ptr<Nic> start_dpdk_nic(const PortOptions& options, std::string& error,
                                    const std::function<void(Duration)>& rest) {
  auto port = DpdkPort::start({options}, error, rest);
  return port ? std::make_unique<DpdkNic>(std::move(port)) : nullptr;
}

std::unique_ptr<Nic> join_segment(const PortPlan& plan, DirectCopy*& direct, std::string& error) {
  segment::SegmentOptions options;
  const bool at_switch = plan.spec.kind == PortKind::kSwitch;
  options.directory = plan.segment_dir;
  if (at_switch) options.record.role = segment::Role::kBridge;
  options.record.host = plan.host;
  options.record.mac = plan.identity.mac;
  options.record.addresses = plan.identity.addresses;
  options.record.pid = getpid();
  options.record.program = program_invocation_short_name;
  options.record.leads_out = plan.spec.leads_out;
  options.frame_bytes = plan.max_frame_bytes;
  options.lanes_max = plan.lanes_max;
  options.warn = [](const std::string& line) { log_message(LogLevel::kWarning, "segment: %s", line.c_str()); };
  options.direct = plan.direct_copy && !at_switch;
  options.tell = [](const std::string& line) { log_message(LogLevel::kInfo, "segment: %s", line.c_str()); };
  auto port = segment::SegmentPort::join(options, error);
  if (!port) return nullptr;
  direct = port->direct();
  if (at_switch) return std::make_unique<SwitchPortNic>(std::move(port));
  return std::make_unique<SegmentNic>(std::move(port), plan);
}

}  // namespace uroce
