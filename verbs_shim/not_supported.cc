// Everything that is not supported: all remaining entry points, as symbols or in tables.
#include <cstring>

#include "operations.h"
#include "refusal.h"

using namespace uroce::verbs;

struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_mr_init_attr;
struct ibv_buf;
struct ibv_buf_init_attr;

// Multicast: the engine does not join groups.
UROCE_VERBS_EXPORT int ibv_attach_mcast(ibv_qp*, const ibv_gid*, uint16_t) { return refuse<int, "ibv_attach_mcast">(); }
UROCE_VERBS_EXPORT int ibv_detach_mcast(ibv_qp*, const ibv_gid*, uint16_t) { return refuse<int, "ibv_detach_mcast">(); }

// Objects of other processes, and memory of other devices.
UROCE_VERBS_EXPORT ibv_context* ibv_import_device(int) { return refuse<ibv_context*, "ibv_import_device">(); }
UROCE_VERBS_EXPORT ibv_pd* ibv_import_pd(ibv_context*, uint32_t) { return refuse<ibv_pd*, "ibv_import_pd">(); }
UROCE_VERBS_EXPORT void ibv_unimport_pd(ibv_pd*) { refuse<void, "ibv_unimport_pd">(); }
UROCE_VERBS_EXPORT ibv_mr* ibv_import_mr(ibv_pd*, uint32_t) { return refuse<ibv_mr*, "ibv_import_mr">(); }
UROCE_VERBS_EXPORT void ibv_unimport_mr(ibv_mr*) { refuse<void, "ibv_unimport_mr">(); }
UROCE_VERBS_EXPORT ibv_dm* ibv_import_dm(ibv_context*, uint32_t) { return refuse<ibv_dm*, "ibv_import_dm">(); }
UROCE_VERBS_EXPORT void ibv_unimport_dm(ibv_dm*) { refuse<void, "ibv_unimport_dm">(); }
UROCE_VERBS_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, uint64_t, size_t, uint64_t, int, int) {
  return refuse<ibv_mr*, "ibv_reg_dmabuf_mr">();
}
UROCE_VERBS_EXPORT ibv_mr* ibv_reg_mr_ex(ibv_pd*, ibv_mr_init_attr*) { return refuse<ibv_mr*, "ibv_reg_mr_ex">(); }
UROCE_VERBS_EXPORT ibv_dmah* ibv_alloc_dmah(ibv_context*, ibv_dmah_init_attr*) {
  return refuse<ibv_dmah*, "ibv_alloc_dmah">();
}
UROCE_VERBS_EXPORT int ibv_dealloc_dmah(ibv_dmah*) { return refuse<int, "ibv_dealloc_dmah">(); }
UROCE_VERBS_EXPORT int ibv_dm_export_dmabuf_fd(ibv_dm*) {
  refuse<void, "ibv_dm_export_dmabuf_fd">();
  return -1;  // it would return a descriptor
}
UROCE_VERBS_EXPORT ibv_buf* ibv_alloc_buf(ibv_pd*, ibv_buf_init_attr*) { return refuse<ibv_buf*, "ibv_alloc_buf">(); }
UROCE_VERBS_EXPORT int ibv_free_buf(ibv_buf*) { return refuse<int, "ibv_free_buf">(); }
UROCE_VERBS_EXPORT ibv_mr* ibv_reg_buf_mr(ibv_pd*, ibv_buf*, uint64_t, size_t, int) {
  return refuse<ibv_mr*, "ibv_reg_buf_mr">();
}

// Vendor-specific connection establishment, which this device does not have. Programs ask routinely, so nothing is
// logged.
UROCE_VERBS_EXPORT int ibv_query_ece(ibv_qp*, ibv_ece* ece) {
  std::memset(ece, 0, sizeof *ece);
  return with_errno(EOPNOTSUPP);
}
UROCE_VERBS_EXPORT int ibv_set_ece(ibv_qp*, ibv_ece*) { return with_errno(EOPNOTSUPP); }

// Drivers must register with the real library.
UROCE_VERBS_EXPORT void ibv_register_driver(const char*, void*) { refuse<void, "ibv_register_driver">(); }

namespace uroce::verbs {

#define UROCE_REFUSE(table, member, name) (table).member = Refusal<decltype((table).member)>::call<name>

void fill_refusals(Context& context) {
  verbs_context& v = context.verbs;
  UROCE_REFUSE(v, advise_mr, "ibv_advise_mr");
  UROCE_REFUSE(v, alloc_null_mr, "ibv_alloc_null_mr");
  UROCE_REFUSE(v, read_counters, "ibv_read_counters");
  UROCE_REFUSE(v, attach_counters_point_flow, "ibv_attach_counters_point_flow");
  UROCE_REFUSE(v, create_counters, "ibv_create_counters");
  UROCE_REFUSE(v, destroy_counters, "ibv_destroy_counters");
  UROCE_REFUSE(v, reg_dm_mr, "ibv_reg_dm_mr");
  UROCE_REFUSE(v, alloc_dm, "ibv_alloc_dm");
  UROCE_REFUSE(v, free_dm, "ibv_free_dm");
  UROCE_REFUSE(v, modify_flow_action_esp, "ibv_modify_flow_action_esp");
  UROCE_REFUSE(v, destroy_flow_action, "ibv_destroy_flow_action");
  UROCE_REFUSE(v, create_flow_action_esp, "ibv_create_flow_action_esp");
  UROCE_REFUSE(v, modify_qp_rate_limit, "ibv_modify_qp_rate_limit");
  UROCE_REFUSE(v, alloc_parent_domain, "ibv_alloc_parent_domain");
  UROCE_REFUSE(v, dealloc_td, "ibv_dealloc_td");
  UROCE_REFUSE(v, alloc_td, "ibv_alloc_td");
  UROCE_REFUSE(v, modify_cq, "ibv_modify_cq");
  UROCE_REFUSE(v, post_srq_ops, "ibv_post_srq_ops");
  UROCE_REFUSE(v, destroy_rwq_ind_table, "ibv_destroy_rwq_ind_table");
  UROCE_REFUSE(v, create_rwq_ind_table, "ibv_create_rwq_ind_table");
  UROCE_REFUSE(v, destroy_wq, "ibv_destroy_wq");
  UROCE_REFUSE(v, modify_wq, "ibv_modify_wq");
  UROCE_REFUSE(v, create_wq, "ibv_create_wq");
  UROCE_REFUSE(v, ibv_destroy_flow, "ibv_destroy_flow");
  UROCE_REFUSE(v, ibv_create_flow, "ibv_create_flow");
  UROCE_REFUSE(v, open_qp, "ibv_open_qp");
  UROCE_REFUSE(v, get_srq_num, "ibv_get_srq_num");
  UROCE_REFUSE(v, open_xrcd, "ibv_open_xrcd");
  UROCE_REFUSE(v, close_xrcd, "ibv_close_xrcd");

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
