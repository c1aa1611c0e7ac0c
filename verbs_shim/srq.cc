// Shared receive queues.
#include <cerrno>
#include <memory>
#include <new>

#include "dpdk/log.h"
#include "operations.h"
#include "runtime.h"

using namespace uroce;
using namespace uroce::verbs;

namespace {

ibv_srq* create(ibv_pd* pd, void* srq_context, ibv_srq_attr& attr) try {
  if (is_the_parents(pd->context)) {
    refuse_to_child();
    return nullptr;
  }
  if (attr.max_wr == 0 || attr.max_wr > kMaxSrqWr || attr.max_sge > kMaxSge) {
    errno = EINVAL;
    return nullptr;
  }
  auto srq = std::make_unique<Srq>();
  {
    EngineLock lock(endpoint());
    srq->queue = lock->objects().create_srq(from(pd).id, attr.max_wr, attr.max_sge != 0 ? attr.max_sge : 1, srq.get());
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
  srq->handle = next_handle();
  pthread_mutex_init(&srq->mutex, nullptr);
  pthread_cond_init(&srq->cond, nullptr);
  count_object(pd->context, 1);
  return srq.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

UROCE_VERBS_EXPORT ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  return create(pd, attr->srq_context, attr->attr);
}

UROCE_VERBS_EXPORT int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  if (is_the_parents(srq->context)) return refuse_to_child();
  if ((mask & ~(IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR)) != 0) return with_errno(EINVAL);
  if ((mask & IBV_SRQ_MAX_WR) != 0) return with_errno(EOPNOTSUPP);  // IBV_DEVICE_SRQ_RESIZE is not announced
  if ((mask & IBV_SRQ_LIMIT) != 0) {
    EngineLock lock(endpoint());
    SharedReceiveQueue& queue = *from(srq).queue;
    if (attr->srq_limit > queue.max_wr()) return with_errno(EINVAL);
    queue.set_limit(attr->srq_limit);
  }
  return 0;
}

UROCE_VERBS_EXPORT int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  if (is_the_parents(srq->context)) return refuse_to_child();
  EngineLock lock(endpoint());
  const SharedReceiveQueue& queue = *from(srq).queue;
  attr->max_wr = queue.max_wr();
  attr->max_sge = queue.max_sge();
  attr->srq_limit = queue.limit();
  return 0;
}

UROCE_VERBS_EXPORT int ibv_destroy_srq(ibv_srq* base) {
  if (is_the_parents(base->context)) return 0;
  Srq& srq = from(base);
  {
    EngineLock lock(endpoint());
    if (!lock->objects().destroy_srq(srq.queue)) return with_errno(EBUSY);
  }
  wait_for_acks(srq.mutex, srq.cond, srq.events_completed, from(srq.context).async.forget(srq));
  pthread_cond_destroy(&srq.cond);
  pthread_mutex_destroy(&srq.mutex);
  count_object(srq.context, -1);
  delete &srq;
  return 0;
}

namespace uroce::verbs {

ibv_srq* create_srq_extended(ibv_context*, ibv_srq_init_attr_ex* attr) {
  const bool basic = (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || attr->srq_type == IBV_SRQT_BASIC;
  if (!basic || (attr->comp_mask & ~uint32_t{IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD}) != 0) {
    log_message(LogLevel::kWarning, "ibv_create_srq_ex: only basic shared receive queues are supported (EOPNOTSUPP)");
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr->pd == nullptr) {
    errno = EINVAL;
    return nullptr;
  }
  return create(attr->pd, attr->srq_context, attr->attr);
}

}  // namespace uroce::verbs
