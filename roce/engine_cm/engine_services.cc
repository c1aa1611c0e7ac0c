#include "engine_cm/engine_services.h"

#include <algorithm>

#include "base/big_endian.h"
#include "engine/address_table.h"
#include "engine/management.h"
#include "engine/multicast_groups.h"
#include "engine/neighbours.h"
#include "engine/queue_pairs.h"

namespace uroce {
namespace {

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

void EngineServices::send_mad(const AddressVector& av, std::span<const uint8_t, cm::kMadBytes> mad, Instant now) {
  engine_->send_mad(av, mad, now);
}

std::optional<cm::ResolvedRoute> EngineServices::find_route(const IpAddress& src, const IpAddress& dst,
                                                            uint32_t /*scope_id*/) {
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
  cm::ResolvedRoute way;
  way.sgid_index = static_cast<uint8_t>(*best);
  way.source = rows[*best];
  way.av.dgid = dst.is_loopback() ? way.source.ip : dst;
  way.av.sgid_index = way.sgid_index;
  way.mtu_bytes = engine_->qps().active_mtu_bytes();
  return way;
}

bool EngineServices::is_own(const IpAddress& ip) {
  const auto rows = engine_->addresses().gids();
  return ip.is_loopback() || (!ip.is_zero() && std::any_of(rows.begin(), rows.end(),
                                                           [&](const LocalAddress& own) { return own.ip == ip; }));
}

cm::Services::Neighbour EngineServices::resolve(const cm::ResolvedRoute& way, Instant now) {
  Neighbours& neighbours = engine_->neighbours();
  if (neighbours.lookup(way.av.dgid, way.source.vlan_id)) return cm::Services::Neighbour::kKnown;
  neighbours.want(way.av.dgid, way.source, now);
  return cm::Services::Neighbour::kAsked;
}

uint64_t EngineServices::node_guid() { return load_be64(link_local_of(engine_->addresses().mac()).bytes.data() + 8); }

void EngineServices::join_group(const IpAddress& group, uint8_t sgid_index, Instant now) {
  engine_->multicast().join(group, sgid_index, now);
}

void EngineServices::leave_group(const IpAddress& group, uint8_t sgid_index, Instant now) {
  engine_->multicast().leave(group, sgid_index, now);
}

void hand_over(cm::RdmaCm& manager, const IncomingMad& mad, Instant now) {
  manager.on_mad({mad.src_ip, mad.dst_ip, mad.vlan_id, mad.src_qpn, mad.traffic_class, mad.hop_limit, mad.bytes}, now);
}

}  // namespace uroce
