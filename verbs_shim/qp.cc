// Queue pairs: create, query, destroy.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

#include "dpdk/log.h"
#include "engine/multicast_groups.h"
#include "identity.h"
#include "later_abi.h"
#include "operations.h"
#include "raw.h"
#include "runtime.h"
#include "transport/qp.h"
#include "transport/qp_init.h"
#include "transport/receive_queue.h"
#include "transport/rendezvous.h"
#include "transport/send_queue.h"
#include "xrc.h"

using namespace uroce;
using namespace uroce::verbs;

static_assert(static_cast<int>(QpType::kRc) == IBV_QPT_RC && static_cast<int>(QpType::kUc) == IBV_QPT_UC &&
              static_cast<int>(QpType::kUd) == IBV_QPT_UD &&
              static_cast<int>(QpType::kRawPacket) == IBV_QPT_RAW_PACKET &&
              static_cast<int>(QpType::kXrcSend) == IBV_QPT_XRC_SEND &&
              static_cast<int>(QpType::kXrcRecv) == IBV_QPT_XRC_RECV);
static_assert(static_cast<int>(QpState::kReset) == IBV_QPS_RESET && static_cast<int>(QpState::kInit) == IBV_QPS_INIT &&
              static_cast<int>(QpState::kRtr) == IBV_QPS_RTR && static_cast<int>(QpState::kRts) == IBV_QPS_RTS &&
              static_cast<int>(QpState::kSqd) == IBV_QPS_SQD && static_cast<int>(QpState::kSqe) == IBV_QPS_SQE &&
              static_cast<int>(QpState::kErr) == IBV_QPS_ERR);

namespace {

/// The name of the type, for log lines.
const char* type_name(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_DRIVER:
      return "DRIVER: DC, SRD and others of one vendor's cards";
    default:
      return "unknown";
  }
}

/// Returns 0 or errno.
int check_init(const ibv_qp_init_attr_ex& attr) {
  const bool xrc_send = attr.qp_type == IBV_QPT_XRC_SEND;
  const bool raw = attr.qp_type == IBV_QPT_RAW_PACKET;
  if (attr.qp_type != IBV_QPT_RC && attr.qp_type != IBV_QPT_UC && attr.qp_type != IBV_QPT_UD && !xrc_send && !raw) {
    log_message(LogLevel::kWarning,
                "queue pairs of type %d (%s) are not supported (EOPNOTSUPP); RC, UC, UD, XRC and RAW_PACKET are",
                static_cast<int>(attr.qp_type), type_name(attr.qp_type));
    return EOPNOTSUPP;
  }
  if (attr.pd == nullptr || attr.send_cq == nullptr || (attr.recv_cq == nullptr && !xrc_send)) return EINVAL;
  for (ibv_context* context : {attr.pd->context, attr.send_cq->context}) {
    if (is_the_parents(context)) return refuse_to_child();
  }
  if (!xrc_send && is_the_parents(attr.recv_cq->context)) return refuse_to_child();
  if (attr.srq != nullptr && is_the_parents(attr.srq->context)) return refuse_to_child();
  if (!is_found(*attr.pd) || !is_found(*attr.send_cq) || (!xrc_send && !is_found(*attr.recv_cq))) return ENOENT;
  if (attr.srq != nullptr && !is_found(*attr.srq)) return ENOENT;
  ibv_context* const context = attr.pd->context;
  if (!is_same_file(context, attr.send_cq->context)) return ENOENT;
  if (!xrc_send && !is_same_file(context, attr.recv_cq->context)) return ENOENT;
  if (attr.srq != nullptr && !is_same_file(context, attr.srq->context)) return ENOENT;
  const ibv_qp_cap& cap = attr.cap;
  const bool own_receives = attr.srq == nullptr && !xrc_send;
  if (cap.max_send_wr > kMaxQpWr || cap.max_send_sge > kMaxSge || cap.max_inline_data > kMaxInlineBytes) return EINVAL;
  if (own_receives && (cap.max_recv_wr > kMaxQpWr || cap.max_recv_sge > kMaxSge)) return EINVAL;
  if (attr.srq != nullptr && (xrc_send || raw)) return EINVAL;
  if (attr.srq != nullptr && ours(attr.srq).xrcd != nullptr) return EINVAL;  // only XRC targets receive into it
  if (attr.srq != nullptr && ours(attr.srq).queue->tags() != nullptr && attr.qp_type != IBV_QPT_RC) return EINVAL;
  return 0;
}

uint32_t create_flags_of(const ibv_qp_init_attr_ex& attr) {
  return (attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 ? attr.create_flags : 0;
}

/// Only datagram queue pairs join groups.
uint32_t create_flags_for(ibv_qp_type type) {
  return type == IBV_QPT_UD ? uint32_t{IBV_QP_CREATE_BLOCK_SELF_MCAST_LB} : 0;
}

QpInit init_from(const ibv_qp_init_attr_ex& attr) {
  QpInit init;
  init.type = static_cast<QpType>(attr.qp_type);
  init.pd = ours(attr.pd).id;
  init.send_cq = ours(attr.send_cq).queue;
  const bool receives = attr.qp_type != IBV_QPT_XRC_SEND;
  init.recv_cq = receives ? ours(attr.recv_cq).queue : nullptr;
  init.srq = attr.srq != nullptr ? ours(attr.srq).queue : nullptr;
  // A 0 is raised to one element: programs do not mean "no elements", the room is cheap, and an atomic needs one.
  init.cap.max_send_wr = attr.cap.max_send_wr;
  init.cap.max_send_sge = attr.cap.max_send_sge != 0 ? attr.cap.max_send_sge : 1;
  // rdma_xclient sends 16 bytes inline without having asked for room, as other devices always have some.
  constexpr uint32_t kInlineAlways = 16;
  init.cap.max_inline_data = std::max(attr.cap.max_inline_data, kInlineAlways);
  if (attr.srq == nullptr && receives) {
    init.cap.max_recv_wr = attr.cap.max_recv_wr;
    init.cap.max_recv_sge = attr.cap.max_recv_sge != 0 ? attr.cap.max_recv_sge : 1;
  }
  init.sq_sig_all = attr.sq_sig_all != 0;
  init.blocks_own_multicast = (create_flags_of(attr) & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) != 0;
  return init;
}

ibv_qp_cap cap_to_verbs(const QpCapabilities& cap) {
  ibv_qp_cap out{};
  out.max_send_wr = cap.max_send_wr;
  out.max_recv_wr = cap.max_recv_wr;
  out.max_send_sge = cap.max_send_sge;
  out.max_recv_sge = cap.max_recv_sge;
  out.max_inline_data = cap.max_inline_data;
  return out;
}

/// Memory for the queues from the domain's allocator, if it has one. False when that has none left.
bool take_memory(Pd& pd, QpInit& init, QueuePair& qp) {
  if (pd.alloc == nullptr) return true;
  const QpCapabilities& cap = init.cap;
  if (!qp.send_memory.take(pd, SendQueue::bytes_for(cap, device_work_of(init)), DomainMemory::kSendQueue)) return false;
  if (init.srq == nullptr && init.type != QpType::kXrcSend) {
    const size_t bytes = ReceiveQueue::bytes_for(cap.max_recv_wr, cap.max_recv_sge);
    if (!qp.receive_memory.take(pd, bytes, DomainMemory::kReceiveQueue)) return false;
  }
  init.send_memory = qp.send_memory.get();
  init.receive_memory = qp.receive_memory.get();
  return true;
}

QueuePair* create(const ibv_qp_init_attr_ex& attr, ibv_qp_cap& granted) try {
  if (const int error = check_init(attr); error != 0) {
    errno = error;
    return nullptr;
  }
  auto qp = std::make_unique<QueuePair>();
  QpInit init = init_from(attr);
  if (!take_memory(ours(attr.pd), init, *qp)) {
    errno = ENOMEM;
    return nullptr;
  }
  {
    EngineLock lock(endpoint());
    qp->qp = lock->create_qp(init, qp.get());
    if (qp->qp != nullptr) granted = cap_to_verbs(qp->qp->init().cap);
  }
  if (qp->qp == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  ibv_qp& base = *qp->base();
  base.context = attr.pd->context;
  base.qp_context = attr.qp_context;
  base.pd = attr.pd;
  base.send_cq = attr.send_cq;
  base.recv_cq = attr.qp_type != IBV_QPT_XRC_SEND ? attr.recv_cq : nullptr;
  base.srq = attr.srq;
  identify(*qp, base, next_handle());
  base.qp_num = qp->qp->qpn();
  base.state = IBV_QPS_RESET;
  base.qp_type = attr.qp_type;
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
  qp->sq_sig_all = attr.sq_sig_all != 0;
  count_object(base.pd, 1);
  return qp.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

/// The operations of the ibv_wr_* interface that a type of QP has.
uint64_t send_ops_of(ibv_qp_type type) {
  static constexpr struct {
    uint64_t flag;
    WrOpcode opcode;
  } kOperations[] = {{IBV_QP_EX_WITH_RDMA_WRITE, WrOpcode::kRdmaWrite},
                     {IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, WrOpcode::kRdmaWriteWithImm},
                     {IBV_QP_EX_WITH_SEND, WrOpcode::kSend},
                     {IBV_QP_EX_WITH_SEND_WITH_IMM, WrOpcode::kSendWithImm},
                     {IBV_QP_EX_WITH_RDMA_READ, WrOpcode::kRdmaRead},
                     {IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, WrOpcode::kCompareSwap},
                     {IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, WrOpcode::kFetchAdd},
                     {IBV_QP_EX_WITH_LOCAL_INV, WrOpcode::kLocalInv},
                     {IBV_QP_EX_WITH_BIND_MW, WrOpcode::kBindMw},
                     {IBV_QP_EX_WITH_SEND_WITH_INV, WrOpcode::kSendWithInv},
                     {kQpExWithFlush, WrOpcode::kFlush},
                     {IBV_QP_EX_WITH_ATOMIC_WRITE, WrOpcode::kAtomicWrite}};
  uint64_t flags = 0;
  for (const auto& operation : kOperations) {
    if (operation_allowed(operation.opcode, static_cast<QpType>(type))) flags |= operation.flag;
  }
  return flags;
}

}  // namespace

UROCE_VERBS_EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  ibv_qp_init_attr_ex extended{};
  static_assert(offsetof(ibv_qp_init_attr_ex, comp_mask) == offsetof(ibv_qp_init_attr, sq_sig_all) + sizeof(int));
  std::memcpy(static_cast<void*>(&extended), attr, offsetof(ibv_qp_init_attr_ex, comp_mask));
  extended.pd = pd;
  if (extended.qp_type == IBV_QPT_XRC_RECV) return create_xrc_target(extended);
  QueuePair* qp = create(extended, attr->cap);
  return qp != nullptr ? qp->base() : nullptr;
}

namespace uroce::verbs {

/// Otherwise the peer's last work request would fail, long after it was served.
void send_last_words(Qp& qp) {
  {
    EngineLock lock(endpoint());
    qp.end_ack_delay();
    endpoint().transmit();
  }
  drive_until(milliseconds(1), [&](Engine&) { return !qp.wants_transmit(); });
}

bool is_busy(const QueuePair& qp) {
  EngineLock lock(endpoint());
  if (qp.qp_base.qp_type == IBV_QPT_UD) return lock->multicast().is_attached(*qp.qp);
  return qp.flows != 0;
}

ibv_qp* create_qp_extended(ibv_context*, ibv_qp_init_attr_ex* attr) {
  if (asks_for_rss(*attr)) return create_rss_qp(*attr);
  const bool target = attr->qp_type == IBV_QPT_XRC_RECV;
  const uint32_t offered = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
                           (target ? uint32_t{IBV_QP_INIT_ATTR_XRCD} : 0u);
  const bool with_ops = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  const uint32_t flags = create_flags_of(*attr);
  if ((attr->comp_mask & ~offered) != 0 || (flags & ~create_flags_for(attr->qp_type)) != 0 ||
      (with_ops && (attr->send_ops_flags & ~send_ops_of(attr->qp_type)) != 0)) {
    log_message(LogLevel::kInfo,
                "ibv_create_qp_ex, type %d: comp_mask 0x%x, create_flags 0x%x, send_ops 0x%llx: not all supported",
                static_cast<int>(attr->qp_type), attr->comp_mask, flags,
                with_ops ? static_cast<unsigned long long>(attr->send_ops_flags) : 0ull);
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if (target) return create_xrc_target(*attr);
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0) {
    errno = EINVAL;
    return nullptr;
  }
  QueuePair* qp = create(*attr, attr->cap);
  if (qp == nullptr) return nullptr;
  try {
    if (with_ops) fill_wr_operations(*qp, attr->send_ops_flags);
  } catch (const std::bad_alloc&) {
    ibv_destroy_qp(qp->base());
    errno = ENOMEM;
    return nullptr;
  }
  return qp->base();
}

}  // namespace uroce::verbs

UROCE_VERBS_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) { return ours(qp).extended ? &ours(qp) : nullptr; }

UROCE_VERBS_EXPORT int ibv_query_qp(ibv_qp* base, ibv_qp_attr* attr, int, ibv_qp_init_attr* init_attr) {
  if (is_the_parents(base->context)) return refuse_to_child();
  if (!is_found(*base)) return with_errno(ENOENT);
  QueuePair& qp = ours(base);
  QpAttributes now;
  ibv_qp_cap cap;
  {
    EngineLock lock(endpoint());
    now = qp.qp->attributes();
    now.state = qp.qp->state();
    cap = cap_to_verbs(qp.qp->init().cap);
  }
  *attr = {};
  attr->qp_state = attr->cur_qp_state = base->state = static_cast<ibv_qp_state>(now.state);
  attr->path_mtu = mtu_to_verbs(now.path_mtu_bytes);
  attr->path_mig_state = IBV_MIG_MIGRATED;
  attr->qkey = now.qkey;
  attr->rq_psn = now.rq_psn.value();
  attr->sq_psn = now.sq_psn.value();
  attr->dest_qp_num = now.dest_qpn;
  attr->qp_access_flags = now.access;
  attr->cap = cap;
  address_vector_to(now.av, attr->ah_attr);
  attr->pkey_index = now.pkey_index;
  attr->en_sqd_async_notify = now.sqd_async_notify ? 1 : 0;
  attr->sq_draining = now.sq_draining ? 1 : 0;
  attr->max_rd_atomic = now.max_rd_atomic;
  attr->max_dest_rd_atomic = now.max_dest_rd_atomic;
  attr->min_rnr_timer = now.min_rnr_timer;
  attr->port_num = now.port_num;
  attr->timeout = now.timeout;
  attr->retry_cnt = now.retry_cnt;
  attr->rnr_retry = now.rnr_retry;
  attr->rate_limit = now.rate_limit_kbps;
  if (init_attr != nullptr) {
    *init_attr = {};
    init_attr->qp_context = base->qp_context;
    init_attr->send_cq = base->send_cq;
    init_attr->recv_cq = base->recv_cq;
    init_attr->srq = base->srq;
    init_attr->cap = cap;
    init_attr->qp_type = base->qp_type;
    init_attr->sq_sig_all = qp.sq_sig_all ? 1 : 0;
  }
  return 0;
}

UROCE_VERBS_EXPORT int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, uint32_t) { return 0; }

UROCE_VERBS_EXPORT int ibv_destroy_qp(ibv_qp* base) {
  if (is_the_parents(base->context)) return 0;
  if (!is_found(*base)) return with_errno(ENOENT);
  QueuePair& qp = ours(base);
  if (qp.target != nullptr) return destroy_xrc_target(qp);
  if (is_busy(qp)) return with_errno(EBUSY);
  if (qp.rss != nullptr) forget_rss(qp);
  send_last_words(*qp.qp);
  {
    EngineLock lock(endpoint());
    lock->destroy_qp(qp.qp, endpoint().now());
  }
  if (qp.flushed != 0) {
    log_message(LogLevel::kInfo, "QP 0x%06x is gone; %u work requests had been flushed", base->qp_num, qp.flushed);
  }
  wait_for_acks(base->mutex, base->cond, base->events_completed, ours(base->context).async.forget(qp));
  pthread_cond_destroy(&base->cond);
  pthread_mutex_destroy(&base->mutex);
  ibv_pd* const pd = base->pd;
  delete &qp;  // gives memory back to the domain
  count_object(pd, -1);
  return 0;
}
