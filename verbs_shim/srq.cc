// Shared receive queues.
#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "dpdk/log.h"
#include "engine/object_tables.h"
#include "operations.h"
#include "runtime.h"
#include "tag_matching.h"
#include "transport/receive_queue.h"
#include "xrc.h"

using namespace uroce;
using namespace uroce::verbs;

namespace {

/// What an XRC or tag-matching queue has beyond others: a completion queue, and a domain or the sizes of its lists.
struct SrqKind {
  Cq* cq = nullptr;
  Xrcd* xrcd = nullptr;
  const ibv_tm_cap* tags = nullptr;
};

/// Makes the queue one of this kind; to be called with the engine's lock. False when there is no room.
bool become(ObjectTables& objects, SharedReceiveQueue& queue, const SrqKind& kind) {
  if (kind.cq == nullptr) return true;
  if (kind.xrcd != nullptr) return objects.attach_xrc(queue, kind.xrcd->id, *kind.cq->queue);
  return objects.attach_tags(queue, *kind.cq->queue, kind.tags->max_num_tags, kind.tags->max_ops);
}

ibv_srq* create(ibv_pd* pd, void* srq_context, ibv_srq_attr& attr, const SrqKind& kind = {}) try {
  if (pd == nullptr) {  // ibv_create_srq_ex, an inline function, passes on what the program left out
    errno = EINVAL;
    return nullptr;
  }
  if (is_the_parents(pd->context)) {
    refuse_to_child();
    return nullptr;
  }
  if (attr.max_wr == 0 || attr.max_wr > kMaxSrqWr || attr.max_sge > kMaxSge) {
    errno = EINVAL;
    return nullptr;
  }
  const bool same_file = (kind.cq == nullptr || is_same_file(pd->context, kind.cq->context)) &&
                         (kind.xrcd == nullptr || is_same_file(pd->context, kind.xrcd->context));
  if (!is_found(*pd) || !same_file) {
    errno = ENOENT;
    return nullptr;
  }
  auto srq = std::make_unique<Srq>();
  const uint32_t max_sge = attr.max_sge != 0 ? attr.max_sge : 1;
  if (!srq->memory.take(ours(pd), ReceiveQueue::bytes_for(attr.max_wr, max_sge), DomainMemory::kSharedReceiveQueue)) {
    errno = ENOMEM;
    return nullptr;
  }
  {
    EngineLock lock(endpoint());
    srq->queue = lock->objects().create_srq(ours(pd).id, attr.max_wr, max_sge, srq.get(), srq->memory.get());
    if (srq->queue != nullptr && !become(lock->objects(), *srq->queue, kind)) {
      lock->destroy_srq(std::exchange(srq->queue, nullptr));
    }
    if (srq->queue != nullptr) {
      attr.max_wr = srq->queue->max_wr();
      attr.max_sge = srq->queue->max_sge();
    }
  }
  if (srq->queue == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  srq->context = pd->context;
  srq->srq_context = srq_context;
  srq->pd = pd;
  identify(*srq, *srq, next_handle());
  pthread_mutex_init(&srq->mutex, nullptr);
  pthread_cond_init(&srq->cond, nullptr);
  srq->xrcd = kind.xrcd;
  if (kind.xrcd != nullptr) kind.xrcd->users++;
  count_object(pd, 1);
  return srq.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

UROCE_VERBS_EXPORT ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  return create(pd, attr->srq_context, attr->attr);
}

UROCE_VERBS_EXPORT int ibv_modify_srq(ibv_srq* base, ibv_srq_attr* attr, int mask) try {
  if (is_the_parents(base->context)) return refuse_to_child();
  if (!is_found(*base)) return with_errno(ENOENT);
  if ((mask & ~(IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR)) != 0) return with_errno(EINVAL);
  const bool resizes = (mask & IBV_SRQ_MAX_WR) != 0;
  if (resizes && (attr->max_wr == 0 || attr->max_wr > kMaxSrqWr)) return with_errno(EINVAL);
  Srq& srq = ours(base);
  DomainMemory memory;  // after a resize it owns the old memory, and frees it
  if (resizes) {
    const size_t bytes = ReceiveQueue::bytes_for(attr->max_wr, srq.queue->max_sge());
    if (!memory.take(ours(base->pd), bytes, DomainMemory::kSharedReceiveQueue)) return with_errno(ENOMEM);
  }
  EngineLock lock(endpoint());
  SharedReceiveQueue& queue = *srq.queue;
  const uint32_t max_wr = resizes ? attr->max_wr : queue.max_wr();
  const uint32_t limit = (mask & IBV_SRQ_LIMIT) != 0 ? attr->srq_limit : queue.limit();
  if (limit > max_wr) return with_errno(EINVAL);
  if (resizes) {
    if (!queue.resize(max_wr, memory.get())) return with_errno(EINVAL);  // it holds more than that
    srq.memory.swap(memory);
  }
  queue.set_limit(limit);
  return 0;
} catch (const std::bad_alloc&) {
  return with_errno(ENOMEM);
}

UROCE_VERBS_EXPORT int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  if (is_the_parents(srq->context)) return refuse_to_child();
  if (!is_found(*srq)) return with_errno(ENOENT);
  EngineLock lock(endpoint());
  const SharedReceiveQueue& queue = *ours(srq).queue;
  attr->max_wr = queue.max_wr();
  attr->max_sge = queue.max_sge();
  attr->srq_limit = queue.limit();
  return 0;
}

UROCE_VERBS_EXPORT int ibv_destroy_srq(ibv_srq* base) {
  if (is_the_parents(base->context)) return 0;
  if (!is_found(*base)) return with_errno(ENOENT);
  Srq& srq = ours(base);
  {
    EngineLock lock(endpoint());
    if (!lock->destroy_srq(srq.queue)) return with_errno(EBUSY);
  }
  wait_for_acks(srq.mutex, srq.cond, srq.events_completed, ours(srq.context).async.forget(srq));
  pthread_cond_destroy(&srq.cond);
  pthread_mutex_destroy(&srq.mutex);
  if (srq.xrcd != nullptr) srq.xrcd->users--;
  ibv_pd* const pd = srq.pd;
  delete &srq;  // gives memory back to the domain
  count_object(pd, -1);
  return 0;
}

namespace uroce::verbs {

ibv_srq* create_srq_extended(ibv_context*, ibv_srq_init_attr_ex* attr) {
  const ibv_srq_type type = (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 ? attr->srq_type : IBV_SRQT_BASIC;
  const bool xrc = type == IBV_SRQT_XRC;
  constexpr uint32_t kXrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  const bool tags = type == IBV_SRQT_TM;
  constexpr uint32_t kTags = IBV_SRQ_INIT_ATTR_TM | IBV_SRQ_INIT_ATTR_CQ;
  const uint32_t known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | (xrc ? kXrc : tags ? kTags : 0u);
  if ((type != IBV_SRQT_BASIC && !xrc && !tags) || (attr->comp_mask & ~known) != 0) {
    log_message(
        LogLevel::kWarning,
        "ibv_create_srq_ex, type %d: comp_mask 0x%x: not all supported (EOPNOTSUPP); basic shared receive queues, "
        "those of XRC and those that match tags are",
        static_cast<int>(type), attr->comp_mask);
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr->pd == nullptr) {
    errno = EINVAL;
    return nullptr;
  }
  if (tags) {
    if (const int error = check_tag_attributes(*attr); error != 0) {
      errno = error;
      return nullptr;
    }
    return create(attr->pd, attr->srq_context, attr->attr, {.cq = &ours(attr->cq), .tags = &attr->tm_cap});
  }
  if (!xrc) return create(attr->pd, attr->srq_context, attr->attr);
  if ((attr->comp_mask & kXrc) != kXrc || attr->xrcd == nullptr || attr->cq == nullptr) {
    errno = EINVAL;
    return nullptr;
  }
  if (is_the_parents(attr->xrcd->context) || is_the_parents(attr->cq->context)) {
    refuse_to_child();
    return nullptr;
  }
  return create(attr->pd, attr->srq_context, attr->attr, {.cq = &ours(attr->cq), .xrcd = &ours(attr->xrcd)});
}

}  // namespace uroce::verbs
