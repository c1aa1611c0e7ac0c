#include "managed/engine_cm.h"

#include "managed/engine_ways.h"

namespace uroce {

EngineCm::EngineCm(Engine& engine, RandomSource& random, cm::EventSink& sink, uint32_t first_id,
                   const cm::CmLimits& limits)
    : engine_(engine), random_(random), next_id_(first_id), manager_(static_cast<cm::Services&>(*this), sink, limits) {
  engine.set_management(this);
}

EngineCm::~EngineCm() { engine_.set_management(nullptr); }

void EngineCm::on_turn(Instant now) {
  for (const uint32_t qpn : established_) manager_.on_communication_established(qpn, now);
  established_.clear();
  if (manager_.next_timeout() <= now) manager_.run_timers(now);
}

void EngineCm::on_mad(const IncomingMad& mad, Instant now) {
  manager_.on_mad({mad.src_ip, mad.dst_ip, mad.vlan_id, mad.src_qpn, mad.traffic_class, mad.hop_limit, mad.bytes}, now);
}

void EngineCm::send_mad(const AddressVector& av, std::span<const uint8_t, cm::kMadBytes> mad, Instant now) {
  engine_.send_mad(av, mad, now);
}

std::optional<cm::Way> EngineCm::find_way(const IpAddress& src, const IpAddress& dst, uint32_t /*scope_id*/) {
  return uroce::find_way(engine_, src, dst);
}

bool EngineCm::is_own(const IpAddress& ip) { return uroce::is_own(engine_, ip); }

cm::Services::Neighbour EngineCm::resolve(const cm::Way& way, Instant now) { return uroce::resolve(engine_, way, now); }

uint32_t EngineCm::draw_communication_id() { return next_id_ != 0 ? next_id_++ : random_.next_u32(); }

uint64_t EngineCm::node_guid() { return uroce::node_guid(engine_); }

void EngineCm::join_group(const IpAddress& group, uint8_t sgid_index, Instant now) {
  engine_.multicast().join(group, sgid_index, now);
}

void EngineCm::leave_group(const IpAddress& group, uint8_t sgid_index, Instant now) {
  engine_.multicast().leave(group, sgid_index, now);
}

}  // namespace uroce
