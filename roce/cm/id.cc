#include "cm/id_state.h"
#include "cm/rdma_cm.h"

namespace uroce::cm {

Id::Id(PortSpace port_space, QpType qp_type, void* user) : state_(std::make_unique<IdState>()) {
  state_->port_space = port_space;
  state_->qp_type = qp_type;
  state_->user = user;
}

Id::~Id() = default;

PortSpace Id::port_space() const { return state_->port_space; }
QpType Id::qp_type() const { return state_->qp_type; }
const SocketAddress& Id::local() const { return state_->local; }
const SocketAddress& Id::remote() const { return state_->remote; }
bool Id::only_bound() const { return has_device() && state_->phase == IdState::Phase::kBound; }
bool Id::has_device() const { return state_->local.family != SocketAddress::Family::kNone && !state_->local.is_any(); }
const ResolvedRoute* Id::way() const { return state_->way ? &*state_->way : nullptr; }
bool Id::route_resolved() const {
  return state_->phase == IdState::Phase::kRouteResolved || state_->phase == IdState::Phase::kConnect ||
         state_->phase == IdState::Phase::kDisconnect;
}
void* Id::user() const { return state_->user; }
void Id::set_user(void* user) { state_->user = user; }

}  // namespace uroce::cm
