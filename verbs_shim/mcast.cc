// Multicast: which groups a queue pair of datagrams belongs to.
#include <cerrno>
#include <cstring>

#include "engine/multicast_groups.h"
#include "operations.h"
#include "runtime.h"

using namespace uroce;
using namespace uroce::verbs;

namespace {

int errno_of(MulticastGroups::Result result) {
  switch (result) {
    case MulticastGroups::Result::kOk:
      return 0;
    case MulticastGroups::Result::kInvalid:
      return EINVAL;
    case MulticastGroups::Result::kFull:
      break;
  }
  return ENOMEM;
}

/// Fails with the kernel's errnos. The LID is ignored, as by a kernel on Ethernet.
int change_group(ibv_qp* qp, const ibv_gid* gid,
                 MulticastGroups::Result (MulticastGroups::*change)(Qp&, const IpAddress&, Instant)) try {
  if (is_the_parents(qp->context)) return refuse_to_child();
  int error = EINVAL;
  if (gid != nullptr) {
    IpAddress group;
    std::memcpy(group.bytes.data(), gid->raw, group.bytes.size());
    EngineLock lock(endpoint());
    error = errno_of((lock->multicast().*change)(*ours(qp).qp, group, endpoint().now()));
  }
  return with_errno(error);
} catch (const std::bad_alloc&) {
  return with_errno(ENOMEM);
}

}  // namespace

UROCE_VERBS_EXPORT int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t /*lid*/) {
  return change_group(qp, gid, &MulticastGroups::attach);
}

UROCE_VERBS_EXPORT int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t /*lid*/) {
  return change_group(qp, gid, &MulticastGroups::detach);
}
