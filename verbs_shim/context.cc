// The tables of operations in a context.
#include <cerrno>
#include <cstring>

#include "dpdk/log.h"
#include "operations.h"
#include "raw.h"
#include "runtime.h"
#include "tag_matching.h"
#include "xrc.h"

namespace uroce::verbs {

namespace {

// verbs_context::priv belongs to the real libibverbs, whose functions expect tables of their own there. None of them
// should ever get our context. If one does after all, each pointer that it finds leads to this function.
void* strayed() {
  log_message(LogLevel::kError, "a function of the real libibverbs was called with a uroce object; nothing was done");
  errno = EOPNOTSUPP;
  return nullptr;
}

verbs_ex_private* seat_belt() {
  using Function = void* (*)();
  static Function* const table = [] {
    constexpr size_t kEntries = 512;
    auto* t = new Function[kEntries];
    for (size_t i = 0; i < kEntries; i++) t[i] = strayed;
    return t;
  }();
  return reinterpret_cast<verbs_ex_private*>(table);
}

}  // namespace

void fill_operations(Context& context) {
  fill_refusals(context);

  verbs_context& v = context.verbs;
  v.sz = kVerbsContextBytesV64;
  v.priv = seat_belt();
  v.query_port = query_port_extended;
  v.query_device_ex = query_device_extended;
  v.query_rt_values = query_rt_values;
  v.advise_mr = advise_mr;
  v.alloc_null_mr = alloc_null_mr;
  v.alloc_dm = alloc_dm;
  v.free_dm = free_dm;
  v.reg_dm_mr = reg_dm_mr;
  v.alloc_td = alloc_td;
  v.dealloc_td = dealloc_td;
  v.alloc_parent_domain = alloc_parent_domain;
  v.modify_cq = modify_cq;
  v.modify_qp_rate_limit = modify_qp_rate_limit;
  v.create_cq_ex = create_cq_extended;
  v.create_qp_ex = create_qp_extended;
  v.create_srq_ex = create_srq_extended;
  v.post_srq_ops = post_srq_ops;
  v.open_xrcd = open_xrcd;
  v.close_xrcd = close_xrcd;
  v.get_srq_num = get_srq_num;
  v.open_qp = open_qp;
  fill_raw_operations(context);

  ibv_context_ops& ops = v.context.ops;
  ops._compat_query_device = ibv_query_device;
  ops._compat_query_port = ibv_query_port;
  ops.alloc_mw = alloc_mw;
  ops.bind_mw = bind_mw;
  ops.dealloc_mw = dealloc_mw;
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
  ops.post_srq_recv = post_srq_recv;
  ops.post_send = post_send;
  ops.post_recv = post_recv;
}

int query_rt_values(ibv_context*, ibv_values_ex* values) {
  if ((values->comp_mask & ~uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0) return with_errno(EOPNOTSUPP);
  if ((values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) != 0) {
    // The clock of completion timestamps, which ticks once a nanosecond.
    values->raw_clock.tv_sec = 0;
    values->raw_clock.tv_nsec = endpoint().now().ns;
  }
  return 0;
}

}  // namespace uroce::verbs
