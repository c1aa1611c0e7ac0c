#include "dpdk/endpoint_cm.h"

#include <algorithm>

#include "engine/management.h"
#include "engine/neighbours.h"
#include "engine/qpn_blocks.h"

namespace uroce {

static_assert(cm::kMadBytes == kManagementBytes);

void EndpointCm::start(Engine& engine, Nic& nic, RandomSource& random) {
  set_engine(engine);
  nic_ = &nic;
  random_ = &random;
  engine.set_management(this);
  nic.on_lost([this](const segment::LostMember& lost, Instant now) {
    if (manager_) end_with(lost, now);
  });
}

/// A program that is killed cannot tell its peers that its connections end. On real machines its kernel would; here the
/// peers see that it is gone.
void EndpointCm::end_with(const segment::LostMember& lost, Instant now) {
  const auto was_at = [&](const IpAddress& ip, const IpAddress& from) {
    const auto way = find_route(from, ip, 0);
    return way && engine()->neighbours().lookup(ip, way->source.vlan_id) == lost.mac;
  };
  manager_->on_peer_lost({was_at, [&](uint32_t id) { return lost.drew(id); }}, now);
}

void EndpointCm::stop() {
  if (engine() == nullptr) return;
  set_events(nullptr);
  established_.clear();
  held_.forget();
  manager_.reset();
  engine()->set_management(nullptr);
}

cm::RdmaCm& EndpointCm::manager() {
  if (!manager_)
    manager_ = std::make_unique<cm::RdmaCm>(static_cast<cm::Services&>(*this), static_cast<cm::EventSink&>(*this));
  return *manager_;
}

void EndpointCm::tell_waiting(Instant now) {
  for (const uint32_t qpn : established_) manager_->on_communication_established(qpn, now);
  established_.clear();
  while (const auto mad = held_.take(*engine(), now)) hand_over(*manager_, *mad, now);
}

// Called by the engine.

void EndpointCm::on_mad(const IncomingMad& mad, Instant now) {
  cm::RdmaCm& to = manager();
  if (!held_.keep(mad, *engine(), now)) hand_over(to, mad, now);
}

/// When no program of the host listens, a request is refused here.
bool EndpointCm::takes_request(uint64_t service_id) {
  const auto covers = [&](const Listening& l) { return ((l.service_id ^ service_id) & l.mask) == 0; };
  return std::any_of(listens_.begin(), listens_.end(), covers) || !nic_->another_listens(service_id);
}

bool EndpointCm::on_cm_event(const cm::Event& event) {
  if (events_ == nullptr) return false;
  told_ = go_on_ != nullptr;
  return events_->on_cm_event(event);
}

// Called by the connection manager.

int EndpointCm::listen(uint64_t service_id, uint64_t mask) {
  // A peer that learns of the service also learns the program's queue pair numbers: datagrams follow the first answer
  // sooner than others look into the directory again.
  engine()->own_block();
  listens_.reserve(listens_.size() + 1);
  if (const int error = nic_->listen(service_id, mask)) return error;
  listens_.push_back({service_id, mask});
  return 0;
}

void EndpointCm::unlisten(uint64_t service_id, uint64_t mask) {
  const auto found = std::find(listens_.begin(), listens_.end(), Listening{service_id, mask});
  if (found == listens_.end()) return;
  listens_.erase(found);
  nic_->unlisten(service_id, mask);
}

/// Its upper bits are a block of queue pair numbers of this program, by which others find it.
uint32_t EndpointCm::draw_communication_id() {
  constexpr uint32_t kBelowBlock = 32 - kQpnBlockBits;
  const uint32_t drawn = random_->next_u32();
  const auto block = engine()->own_block();
  return block ? *block << kBelowBlock | (drawn & ((1u << kBelowBlock) - 1)) : drawn;
}

}  // namespace uroce
