// Completion queues: create, poll, arm, resize, destroy.
#include <cerrno>
#include <memory>
#include <new>

#include "dpdk/log.h"
#include "engine/object_tables.h"
#include "operations.h"
#include "runtime.h"
#include "transport/completion_queue.h"

using namespace uroce;
using namespace uroce::verbs;

static_assert(static_cast<int>(WcStatus::kSuccess) == IBV_WC_SUCCESS);
static_assert(static_cast<int>(WcStatus::kLocLenErr) == IBV_WC_LOC_LEN_ERR);
static_assert(static_cast<int>(WcStatus::kLocQpOpErr) == IBV_WC_LOC_QP_OP_ERR);
static_assert(static_cast<int>(WcStatus::kLocEecOpErr) == IBV_WC_LOC_EEC_OP_ERR);
static_assert(static_cast<int>(WcStatus::kLocProtErr) == IBV_WC_LOC_PROT_ERR);
static_assert(static_cast<int>(WcStatus::kWrFlushErr) == IBV_WC_WR_FLUSH_ERR);
static_assert(static_cast<int>(WcStatus::kMwBindErr) == IBV_WC_MW_BIND_ERR);
static_assert(static_cast<int>(WcStatus::kBadRespErr) == IBV_WC_BAD_RESP_ERR);
static_assert(static_cast<int>(WcStatus::kLocAccessErr) == IBV_WC_LOC_ACCESS_ERR);
static_assert(static_cast<int>(WcStatus::kRemInvReqErr) == IBV_WC_REM_INV_REQ_ERR);
static_assert(static_cast<int>(WcStatus::kRemAccessErr) == IBV_WC_REM_ACCESS_ERR);
static_assert(static_cast<int>(WcStatus::kRemOpErr) == IBV_WC_REM_OP_ERR);
static_assert(static_cast<int>(WcStatus::kRetryExcErr) == IBV_WC_RETRY_EXC_ERR);
static_assert(static_cast<int>(WcStatus::kRnrRetryExcErr) == IBV_WC_RNR_RETRY_EXC_ERR);
static_assert(static_cast<int>(WcStatus::kLocRddViolErr) == IBV_WC_LOC_RDD_VIOL_ERR);
static_assert(static_cast<int>(WcStatus::kRemInvRdReqErr) == IBV_WC_REM_INV_RD_REQ_ERR);
static_assert(static_cast<int>(WcStatus::kRemAbortErr) == IBV_WC_REM_ABORT_ERR);
static_assert(static_cast<int>(WcStatus::kInvEecnErr) == IBV_WC_INV_EECN_ERR);
static_assert(static_cast<int>(WcStatus::kInvEecStateErr) == IBV_WC_INV_EEC_STATE_ERR);
static_assert(static_cast<int>(WcStatus::kFatalErr) == IBV_WC_FATAL_ERR);
static_assert(static_cast<int>(WcStatus::kRespTimeoutErr) == IBV_WC_RESP_TIMEOUT_ERR);
static_assert(static_cast<int>(WcStatus::kGeneralErr) == IBV_WC_GENERAL_ERR);
static_assert(static_cast<int>(WcOpcode::kSend) == IBV_WC_SEND);
static_assert(static_cast<int>(WcOpcode::kRdmaWrite) == IBV_WC_RDMA_WRITE);
static_assert(static_cast<int>(WcOpcode::kRdmaRead) == IBV_WC_RDMA_READ);
static_assert(static_cast<int>(WcOpcode::kCompSwap) == IBV_WC_COMP_SWAP);
static_assert(static_cast<int>(WcOpcode::kFetchAdd) == IBV_WC_FETCH_ADD);
static_assert(static_cast<int>(WcOpcode::kBindMw) == IBV_WC_BIND_MW);
static_assert(static_cast<int>(WcOpcode::kLocalInv) == IBV_WC_LOCAL_INV);
static_assert(static_cast<int>(WcOpcode::kRecv) == IBV_WC_RECV);
static_assert(static_cast<int>(WcOpcode::kRecvRdmaWithImm) == IBV_WC_RECV_RDMA_WITH_IMM);
static_assert(int{kWcGrh} == IBV_WC_GRH && int{kWcWithImm} == IBV_WC_WITH_IMM && int{kWcWithInv} == IBV_WC_WITH_INV);

namespace {

void to_wc(const Completion& from, ibv_wc& to) {
  to.wr_id = from.wr_id;
  to.status = static_cast<ibv_wc_status>(from.status);
  to.opcode = static_cast<ibv_wc_opcode>(from.opcode);
  to.vendor_err = static_cast<uint32_t>(from.cause);
  to.byte_len = from.byte_len;
  to.imm_data = from.imm_or_rkey;
  to.qp_num = from.qp_num;
  to.src_qp = from.src_qp;
  to.wc_flags = from.flags;
  to.pkey_index = from.pkey_index;
  to.slid = 0;
  to.sl = from.sl;
  to.dlid_path_bits = 0;
}

Cq* create(ibv_context* context, uint32_t cqe, void* cq_context, ibv_comp_channel* channel, uint32_t comp_vector) try {
  if (is_the_parents(context) || (channel != nullptr && is_the_parents(channel->context))) {
    refuse_to_child();
    return nullptr;
  }
  if (cqe == 0 || cqe > kMaxCqe || comp_vector >= static_cast<uint32_t>(context->num_comp_vectors)) {
    errno = EINVAL;
    return nullptr;
  }
  if (channel != nullptr && !is_same_file(context, channel->context)) {
    errno = EBADF;  // of a channel, a kernel gets the descriptor
    return nullptr;
  }
  auto cq = std::make_unique<Cq>();
  {
    EngineLock lock(endpoint());
    cq->queue = lock->objects().create_cq(cqe, cq.get());
  }
  if (cq->queue == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = cq_context;
  identify(*cq, *cq->base(), next_handle());
  cq->cqe = static_cast<int>(cqe);
  pthread_mutex_init(&cq->mutex, nullptr);
  pthread_cond_init(&cq->cond, nullptr);
  if (channel != nullptr) {
    const std::lock_guard guard(ours(channel).mutex);
    channel->refcnt++;
  }
  count_object(context, 1);
  return cq.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

namespace uroce::verbs {

bool turn_for_poller(Cq& cq) {
  const uint32_t events_before = cq.events_raised;
  endpoint().drive();
  cq.taken_since_turn = 0;
  return cq.queue->size() != 0 && cq.events_raised == events_before;
}

void found_empty(Cq& cq) {
  if (!cq.wait_expected) return;
  cq.wait_expected = false;
  endpoint().wake_thread();
}

int poll_cq(ibv_cq* base, int entries, ibv_wc* wc) {
  if (is_the_parents(base->context)) [[unlikely]]
    return -refuse_to_child();
  if (entries <= 0) return 0;
  Cq& cq = ours(base);
  const auto fill = [&wc](const Completion& completion) { to_wc(completion, *wc++); };
  BriefEngineLock lock(endpoint());
  uint32_t taken = cq.queue->drain(static_cast<uint32_t>(entries), fill);
  cq.taken_since_turn += taken;
  if (taken == 0) {
    if (turn_for_poller(cq)) taken = cq.queue->drain(static_cast<uint32_t>(entries), fill);
    if (taken == 0) found_empty(cq);
  } else if (cq.taken_since_turn >= kTakenPerTurn) {
    turn_for_poller(cq);
  }
  return static_cast<int>(taken);
}

int req_notify_cq(ibv_cq* base, int solicited_only) {
  if (is_the_parents(base->context)) [[unlikely]]
    return refuse_to_child();
  if (!is_found(*base)) [[unlikely]]
    return with_errno(ENOENT);
  Cq& cq = ours(base);
  BriefEngineLock lock(endpoint());
  cq.wait_expected = cq.channel != nullptr;
  cq.queue->arm(solicited_only != 0 ? CompletionQueue::Wake::kSolicited : CompletionQueue::Wake::kAny);
  // A program that armed the queue and now finds it empty is about to sleep in poll() or the like. (When it sleeps in
  // ibv_get_cq_event, that function takes care of it.)
  if (cq.wait_expected && cq.queue->size() == 0 && !ours(cq.channel).event_fd.blocking()) found_empty(cq);
  // Moderation holds the event back: the engine has to be driven for it to be raised in time.
  if (cq.wait_expected && cq.queue->next_event() != Instant::never()) {
    cq.wait_expected = false;
    endpoint().wake_thread();
  }
  return 0;
}

int modify_cq(ibv_cq* base, ibv_modify_cq_attr* attr) try {
  if (is_the_parents(base->context)) return refuse_to_child();
  if (attr->attr_mask == 0) return with_errno(EINVAL);
  if (attr->attr_mask != IBV_CQ_ATTR_MODERATE) return with_errno(EOPNOTSUPP);
  const ibv_moderate_cq& wish = attr->moderate;
  EngineLock lock(endpoint());
  lock->objects().moderate(*ours(base).queue, wish.cq_count, microseconds(wish.cq_period));
  return 0;
} catch (const std::bad_alloc&) {
  return with_errno(ENOMEM);
}

ibv_cq_ex* create_cq_extended(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  constexpr uint64_t kOffered = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | IBV_WC_EX_WITH_TM_INFO |
                                IBV_WC_EX_WITH_FLOW_TAG;
  constexpr uint32_t kFlags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  const uint32_t flags = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attr->flags : 0;
  if ((attr->wc_flags & ~kOffered) != 0 || (flags & ~kFlags) != 0 ||
      (attr->comp_mask & ~uint32_t{IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD}) != 0) {
    log_message(LogLevel::kInfo, "ibv_create_cq_ex: wc_flags 0x%llx, flags 0x%x, comp_mask 0x%x: not all supported",
                static_cast<unsigned long long>(attr->wc_flags), flags, attr->comp_mask);
    errno = EOPNOTSUPP;
    return nullptr;
  }
  Pd* domain = nullptr;
  if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0) {
    if (attr->parent_domain == nullptr || !ours(attr->parent_domain).is_parent) {
      errno = EINVAL;
      return nullptr;
    }
    domain = &ours(attr->parent_domain);
    if (!is_same_file(context, domain->context)) {
      errno = ENOENT;
      return nullptr;
    }
  }
  Cq* cq = create(context, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector);
  if (cq == nullptr) return nullptr;
  cq->single_threaded = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
  if (domain != nullptr) {
    domain->users++;
    cq->parent_domain = domain;
    cq->single_threaded |= domain->thread_domain != nullptr;
  }
  fill_cq_readers(*cq);
  return cq;
}

}  // namespace uroce::verbs

UROCE_VERBS_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                                         int comp_vector) {
  if (cqe < 0 || comp_vector < 0) {
    errno = EINVAL;
    return nullptr;
  }
  Cq* cq = create(context, static_cast<uint32_t>(cqe), cq_context, channel, static_cast<uint32_t>(comp_vector));
  return cq != nullptr ? cq->base() : nullptr;
}

UROCE_VERBS_EXPORT int ibv_resize_cq(ibv_cq* cq, int cqe) try {
  if (is_the_parents(cq->context)) [[unlikely]]
    return refuse_to_child();
  if (cqe <= 0 || static_cast<uint32_t>(cqe) > kMaxCqe) return with_errno(EINVAL);
  if (!is_found(*cq)) return with_errno(ENOENT);
  EngineLock lock(endpoint());
  if (!ours(cq).queue->resize(static_cast<uint32_t>(cqe))) return with_errno(EINVAL);
  cq->cqe = cqe;
  return 0;
} catch (const std::bad_alloc&) {
  return with_errno(ENOMEM);
}

UROCE_VERBS_EXPORT int ibv_destroy_cq(ibv_cq* base) {
  if (is_the_parents(base->context)) return 0;
  if (!is_found(*base)) return with_errno(ENOENT);
  Cq& cq = ours(base);
  {
    EngineLock lock(endpoint());
    if (!lock->objects().destroy_cq(cq.queue)) return with_errno(EBUSY);
    cq.queue = nullptr;  // a thread that has just taken one of its events looks at this
  }
  if (cq.channel != nullptr) {
    Channel& channel = ours(cq.channel);
    channel.forget(cq);
    wait_for_acks(cq.mutex, cq.cond, cq.comp_events_completed, cq.events_taken);
    const std::lock_guard guard(channel.mutex);
    channel.refcnt--;
  }
  wait_for_acks(cq.mutex, cq.cond, cq.async_events_completed, ours(cq.context).async.forget(cq));
  pthread_cond_destroy(&cq.cond);
  pthread_mutex_destroy(&cq.mutex);
  if (cq.parent_domain != nullptr) cq.parent_domain->users--;
  count_object(cq.context, -1);
  delete &cq;
  return 0;
}
