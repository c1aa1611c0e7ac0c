// Receive work queues, their tables, and the queue pairs that share frames among them by a hash (RSS).
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

#include "dpdk/log.h"
#include "engine/steering.h"
#include "operations.h"
#include "raw.h"
#include "runtime.h"
#include "transport/qp.h"
#include "transport/qp_init.h"

namespace uroce::verbs {
namespace {

static_assert(int{kRssSrcIpv4} == IBV_RX_HASH_SRC_IPV4 && int{kRssDstIpv4} == IBV_RX_HASH_DST_IPV4 &&
              int{kRssSrcIpv6} == IBV_RX_HASH_SRC_IPV6 && int{kRssDstIpv6} == IBV_RX_HASH_DST_IPV6 &&
              int{kRssSrcPortTcp} == IBV_RX_HASH_SRC_PORT_TCP && int{kRssDstPortTcp} == IBV_RX_HASH_DST_PORT_TCP &&
              int{kRssSrcPortUdp} == IBV_RX_HASH_SRC_PORT_UDP && int{kRssDstPortUdp} == IBV_RX_HASH_DST_PORT_UDP);

std::atomic<uint32_t> tables_in_use{0};

int post_wq_recv(ibv_wq* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  return post_recv(ours(base).events.base(), wr, bad_wr);
}

/// Returns 0 or errno.
int check_wq(const ibv_wq_init_attr& attr) {
  const bool flags = (attr.comp_mask & IBV_WQ_INIT_ATTR_FLAGS) != 0;
  if ((attr.comp_mask & ~uint32_t{IBV_WQ_INIT_ATTR_FLAGS}) != 0 || attr.wq_type != IBV_WQT_RQ) return EINVAL;
  if (flags && attr.create_flags != 0) {
    log_message(LogLevel::kInfo, "ibv_create_wq: flags 0x%x are not supported (EOPNOTSUPP)", attr.create_flags);
    return EOPNOTSUPP;
  }
  if (attr.pd == nullptr || attr.cq == nullptr) return EINVAL;
  if (attr.max_wr == 0 || attr.max_wr > kMaxQpWr || attr.max_sge > kMaxSge) return EINVAL;
  return 0;
}

/// Fills in what events and posts see of the queue.
void describe_events(Wq& wq, const ibv_wq_init_attr& attr) {
  ibv_qp& base = *wq.events.base();
  base.context = attr.pd->context;
  base.pd = attr.pd;
  base.recv_cq = attr.cq;
  base.qp_num = wq.wq_num;
  base.qp_type = IBV_QPT_RAW_PACKET;
  wq.events.qp = wq.qp;
  wq.events.wq = &wq;
}

ibv_wq* create_wq(ibv_context* context, ibv_wq_init_attr* attr) try {
  if (is_the_parents(context)) {
    refuse_to_child();
    return nullptr;
  }
  if (const int error = check_wq(*attr); error != 0) {
    errno = error;
    return nullptr;
  }
  if (is_the_parents(attr->pd->context) || is_the_parents(attr->cq->context)) {
    refuse_to_child();
    return nullptr;
  }
  if (!is_same_file(context, attr->pd->context) || !is_same_file(context, attr->cq->context)) {
    errno = ENOENT;
    return nullptr;
  }
  auto wq = std::make_unique<Wq>();
  QpInit init;
  init.type = QpType::kRawPacket;
  init.pd = ours(attr->pd).id;
  init.recv_cq = ours(attr->cq).queue;
  init.cap = {0, attr->max_wr, 1, std::max(attr->max_sge, 1u), 0};
  {
    EngineLock lock(endpoint());
    wq->qp = lock->create_qp(init, &wq->events);
  }
  if (wq->qp == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  attr->max_sge = init.cap.max_recv_sge;
  wq->context = context;
  wq->wq_context = attr->wq_context;
  wq->pd = attr->pd;
  wq->cq = attr->cq;
  wq->wq_num = wq->qp->qpn();
  wq->handle = next_handle();
  wq->state = IBV_WQS_RESET;
  wq->wq_type = attr->wq_type;
  wq->post_recv = post_wq_recv;
  pthread_mutex_init(&wq->mutex, nullptr);
  pthread_cond_init(&wq->cond, nullptr);
  describe_events(*wq, *attr);
  count_object(wq->pd, 1);
  return wq.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

bool wq_may_go(ibv_wq_state from_state, ibv_wq_state to) {
  if (to == IBV_WQS_RESET) return true;
  if (to == IBV_WQS_ERR) return from_state != IBV_WQS_RESET;
  return from_state != IBV_WQS_ERR;
}

ModifyResult step(Engine& engine, Qp& qp, QpState state) {
  QpAttributes attributes;
  attributes.state = state;
  attributes.port_num = 1;
  const uint32_t mask = kAttrState | (state == QpState::kInit ? uint32_t{kAttrPort} : 0u);
  return engine.modify_qp(qp, attributes, mask, endpoint().now());
}

ibv_wq_state wq_state_of(QpState state) {
  return state == QpState::kReset ? IBV_WQS_RESET : state == QpState::kErr ? IBV_WQS_ERR : IBV_WQS_RDY;
}

int modify_wq(ibv_wq* base, ibv_wq_attr* attr) {
  if (is_the_parents(base->context)) return refuse_to_child();
  constexpr uint32_t kKnown = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE | IBV_WQ_ATTR_FLAGS;
  if ((attr->attr_mask & ~kKnown) != 0) return with_errno(EINVAL);
  if ((attr->attr_mask & IBV_WQ_ATTR_FLAGS) != 0 && attr->flags_mask != 0) return with_errno(EOPNOTSUPP);
  Wq& wq = ours(base);
  EngineLock lock(endpoint());
  wq.state = wq_state_of(wq.qp->state());
  if ((attr->attr_mask & IBV_WQ_ATTR_CURR_STATE) != 0 && attr->curr_wq_state != wq.state) return with_errno(EINVAL);
  if ((attr->attr_mask & IBV_WQ_ATTR_STATE) == 0) return 0;
  if (attr->wq_state > IBV_WQS_ERR || !wq_may_go(wq.state, attr->wq_state)) return with_errno(EINVAL);
  ModifyResult result = ModifyResult::kOk;
  if (attr->wq_state == IBV_WQS_RESET) {
    result = step(lock.engine(), *wq.qp, QpState::kReset);
  } else if (attr->wq_state == IBV_WQS_ERR) {
    result = step(lock.engine(), *wq.qp, QpState::kErr);
  } else if (wq.state == IBV_WQS_RESET) {
    result = step(lock.engine(), *wq.qp, QpState::kInit);
    if (result == ModifyResult::kOk) result = step(lock.engine(), *wq.qp, QpState::kRtr);
  }
  wq.state = wq_state_of(wq.qp->state());
  return result == ModifyResult::kOk ? 0 : with_errno(EINVAL);
}

int destroy_wq(ibv_wq* base) {
  if (is_the_parents(base->context)) return 0;
  Wq& wq = ours(base);
  if (wq.tables != 0) return with_errno(EBUSY);
  {
    EngineLock lock(endpoint());
    lock->destroy_qp(wq.qp, endpoint().now());
  }
  wait_for_acks(wq.mutex, wq.cond, wq.events_completed, ours(wq.context).async.forget(wq));
  pthread_cond_destroy(&wq.cond);
  pthread_mutex_destroy(&wq.mutex);
  count_object(wq.pd, -1);
  delete &wq;
  return 0;
}

ibv_rwq_ind_table* create_rwq_ind_table(ibv_context* context, ibv_rwq_ind_table_init_attr* attr) try {
  if (is_the_parents(context)) {
    refuse_to_child();
    return nullptr;
  }
  const auto fail = [](int error) {
    errno = error;
    return nullptr;
  };
  if (attr->comp_mask != 0 || attr->log_ind_tbl_size > kMaxLogTable || attr->ind_tbl == nullptr) return fail(EINVAL);
  const size_t entries = size_t{1} << attr->log_ind_tbl_size;
  if (std::find(attr->ind_tbl, attr->ind_tbl + entries, nullptr) != attr->ind_tbl + entries) return fail(EINVAL);
  if (std::any_of(attr->ind_tbl, attr->ind_tbl + entries, [](ibv_wq* wq) { return is_the_parents(wq->context); })) {
    refuse_to_child();
    return nullptr;
  }
  const auto of_another = [context](ibv_wq* wq) { return !is_same_file(context, wq->context); };
  if (std::any_of(attr->ind_tbl, attr->ind_tbl + entries, of_another)) return fail(ENOENT);
  if (tables_in_use >= kMaxIndirectionTables) return fail(ENOMEM);
  auto table = std::make_unique<RwqTable>();
  for (size_t i = 0; i < entries; i++) table->queues.push_back(&ours(attr->ind_tbl[i]));
  for (Wq* const wq : table->queues) wq->tables++;
  tables_in_use++;
  table->context = context;
  table->ind_tbl_handle = static_cast<int>(next_handle());
  table->ind_tbl_num = table->ind_tbl_handle;
  count_object(context, 1);
  return table.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

int destroy_rwq_ind_table(ibv_rwq_ind_table* base) {
  if (is_the_parents(base->context)) return 0;
  RwqTable& table = ours(base);
  if (table.qps != 0) return with_errno(EBUSY);
  for (Wq* const wq : table.queues) wq->tables--;
  tables_in_use--;
  count_object(table.context, -1);
  delete &table;
  return 0;
}

/// Returns 0 or errno, with the reason in the log.
int check_rss(const ibv_qp_init_attr_ex& attr) {
  constexpr uint32_t kNeeded = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
  const ibv_rx_hash_conf& hash = attr.rx_hash_conf;
  const char* why = nullptr;
  int error = EINVAL;
  const bool flags = (attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attr.create_flags != 0;
  if (flags) {
    error = EOPNOTSUPP, why = "flags of a queue pair over a table";
  } else if ((attr.comp_mask & ~uint32_t{IBV_QP_INIT_ATTR_CREATE_FLAGS}) != kNeeded || attr.pd == nullptr ||
             attr.rwq_ind_tbl == nullptr) {
    why = "a queue pair over a table takes a PD, the table and the hash, and nothing else";
  } else if (attr.qp_type != IBV_QPT_RAW_PACKET) {
    why = "only queue pairs of raw packets stand over a table";
  } else if (hash.rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ) {
    error = EOPNOTSUPP, why = "the only hash is Toeplitz";
  } else if (hash.rx_hash_key_len != kRssKeyBytes || hash.rx_hash_key == nullptr) {
    why = "the key of the hash has 40 bytes";
  } else if ((hash.rx_hash_fields_mask & ~uint64_t{kRssFields}) != 0) {
    error = EOPNOTSUPP, why = "a field that is not hashed";
  }
  if (why == nullptr) return 0;
  log_message(LogLevel::kInfo, "ibv_create_qp_ex: %s", why);
  return error;
}

}  // namespace

bool asks_for_rss(const ibv_qp_init_attr_ex& attr) {
  return (attr.comp_mask & (IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH)) != 0;
}

ibv_qp* create_rss_qp(const ibv_qp_init_attr_ex& attr) try {
  if (const int error = check_rss(attr); error != 0) {
    errno = error;
    return nullptr;
  }
  if (is_the_parents(attr.pd->context) || is_the_parents(attr.rwq_ind_tbl->context)) {
    refuse_to_child();
    return nullptr;
  }
  if (!is_same_file(attr.pd->context, attr.rwq_ind_tbl->context)) {
    errno = ENOENT;
    return nullptr;
  }
  auto qp = std::make_unique<QueuePair>();
  qp->rss = std::make_shared<RssQueues>();
  RssGroup& group = qp->rss->group;
  RwqTable& table = ours(attr.rwq_ind_tbl);
  for (const Wq* const wq : table.queues) group.table.push_back(wq->qp);
  std::memcpy(group.key.data(), attr.rx_hash_conf.rx_hash_key, group.key.size());
  group.fields = static_cast<uint32_t>(attr.rx_hash_conf.rx_hash_fields_mask);
  QpInit init;
  init.type = QpType::kRawPacket;
  init.pd = ours(attr.pd).id;
  init.cap = {};
  {
    EngineLock lock(endpoint());
    lock->steering().add_group(group);
    try {
      qp->qp = lock->create_qp(init, qp.get());
    } catch (const std::bad_alloc&) {
      lock->steering().remove_group(group);
      throw;
    }
    if (qp->qp == nullptr) lock->steering().remove_group(group);
  }
  if (qp->qp == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  qp->rss->table = &table;
  table.qps++;
  ibv_qp& base = *qp->base();
  base.context = attr.pd->context;
  base.qp_context = attr.qp_context;
  base.pd = attr.pd;
  identify(*qp, base, next_handle());
  base.qp_num = qp->qp->qpn();
  base.state = IBV_QPS_RESET;
  base.qp_type = attr.qp_type;
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
  count_object(base.pd, 1);
  return qp.release()->base();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

void forget_rss(QueuePair& qp) {
  EngineLock lock(endpoint());
  lock->steering().remove_group(qp.rss->group);
  qp.rss->table->qps--;
}

void fill_wq_operations(Context& context) {
  verbs_context& v = context.verbs;
  v.create_wq = create_wq;
  v.modify_wq = modify_wq;
  v.destroy_wq = destroy_wq;
  v.create_rwq_ind_table = create_rwq_ind_table;
  v.destroy_rwq_ind_table = destroy_rwq_ind_table;
}

}  // namespace uroce::verbs
