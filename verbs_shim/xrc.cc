// XRC target queue pairs, and the numbers of shared receive queues.
#include "xrc.h"

#include <algorithm>
#include <cerrno>
#include <new>

#include "dpdk/log.h"
#include "engine/queue_pairs.h"
#include "operations.h"
#include "transport/qp.h"
#include "transport/qp_init.h"
#include "transport/receive_queue.h"

namespace uroce::verbs {

namespace {

/// Makes a handle, which still has to be attached to its target.
std::unique_ptr<QueuePair> make_handle(Xrcd& xrcd, void* qp_context) {
  auto handle = std::make_unique<QueuePair>();
  ibv_qp& base = *handle->base();
  base.context = xrcd.context;
  base.qp_context = qp_context;
  identify(*handle, base, next_handle());
  base.qp_type = IBV_QPT_XRC_RECV;
  handle->xrcd = &xrcd;
  return handle;
}

/// To be called under an EngineLock.
void attach(QueuePair& handle, std::shared_ptr<XrcTarget> target) {
  target->handles.push_back(&handle);
  handle.qp = target->qp;
  handle.base()->qp_num = target->qp->qpn();
  handle.base()->state = static_cast<ibv_qp_state>(target->qp->state());
  handle.target = std::move(target);
}

ibv_qp* give_out(std::unique_ptr<QueuePair> handle) {
  pthread_mutex_init(&handle->base()->mutex, nullptr);
  pthread_cond_init(&handle->base()->cond, nullptr);
  handle->xrcd->users++;
  count_object(handle->base()->context, 1);
  return handle.release()->base();
}

ibv_qp* no_target(int error) {
  errno = error;
  return nullptr;
}

}  // namespace

int get_srq_num(ibv_srq* base, uint32_t* number) {
  if (is_the_parents(base->context)) return refuse_to_child();
  EngineLock lock(endpoint());
  const XrcAttachment& xrc = ours(base).queue->xrc();
  if (xrc.domain == 0) return with_errno(EINVAL);  // peers name only those of XRC
  *number = xrc.number;
  return 0;
}

ibv_qp* create_xrc_target(const ibv_qp_init_attr_ex& attr) try {
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0 || attr.xrcd == nullptr) return no_target(EINVAL);
  Xrcd& xrcd = ours(attr.xrcd);
  if (is_the_parents(xrcd.context)) return no_target(refuse_to_child());
  std::unique_ptr<QueuePair> handle = make_handle(xrcd, attr.qp_context);
  // A target needs no protection domain. One that is named is in the structure, where librdmacm finds it again.
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_PD) != 0) handle->base()->pd = attr.pd;
  auto target = std::make_shared<XrcTarget>();
  target->handles.reserve(1);
  QpInit init;
  init.type = QpType::kXrcRecv;
  init.xrcd = xrcd.id;
  EngineLock lock(endpoint());
  target->qp = lock->create_qp(init, target.get());
  if (target->qp == nullptr) return no_target(ENOMEM);
  attach(*handle, std::move(target));
  return give_out(std::move(handle));
} catch (const std::bad_alloc&) {
  return no_target(ENOMEM);
}

ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr) try {
  if (is_the_parents(context)) return no_target(refuse_to_child());
  constexpr uint32_t kNeeded = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  if ((attr->comp_mask & ~(kNeeded | IBV_QP_OPEN_ATTR_CONTEXT)) != 0) return no_target(EOPNOTSUPP);
  const bool complete = (attr->comp_mask & kNeeded) == kNeeded && attr->xrcd != nullptr;
  if (!complete || attr->qp_type != IBV_QPT_XRC_RECV) return no_target(EINVAL);
  if (is_the_parents(attr->xrcd->context)) return no_target(refuse_to_child());
  if (!is_same_file(context, attr->xrcd->context)) return no_target(ENOENT);
  Xrcd& xrcd = ours(attr->xrcd);
  const bool has_context = (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0;
  std::unique_ptr<QueuePair> handle = make_handle(xrcd, has_context ? attr->qp_context : nullptr);
  EngineLock lock(endpoint());
  const Qp* const qp = lock->qps().table().find(attr->qp_num);
  if (qp == nullptr && lock->qps().table().another_has(attr->qp_num)) {
    log_message(LogLevel::kWarning,
                "ibv_open_qp: QP 0x%06x is another process's; a queue pair that processes share is not supported",
                attr->qp_num);
    return no_target(EOPNOTSUPP);
  }
  if (qp == nullptr || qp->type() != QpType::kXrcRecv || qp->init().xrcd != xrcd.id) return no_target(EINVAL);
  attach(*handle, static_cast<XrcTarget*>(qp->user())->handles.front()->target);
  return give_out(std::move(handle));
} catch (const std::bad_alloc&) {
  return no_target(ENOMEM);
}

int destroy_xrc_target(QueuePair& handle) {
  ibv_qp& base = *handle.base();
  std::vector<QueuePair*>& handles = handle.target->handles;
  bool last;
  {
    EngineLock lock(endpoint());
    last = handles.size() == 1;
  }
  if (last) send_last_words(*handle.qp);
  {
    EngineLock lock(endpoint());
    std::erase(handles, &handle);
    if (handles.empty()) lock->destroy_qp(handle.qp, endpoint().now());
  }
  wait_for_acks(base.mutex, base.cond, base.events_completed, ours(base.context).async.forget(handle));
  pthread_cond_destroy(&base.cond);
  pthread_mutex_destroy(&base.mutex);
  handle.xrcd->users--;
  count_object(base.context, -1);
  delete &handle;
  return 0;
}

}  // namespace uroce::verbs
