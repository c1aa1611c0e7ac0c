// The entry points of libibverbs 1.0, whose objects had other layouts. No program is known to use them any more; they
// exist so that none of these calls can reach the real library with one of our objects.
#include "refusal.h"
#include "shim.h"

using namespace uroce::verbs;

// The function is called `uroce_compat_NAME` inside; only `NAME@IBVERBS_1.0` leaves the library (verbs.map).
#define UROCE_COMPAT(result, name)                                        \
  UROCE_VERBS_EXPORT __attribute__((used)) result uroce_compat_##name() { \
    return refuse<result, #name "@IBVERBS_1.0">();                        \
  }                                                                       \
  asm(".symver uroce_compat_" #name "," #name "@IBVERBS_1.0")

UROCE_COMPAT(void, ibv_ack_async_event);
UROCE_COMPAT(void, ibv_ack_cq_events);
UROCE_COMPAT(void*, ibv_alloc_pd);
UROCE_COMPAT(int, ibv_attach_mcast);
UROCE_COMPAT(int, ibv_close_device);
UROCE_COMPAT(void*, ibv_create_ah);
UROCE_COMPAT(void*, ibv_create_cq);
UROCE_COMPAT(void*, ibv_create_qp);
UROCE_COMPAT(void*, ibv_create_srq);
UROCE_COMPAT(int, ibv_dealloc_pd);
UROCE_COMPAT(int, ibv_dereg_mr);
UROCE_COMPAT(int, ibv_destroy_ah);
UROCE_COMPAT(int, ibv_destroy_cq);
UROCE_COMPAT(int, ibv_destroy_qp);
UROCE_COMPAT(int, ibv_destroy_srq);
UROCE_COMPAT(int, ibv_detach_mcast);
UROCE_COMPAT(void, ibv_free_device_list);
UROCE_COMPAT(int, ibv_get_async_event);
UROCE_COMPAT(int, ibv_get_cq_event);
UROCE_COMPAT(void*, ibv_get_device_guid);  // returns a GUID of 0
UROCE_COMPAT(void*, ibv_get_device_list);
UROCE_COMPAT(void*, ibv_get_device_name);
UROCE_COMPAT(int, ibv_modify_qp);
UROCE_COMPAT(int, ibv_modify_srq);
UROCE_COMPAT(void*, ibv_open_device);
UROCE_COMPAT(int, ibv_query_device);
UROCE_COMPAT(int, ibv_query_gid);
UROCE_COMPAT(int, ibv_query_pkey);
UROCE_COMPAT(int, ibv_query_port);
UROCE_COMPAT(int, ibv_query_qp);
UROCE_COMPAT(int, ibv_query_srq);
UROCE_COMPAT(void*, ibv_reg_mr);
UROCE_COMPAT(int, ibv_resize_cq);
