#include "dpdk/endpoint_cm.h"

#include <algorithm>

#include "base/big_endian.h"

namespace uroce {
namespace {

static_assert(cm::kMadBytes == kManagementBytes);

constexpr int kUnfit = -1;

/// How well `own` does as a source for `dst`: the most specific network wins. kUnfit: not at all.
int fitness(const LocalAddress& own, const IpAddress& dst) {
  constexpr int kItself = 1000;
  if (own.ip.is_zero() || own.ip.is_v4() != dst.is_v4()) return kUnfit;
  if (own.ip == dst) return kItself;
  if (own.ip.is_link_local_v6()) return dst.is_link_local_v6() || dst.is_multicast() || dst.is_loopback() ? 1 : kUnfit;
  if (dst.is_link_local_v6()) return kUnfit;
  // Others are asked for on the network itself, as queue pairs do it.
  return own.on_link(dst) ? 3 + own.prefix_bits : 2;
}

}  // namespace

void EndpointCm::start(Engine& engine, EndpointDevice& device, RandomSource& random) {
  engine_ = &engine;
  device_ = &device;
  random_ = &random;
  engine.set_management(this);
}

void EndpointCm::stop() {
  if (engine_ == nullptr) return;
  events_ = nullptr;
  established_.clear();
  manager_.reset();
  engine_->set_management(nullptr);
}

cm::RdmaCm& EndpointCm::manager() {
  if (!manager_)
    manager_ = std::make_unique<cm::RdmaCm>(static_cast<cm::Services&>(*this), static_cast<cm::EventSink&>(*this));
  return *manager_;
}

void EndpointCm::tell_established(Instant now) {
  for (const uint32_t qpn : established_) manager_->on_communication_established(qpn, now);
  established_.clear();
}

// From the engine.

void EndpointCm::on_mad(const IncomingMad& mad, Instant now) {
  manager().on_mad({mad.src_ip, mad.dst_ip, mad.vlan_id, mad.src_qpn, mad.traffic_class, mad.hop_limit, mad.bytes},
                   now);
}

/// Where nobody of the host listens, whoever asks can be told so here.
bool EndpointCm::takes_request(uint64_t service_id) {
  const auto covers = [&](const Listening& l) { return ((l.service_id ^ service_id) & l.mask) == 0; };
  return std::any_of(listens_.begin(), listens_.end(), covers) || !device_->another_listens(service_id);
}

bool EndpointCm::on_cm_event(const cm::Event& event) { return events_ != nullptr && events_->on_cm_event(event); }

// For the manager.

void EndpointCm::send_mad(const AddressVector& av, std::span<const uint8_t, cm::kMadBytes> mad, Instant now) {
  engine_->send_mad(av, mad, now);
}

std::optional<cm::Way> EndpointCm::find_way(const IpAddress& src, const IpAddress& dst, uint32_t /*scope_id*/) {
  const bool from_any = src.is_zero() || src == IpAddress::v4(0) || src.is_loopback();
  const std::span<const LocalAddress> rows = engine_->addresses().gids();
  std::optional<size_t> best;
  int best_fitness = kUnfit;
  for (size_t i = 0; i < rows.size(); i++) {
    if (!from_any && rows[i].ip != src) continue;
    const int fit = fitness(rows[i], dst);
    if (fit <= best_fitness) continue;
    best = i;
    best_fitness = fit;
  }
  if (!best) return std::nullopt;
  cm::Way way;
  way.sgid_index = static_cast<uint8_t>(*best);
  way.source = rows[*best];
  way.av.dgid = dst.is_loopback() ? way.source.ip : dst;
  way.av.sgid_index = way.sgid_index;
  way.mtu_bytes = engine_->qps().active_mtu_bytes();
  return way;
}

bool EndpointCm::is_own(const IpAddress& ip) {
  const auto rows = engine_->addresses().gids();
  return ip.is_loopback() || (!ip.is_zero() && std::any_of(rows.begin(), rows.end(),
                                                           [&](const LocalAddress& own) { return own.ip == ip; }));
}

cm::Services::Neighbour EndpointCm::resolve(const cm::Way& way, Instant now) {
  Neighbours& neighbours = engine_->neighbours();
  if (neighbours.lookup(way.av.dgid, way.source.vlan_id)) return Neighbour::kKnown;
  neighbours.want(way.av.dgid, way.source, now);
  return Neighbour::kAsked;
}

void EndpointCm::listen(uint64_t service_id, uint64_t mask) {
  // Whoever learns of the service learns of the program's queue pair numbers, too: datagrams follow the first answer
  // sooner than others look into the directory again.
  engine_->own_block();
  listens_.push_back({service_id, mask});
  device_->listen(service_id, mask);
}

void EndpointCm::unlisten(uint64_t service_id, uint64_t mask) {
  const auto found = std::find(listens_.begin(), listens_.end(), Listening{service_id, mask});
  if (found == listens_.end()) return;
  listens_.erase(found);
  device_->unlisten(service_id, mask);
}

/// It begins with a block of queue pair numbers of this program, which is how others find it.
uint32_t EndpointCm::draw_communication_id() {
  constexpr uint32_t kBelowBlock = 32 - kQpnBlockBits;
  const uint32_t drawn = random_->next_u32();
  const auto block = engine_->own_block();
  return block ? *block << kBelowBlock | (drawn & ((1u << kBelowBlock) - 1)) : drawn;
}

uint64_t EndpointCm::node_guid() { return load_be64(link_local_of(engine_->addresses().mac()).bytes.data() + 8); }

void EndpointCm::join_group(const IpAddress& group, uint8_t sgid_index, Instant now) {
  engine_->multicast().join(group, sgid_index, now);
}

void EndpointCm::leave_group(const IpAddress& group, uint8_t sgid_index, Instant now) {
  engine_->multicast().leave(group, sgid_index, now);
}

}  // namespace uroce
