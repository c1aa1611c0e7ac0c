// Memory windows.
#include <cerrno>
#include <memory>
#include <new>

#include "operations.h"
#include "runtime.h"

namespace uroce::verbs {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) try {
  if (device_is_the_parents) {
    refuse_to_child();
    return nullptr;
  }
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
    errno = EINVAL;
    return nullptr;
  }
  auto mw = std::make_unique<Mw>();
  uint32_t key;
  {
    EngineLock lock(endpoint());
    key = lock->memory().allocate_window(from(pd).id, type == IBV_MW_TYPE_2);
  }
  if (key == 0) {
    errno = ENOMEM;
    return nullptr;
  }
  mw->context = pd->context;
  mw->pd = pd;
  mw->rkey = mw->current_rkey = key;
  mw->handle = next_handle();
  mw->type = type;
  count_object(pd->context, 1);
  return mw.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

int dealloc_mw(ibv_mw* mw) {
  {
    EngineLock lock(endpoint());
    if (!lock->memory().free_window(from(mw).current_rkey)) {
      // A bind that never ran (its QP failed first) left the window under the key it had before.
      if (!lock->memory().free_window(mw->rkey)) return EINVAL;
    }
  }
  count_object(mw->context, -1);
  delete &from(mw);
  return 0;
}

int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  if (device_is_the_parents) [[unlikely]]
    return refuse_to_child();
  // The inline function in verbs.h has checked the window's type and that window and region share a PD.
  const ibv_mw_bind_info& info = bind->bind_info;
  if ((info.mw_access_flags & IBV_ACCESS_ON_DEMAND) != 0) return EINVAL;
  SendWr wr;
  wr.wr_id = bind->wr_id;
  wr.opcode = WrOpcode::kBindMw;
  wr.flags = static_cast<uint8_t>(bind->send_flags & (kSendFence | kSendSignaled));
  wr.bind.mw_rkey = mw->rkey;
  wr.bind.mr_lkey = info.mr != nullptr ? info.mr->lkey : 0;
  wr.bind.addr = info.addr;
  wr.bind.length = info.length;
  wr.bind.access = info.mw_access_flags;
  EngineLock lock(endpoint());
  const PostResult result = lock->post_send(*from(qp).qp, wr, endpoint().now());
  if (result != PostResult::kOk) return post_error(result);
  mw->rkey = from(mw).current_rkey = ibv_inc_rkey(mw->rkey);  // the engine gives it the next key when the bind runs
  endpoint().flush();
  return 0;
}

}  // namespace uroce::verbs
