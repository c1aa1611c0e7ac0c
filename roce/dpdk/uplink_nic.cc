#include "dpdk/uplink_nic.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "dpdk/log.h"
#include "engine/qpn_blocks.h"
#include "host/segment_plan.h"
#include "segment/segment_port.h"
#include "segment/uplink_port.h"

namespace uroce {
namespace {

/// The host that shares the port; the MAC in its name distinguishes it from those of other ports.
std::string host_of(const MacAddress& mac) {
  std::string name = "port-" + to_string(mac);
  std::erase(name, ':');
  return name;
}

class UplinkNic final : public Nic {
 public:
  UplinkNic(std::unique_ptr<Nic> wire, std::unique_ptr<segment::SegmentPort> segment, const PortPlan& plan,
            uint64_t rate)
      : plan_(plan),
        wire_(std::move(wire)),
        segment_(std::move(segment)),
        uplink_(wire_->port(), *segment_, plan.identity.mac, rate) {}

  Port& port() override { return uplink_; }
  bool pause_in_hardware(uint8_t priorities) override { return wire_->pause_in_hardware(priorities); }
  void obey_pauses(uint8_t paused) override { uplink_.set_silent(paused != 0); }
  bool on_turn(Instant now) override {
    const bool looked = wire_->on_turn(now);
    segment_->on_turn(now);
    uplink_.on_turn(now);
    if (looked) tell_link();
    if (plan_.mtu_now != std::exchange(told_mtu_, plan_.mtu_now))
      tell([this](segment::MemberRecord& record) { record.mtu = told_mtu_; });
    return looked;
  }
  uint32_t moved() const override { return uplink_.moved(); }
  void tell_addresses(const std::vector<LocalAddress>& addresses) override {
    tell([&](segment::MemberRecord& record) { record.addresses = addresses; });
  }
  bool tx_pending() const override { return wire_->tx_pending() || segment_->tx_pending(); }
  bool link_up() const override { return wire_->link_up(); }
  uint32_t link_speed_mbps() const override { return wire_->link_speed_mbps(); }
  void for_each_counter(const Counter& f) const override {
    wire_->for_each_counter(f);
    segment::for_each_counter(segment_->counters(), f);
    segment::for_each_counter(uplink_.counters(), f);
  }
  void abandon() override {
    wire_->abandon();
    if (segment_) segment_.release()->abandon();
  }

 private:
  /// Programs take the uplink's link for their own.
  void tell_link() {
    const bool up = link_is_up(plan_, *wire_);
    if (up != std::exchange(told_up_, up)) tell([up](segment::MemberRecord& record) { record.link_up = up; });
  }
  void tell(const std::function<void(segment::MemberRecord&)>& news) {
    std::string error;
    segment_->registration().update(news, error);
    if (!error.empty()) log_message(LogLevel::kWarning, "segment: %s", error.c_str());
  }

  const PortPlan& plan_;
  std::unique_ptr<Nic> wire_;
  std::unique_ptr<segment::SegmentPort> segment_;
  segment::UplinkPort uplink_;
  bool told_up_ = true;
  uint32_t told_mtu_ = 0;
};

/// False when there is one already.
bool has_no_uplink(const std::string& directory, const MacAddress& mac, std::string& error) {
  segment::Directory others;
  if (!others.open(directory, error)) return false;
  if (!others.scan()) {
    error = "who is in " + directory + " cannot be read: " + std::strerror(errno);
    return false;
  }
  for (const auto& [id, record] : others.members()) {
    if (record.role != segment::Role::kUplink || record.mac != mac) continue;
    error = "this port is the uplink of " + directory + " already, in process " + std::to_string(record.pid);
    return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<Nic> make_uplink(std::unique_ptr<Nic> wire, const PortPlan& plan, const UplinkConfig& config,
                                 std::string& error) {
  segment::SegmentOptions options;
  options.directory = make_segment_directory(config.segment, config.group, error);
  if (options.directory.empty() || !has_no_uplink(options.directory, plan.identity.mac, error)) return nullptr;
  segment::MemberRecord& record = options.record;
  record.role = segment::Role::kUplink;
  record.host = config.host.empty() ? host_of(plan.identity.mac) : config.host;
  record.mac = plan.identity.mac;
  record.addresses = plan.identity.addresses;
  record.pid = getpid();
  record.program = program_invocation_short_name;
  record.mtu = plan.max_frame_bytes - kLinkHeaderBytes;
  record.quotas.qps_max = config.qps_max;
  record.quotas.lanes_max = config.lanes_max;
  record.netdev = plan.identity.netdev;
  record.leads_out = config.while_needed;
  options.warn = [](const std::string& line) { log_message(LogLevel::kWarning, "segment: %s", line.c_str()); };
  auto segment = segment::SegmentPort::join(options, error);
  if (!segment) return nullptr;
  segment->peers().set_blocks_max((config.qps_max + kQpsPerBlock - 1) / kQpsPerBlock);
  return std::make_unique<UplinkNic>(std::move(wire), std::move(segment), plan, config.rate);
}

}  // namespace uroce
