// Memory windows.
#include <cerrno>
#include <memory>
#include <new>

#include "operations.h"
#include "runtime.h"
#include "transport/memory_table.h"

namespace uroce::verbs {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) try {
  if (is_the_parents(pd->context)) {
    refuse_to_child();
    return nullptr;
  }
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
    errno = EINVAL;
    return nullptr;
  }
  if (!is_found(*pd)) {
    errno = ENOENT;
    return nullptr;
  }
  auto mw = std::make_unique<Mw>();
  {
    EngineLock lock(endpoint());
    mw->id = lock->memory().allocate_window(ours(pd).id, type == IBV_MW_TYPE_2, mw.get());
  }
  if (mw->id == 0) {
    errno = ENOMEM;
    return nullptr;
  }
  mw->context = pd->context;
  mw->pd = pd;
  mw->rkey = mw->id;
  identify(*mw, *mw, next_handle());
  mw->type = type;
  count_object(pd, 1);
  return mw.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

int dealloc_mw(ibv_mw* mw) {
  if (is_the_parents(mw->context)) return 0;
  if (!is_found(*mw)) return with_errno(ENOENT);
  {
    EngineLock lock(endpoint());
    lock->memory().free_window(ours(mw).id);
  }
  count_object(mw->pd, -1);
  delete &ours(mw);
  return 0;
}

uint32_t key_after_bind(const Mw& mw, uint32_t wanted) { return (mw.id & ~0xffu) | (wanted & 0xffu); }

int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  if (is_the_parents(qp->context) || is_the_parents(mw->context)) [[unlikely]]
    return refuse_to_child();
  // The inline function in verbs.h has checked the window's type and that window and region share a PD.
  const ibv_mw_bind_info& info = bind->bind_info;
  if ((info.mw_access_flags & IBV_ACCESS_ON_DEMAND) != 0) return with_errno(EINVAL);
  const uint32_t old_rkey = mw->rkey;
  SendWr wr;
  wr.wr_id = bind->wr_id;
  wr.opcode = WrOpcode::kBindMw;
  wr.flags = static_cast<uint8_t>(bind->send_flags & (kSendFence | kSendSignaled));
  wr.bind.mw_rkey = ours(mw).id;
  wr.bind.new_rkey = ibv_inc_rkey(old_rkey);
  wr.bind.mr_lkey = info.mr != nullptr ? info.mr->lkey : 0;
  wr.bind.addr = info.addr;
  wr.bind.length = info.length;
  wr.bind.access = info.mw_access_flags;
  EngineLock lock(endpoint());
  mw->rkey = wr.bind.new_rkey;  // set before the post: a queue pair in error flushes the bind at once
  const PostResult result = lock->post_send(*ours(qp).qp, wr, endpoint().now());
  if (result != PostResult::kOk) {
    mw->rkey = old_rkey;
    return with_errno(post_error(result));
  }
  endpoint().transmit();
  return 0;
}

}  // namespace uroce::verbs
