// Enhanced connection establishment: what two ends of one vendor agree on. This device has nothing to agree on, so the
// answer to every wish is "none of these options", and the exchange works.
#include <cerrno>

#include "objects.h"
#include "runtime.h"

using namespace uroce::verbs;

UROCE_VERBS_EXPORT int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  if (is_the_parents(qp->context)) return refuse_to_child();
  *ece = {};
  ece->vendor_id = kVendorId;
  return 0;
}

/// `ece->options` is what is accepted when the call returns.
UROCE_VERBS_EXPORT int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  if (is_the_parents(qp->context)) return refuse_to_child();
  if (ece->vendor_id == 0) return with_errno(EOPNOTSUPP);
  if (ece->vendor_id != kVendorId || ece->comp_mask != 0) return with_errno(EINVAL);
  ece->options = 0;
  return 0;
}
