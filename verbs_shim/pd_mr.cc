// Protection domains and memory regions.
#include <cerrno>
#include <memory>
#include <new>

#include "base/guarded_memory.h"
#include "dpdk/log.h"
#include "host/mappings.h"
#include "objects.h"
#include "runtime.h"

using namespace uroce;
using namespace uroce::verbs;

static_assert(int{kLocalWrite} == IBV_ACCESS_LOCAL_WRITE);
static_assert(int{kRemoteWrite} == IBV_ACCESS_REMOTE_WRITE);
static_assert(int{kRemoteRead} == IBV_ACCESS_REMOTE_READ);
static_assert(int{kRemoteAtomic} == IBV_ACCESS_REMOTE_ATOMIC);
static_assert(int{kMwBind} == IBV_ACCESS_MW_BIND);
static_assert(int{kZeroBased} == IBV_ACCESS_ZERO_BASED);

namespace {

constexpr uint32_t kEngineAccess = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kMwBind | kZeroBased;

/// Returns 0 or errno. Sets `rights` to the engine's Access bits for `access`.
int check_access(unsigned access, uint32_t& rights) {
  if ((access & IBV_ACCESS_ON_DEMAND) != 0) {
    log_message(LogLevel::kWarning, "on-demand paging is not supported: registration refused (EOPNOTSUPP)");
    return with_errno(EOPNOTSUPP);
  }
  // Huge pages and relaxed ordering change nothing for a processor that copies.
  constexpr unsigned kIgnored = unsigned{IBV_ACCESS_HUGETLB} | IBV_ACCESS_OPTIONAL_RANGE;
  if ((access & ~(kEngineAccess | kIgnored)) != 0) return EINVAL;
  if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) {
    return EINVAL;
  }
  rights = access & kEngineAccess;
  return 0;
}

/// Checks that the process may access the range as `rights` allow. Hardware finds this out by pinning every page; here
/// it is only looked up, and nothing is touched (doc/adr/0017-memory-that-goes-away.md). Returns 0 or errno.
int check_memory(const void* addr, size_t length, uint32_t rights) {
  const auto start = reinterpret_cast<uint64_t>(addr);
  if (length == 0) return 0;  // no byte of it is ever accessed
  if (start + (length - 1) < start) return EINVAL;
  constexpr uint32_t kWrites = kLocalWrite | kRemoteWrite | kRemoteAtomic | kMwBind;
  const Need need = (rights & kWrites) != 0 ? Need::kWrite : Need::kRead;
  RangeAnswer answer = check_range(addr, length, need);
  if (answer.state == RangeState::kNotMapped) {
    // A stack grows when it is accessed, and a buffer on it may reach below what is mapped.
    uint8_t byte;
    if (try_copy(&byte, reinterpret_cast<const void*>(answer.at), 1)) answer = check_range(addr, length, need);
  }
  if (answer.state == RangeState::kUsable) return 0;
  log_message(LogLevel::kWarning, "registration of %zu bytes at 0x%llx refused (EFAULT): 0x%llx is not %s", length,
              static_cast<unsigned long long>(start), static_cast<unsigned long long>(answer.at),
              answer.state == RangeState::kNotMapped     ? "mapped"
              : answer.state == RangeState::kNotReadable ? "readable"
                                                         : "writable, as the access flags ask");
  return EFAULT;
}

ibv_mr* register_region(ibv_pd* pd, void* addr, size_t length, uint64_t iova, unsigned access) try {
  if (is_the_parents(pd->context)) {
    refuse_to_child();
    return nullptr;
  }
  uint32_t rights = 0;
  if (const int error = check_access(access, rights); error != 0) {
    errno = error;
    return nullptr;
  }
  if (const int error = check_memory(addr, length, rights); error != 0) {
    errno = error;
    return nullptr;
  }
  if ((access & IBV_ACCESS_ZERO_BASED) != 0) iova = 0;
  auto mr = std::make_unique<Mr>();
  uint32_t key;
  {
    EngineLock lock(endpoint());
    key = lock->memory().register_region(from(pd).id, addr, length, iova, rights);
  }
  if (key == 0) {
    const bool wraps = length != 0 && iova + (length - 1) < iova;
    errno = wraps ? EINVAL : ENOMEM;
    return nullptr;
  }
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = addr;
  mr->length = length;
  mr->handle = next_handle();
  mr->lkey = mr->rkey = key;
  mr->iova = iova;
  mr->access = rights;
  count_object(pd->context, 1);
  return mr.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

UROCE_VERBS_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) try {
  if (is_the_parents(context)) {
    refuse_to_child();
    return nullptr;
  }
  auto pd = std::make_unique<Pd>();
  PdId id;
  {
    EngineLock lock(endpoint());
    id = lock->objects().allocate_pd();
  }
  if (id == 0) {
    errno = ENOMEM;
    return nullptr;
  }
  pd->context = context;
  pd->handle = next_handle();
  pd->id = id;
  count_object(context, 1);
  return pd.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

UROCE_VERBS_EXPORT int ibv_dealloc_pd(ibv_pd* pd) {
  if (is_the_parents(pd->context)) return 0;
  {
    EngineLock lock(endpoint());
    if (!lock->objects().deallocate_pd(from(pd).id)) return with_errno(EBUSY);
  }
  count_object(pd->context, -1);
  delete &from(pd);
  return 0;
}

UROCE_VERBS_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, size_t length, uint64_t iova, unsigned access) {
  return register_region(pd, addr, length, iova, access);
}

UROCE_VERBS_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, size_t length, int access) {
  return register_region(pd, addr, length, reinterpret_cast<uint64_t>(addr), static_cast<unsigned>(access));
}

UROCE_VERBS_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, size_t length, uint64_t iova, int access) {
  return register_region(pd, addr, length, iova, static_cast<unsigned>(access));
}

UROCE_VERBS_EXPORT int ibv_rereg_mr(ibv_mr* base, int flags, ibv_pd* pd, void* addr, size_t length, int access) {
  Mr& mr = from(base);
  if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0) {
    errno = EINVAL;
    return IBV_REREG_MR_ERR_INPUT;
  }
  ibv_pd* const new_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0 ? pd : mr.pd;
  uint32_t rights = mr.access;
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) {
    if (const int error = check_access(static_cast<unsigned>(access), rights); error != 0) {
      errno = error;
      return IBV_REREG_MR_ERR_INPUT;
    }
  }
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  if (new_pd == nullptr || (moves && addr == nullptr)) {
    errno = EINVAL;
    return IBV_REREG_MR_ERR_INPUT;
  }
  void* const new_addr = moves ? addr : mr.addr;
  const size_t new_length = moves ? length : mr.length;
  if (const int error = check_memory(new_addr, new_length, rights); error != 0) {
    errno = error;
    return IBV_REREG_MR_ERR_INPUT;
  }
  const uint64_t moved_iova = (rights & kZeroBased) != 0 ? 0 : reinterpret_cast<uint64_t>(addr);
  const uint64_t new_iova = moves ? moved_iova : mr.iova;
  {
    EngineLock lock(endpoint());
    if (!lock->memory().reregister(mr.lkey, from(new_pd).id, new_addr, new_length, new_iova, rights)) {
      errno = EBUSY;  // memory windows are bound to it
      return IBV_REREG_MR_ERR_INPUT;
    }
  }
  mr.pd = new_pd;
  mr.addr = new_addr;
  mr.length = new_length;
  mr.iova = new_iova;
  mr.access = rights;
  return 0;
}

UROCE_VERBS_EXPORT int ibv_dereg_mr(ibv_mr* mr) {
  if (is_the_parents(mr->context)) return 0;
  {
    EngineLock lock(endpoint());
    if (!lock->memory().deregister(mr->lkey)) return with_errno(EBUSY);
  }
  count_object(mr->context, -1);
  delete &from(mr);
  return 0;
}
