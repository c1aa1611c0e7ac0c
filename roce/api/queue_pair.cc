#include "uroce/queue_pair.h"

#include "api/connections_core.h"
#include "api/device_core.h"
#include "engine/address_table.h"
#include "engine/bring_up.h"
#include "engine/multicast_groups.h"
#include "engine/queue_pairs.h"
#include "transport/send_queue.h"

namespace uroce::rdma {

uint32_t QueuePair::qp_num() const { return real(qp_.get())->qpn(); }
QpState QueuePair::state() const { return real(qp_.get())->state(); }
bool QueuePair::path_resolved() const { return real(qp_.get())->path_resolved(); }
QpAttributes QueuePair::attributes() const { return real(qp_.get())->attributes(); }
uint32_t QueuePair::send_slots_free() const { return real(qp_.get())->send_queue().slots().free(); }

QueuePairAddress QueuePair::address(uint8_t sgid_index) const {
  const auto gids = qp_.get_deleter().core->engine->addresses().gids();
  return {sgid_index < gids.size() ? gids[sgid_index].ip : IpAddress{}, real(qp_.get())->qpn(), first_psn_};
}

ModifyResult QueuePair::modify(const QpAttributes& attributes, uint32_t mask) {
  DeviceCore& core = *qp_.get_deleter().core;
  return core.engine->modify_qp(*real(qp_.get()), attributes, mask, core.now());
}

ModifyResult QueuePair::bring_up_to(QpState target, const QpAttributes& attributes) {
  DeviceCore& core = *qp_.get_deleter().core;
  return bring_up(*core.engine, *real(qp_.get()), attributes, target, core.now());
}

ModifyResult QueuePair::initialize(uint32_t access) {
  if (state() != QpState::kReset) return ModifyResult::kBadTransition;
  QpAttributes attributes;
  attributes.access = access;
  return bring_up_to(QpState::kInit, attributes);
}

ModifyResult QueuePair::connect(const QueuePairAddress& peer, const ConnectOptions& options, uint8_t sgid_index) {
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
  if (state() == QpState::kInit) {  // `initialize` has set access rights; those of `options` hold
    a.state = QpState::kInit;
    const ModifyResult result = modify(a, kAttrState | kAttrAccessFlags);
    if (result != ModifyResult::kOk) return result;
  }
  return bring_up_to(QpState::kRts, a);
}

ModifyResult QueuePair::activate(uint32_t qkey) {
  QpAttributes a;
  a.qkey = qkey;
  a.sq_psn = first_psn_;
  if (state() == QpState::kInit) {  // `initialize` sets no Q_Key
    a.state = QpState::kInit;
    const ModifyResult result = modify(a, kAttrState | kAttrQkey);
    if (result != ModifyResult::kOk) return result;
  }
  return bring_up_to(QpState::kRts, a);
}

bool QueuePair::attach(const IpAddress& group) {
  DeviceCore& core = *qp_.get_deleter().core;
  return core.engine->multicast().attach(*real(qp_.get()), group, core.now()) == MulticastGroups::Result::kOk;
}

bool QueuePair::detach(const IpAddress& group) {
  DeviceCore& core = *qp_.get_deleter().core;
  return core.engine->multicast().detach(*real(qp_.get()), group, core.now()) == MulticastGroups::Result::kOk;
}

PostResult QueuePair::post_sends(std::span<const SendWr> wrs) {
  DeviceCore& core = *qp_.get_deleter().core;
  return core.engine->post_sends(*real(qp_.get()), wrs, core.now());
}

PostResult QueuePair::post_recv(const RecvWr& wr) {
  DeviceCore& core = *qp_.get_deleter().core;
  return core.engine->post_recv(*real(qp_.get()), wr, core.now());
}

template <>
void Release<HeldQueuePair>::operator()(HeldQueuePair* qp) const {
  if (core->connections != nullptr) core->connections->on_qp_gone(*real(qp));
  core->engine->destroy_qp(real(qp), core->now());
}

}  // namespace uroce::rdma
