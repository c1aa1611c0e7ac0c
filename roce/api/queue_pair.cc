#include "uroce/queue_pair.h"

#include "api/engine_core.h"

namespace uroce::rdma {

uint32_t QueuePair::qp_num() const { return real(qp_.get())->qpn(); }
QpState QueuePair::state() const { return real(qp_.get())->state(); }
bool QueuePair::path_resolved() const { return real(qp_.get())->path_resolved(); }
QpAttributes QueuePair::attributes() const { return real(qp_.get())->attributes(); }
uint32_t QueuePair::send_slots_free() const { return real(qp_.get())->send_slots_free(); }

QueuePairAddress QueuePair::address(uint8_t sgid_index) const {
  const auto gids = qp_.get_deleter().core->engine->addresses().gids();
  return {sgid_index < gids.size() ? gids[sgid_index].ip : IpAddress{}, real(qp_.get())->qpn(), first_psn_};
}

ModifyResult QueuePair::modify(const QpAttributes& attributes, uint32_t mask, Instant now) {
  EngineCore& core = *qp_.get_deleter().core;
  return core.engine->modify_qp(*real(qp_.get()), attributes, mask, core.told = now);
}

ModifyResult QueuePair::move_to(QpState state, QpAttributes& attributes, Instant now) {
  attributes.state = state;
  return modify(attributes, required_attributes(real(qp_.get())->type(), real(qp_.get())->state(), state), now);
}

ModifyResult QueuePair::initialize(uint32_t access, Instant now) {
  QpAttributes attributes;
  attributes.access = access;
  return move_to(QpState::kInit, attributes, now);
}

ModifyResult QueuePair::connect(const QueuePairAddress& peer, const ConnectOptions& options, Instant now,
                                uint8_t sgid_index) {
  QpAttributes a;
  a.access = options.access;
  a.av.dgid = peer.gid;
  a.av.sgid_index = sgid_index;
  a.av.traffic_class = options.traffic_class;
  a.path_mtu_bytes =
      options.path_mtu_bytes != 0 ? options.path_mtu_bytes : qp_.get_deleter().core->engine->qps().active_mtu_bytes();
  a.timeout = options.timeout;
  a.retry_cnt = options.retry_cnt;
  a.rnr_retry = options.rnr_retry;
  a.min_rnr_timer = options.min_rnr_timer;
  a.max_rd_atomic = options.max_rd_atomic;
  a.max_dest_rd_atomic = options.max_dest_rd_atomic;
  a.dest_qpn = peer.qp_num;
  a.rq_psn = peer.psn;
  a.sq_psn = first_psn_;
  ModifyResult result = ModifyResult::kOk;
  if (state() == QpState::kReset) {
    result = move_to(QpState::kInit, a, now);
  } else if (state() == QpState::kInit) {  // with the access rights that `initialize` was told
    a.state = QpState::kInit;
    result = modify(a, kAttrState | kAttrAccessFlags, now);
  }
  if (result == ModifyResult::kOk) result = move_to(QpState::kRtr, a, now);
  if (result == ModifyResult::kOk) result = move_to(QpState::kRts, a, now);
  return result;
}

ModifyResult QueuePair::activate(uint32_t qkey, Instant now) {
  QpAttributes a;
  a.qkey = qkey;
  a.sq_psn = first_psn_;
  ModifyResult result = move_to(QpState::kInit, a, now);
  if (result == ModifyResult::kOk) result = move_to(QpState::kRtr, a, now);
  if (result == ModifyResult::kOk) result = move_to(QpState::kRts, a, now);
  return result;
}

PostResult QueuePair::post_sends(std::span<const SendWr> wrs, Instant now) {
  EngineCore& core = *qp_.get_deleter().core;
  return core.engine->post_sends(*real(qp_.get()), wrs, core.told = now);
}

PostResult QueuePair::post_recv(const RecvWr& wr, Instant now) {
  EngineCore& core = *qp_.get_deleter().core;
  return core.engine->post_recv(*real(qp_.get()), wr, core.told = now);
}

template <>
void Release<HeldQueuePair>::operator()(HeldQueuePair* qp) const {
  core->engine->destroy_qp(real(qp), core->now());
}

}  // namespace uroce::rdma
