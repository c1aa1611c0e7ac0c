// Everything that is not supported: all remaining entry points, as symbols or in tables.
#include "later_abi.h"
#include "operations.h"
#include "refusal.h"

using namespace uroce::verbs;

// Hints for a PCIe bus, and memory that devices pass to each other: there is no such bus, and no such memory.
UROCE_VERBS_EXPORT ibv_dmah* ibv_alloc_dmah(ibv_context*, ibv_dmah_init_attr*) {
  return refuse<ibv_dmah*, "ibv_alloc_dmah">();
}
UROCE_VERBS_EXPORT int ibv_dealloc_dmah(ibv_dmah*) { return refuse<int, "ibv_dealloc_dmah">(); }
UROCE_VERBS_EXPORT int ibv_dm_export_dmabuf_fd(ibv_dm*) {
  refuse<void, "ibv_dm_export_dmabuf_fd">();
  return -1;  // it would return a descriptor
}

// Drivers must register with the real library.
UROCE_VERBS_EXPORT void ibv_register_driver(const char*, void*) { refuse<void, "ibv_register_driver">(); }

namespace uroce::verbs {

#define UROCE_REFUSE(table, member, name) (table).member = Refusal<decltype((table).member)>::call<name>

void fill_refusals(Context& context) {
  verbs_context& v = context.verbs;
  UROCE_REFUSE(v, modify_flow_action_esp, "ibv_modify_flow_action_esp");
  UROCE_REFUSE(v, destroy_flow_action, "ibv_destroy_flow_action");
  UROCE_REFUSE(v, create_flow_action_esp, "ibv_create_flow_action_esp");

  ibv_context_ops& ops = v.context.ops;
  UROCE_REFUSE(ops, _compat_alloc_pd, "ibv_context_ops.alloc_pd");
  UROCE_REFUSE(ops, _compat_dealloc_pd, "ibv_context_ops.dealloc_pd");
  UROCE_REFUSE(ops, _compat_reg_mr, "ibv_context_ops.reg_mr");
  UROCE_REFUSE(ops, _compat_rereg_mr, "ibv_context_ops.rereg_mr");
  UROCE_REFUSE(ops, _compat_dereg_mr, "ibv_context_ops.dereg_mr");
  UROCE_REFUSE(ops, _compat_create_cq, "ibv_context_ops.create_cq");
  UROCE_REFUSE(ops, _compat_cq_event, "ibv_context_ops.cq_event");
  UROCE_REFUSE(ops, _compat_resize_cq, "ibv_context_ops.resize_cq");
  UROCE_REFUSE(ops, _compat_destroy_cq, "ibv_context_ops.destroy_cq");
  UROCE_REFUSE(ops, _compat_create_srq, "ibv_context_ops.create_srq");
  UROCE_REFUSE(ops, _compat_modify_srq, "ibv_context_ops.modify_srq");
  UROCE_REFUSE(ops, _compat_query_srq, "ibv_context_ops.query_srq");
  UROCE_REFUSE(ops, _compat_destroy_srq, "ibv_context_ops.destroy_srq");
  UROCE_REFUSE(ops, _compat_create_qp, "ibv_context_ops.create_qp");
  UROCE_REFUSE(ops, _compat_query_qp, "ibv_context_ops.query_qp");
  UROCE_REFUSE(ops, _compat_modify_qp, "ibv_context_ops.modify_qp");
  UROCE_REFUSE(ops, _compat_destroy_qp, "ibv_context_ops.destroy_qp");
  UROCE_REFUSE(ops, _compat_create_ah, "ibv_context_ops.create_ah");
  UROCE_REFUSE(ops, _compat_destroy_ah, "ibv_context_ops.destroy_ah");
  UROCE_REFUSE(ops, _compat_attach_mcast, "ibv_context_ops.attach_mcast");
  UROCE_REFUSE(ops, _compat_detach_mcast, "ibv_context_ops.detach_mcast");
  UROCE_REFUSE(ops, _compat_async_event, "ibv_context_ops.async_event");
}

#undef UROCE_REFUSE

}  // namespace uroce::verbs
