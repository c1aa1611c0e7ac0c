// Memory regions: registered, changed, and given back. Regions in device memory are in device_memory.cc.
#include <fcntl.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/guarded_memory.h"
#include "base/no_cancel.h"
#include "dpdk/log.h"
#include "host/mappings.h"
#include "later_abi.h"
#include "operations.h"
#include "refusal.h"
#include "regions.h"
#include "runtime.h"
#include "transport/memory_table.h"

using namespace uroce;
using namespace uroce::verbs;

static_assert(int{kLocalWrite} == IBV_ACCESS_LOCAL_WRITE);
static_assert(int{kRemoteWrite} == IBV_ACCESS_REMOTE_WRITE);
static_assert(int{kRemoteRead} == IBV_ACCESS_REMOTE_READ);
static_assert(int{kRemoteAtomic} == IBV_ACCESS_REMOTE_ATOMIC);
static_assert(int{kMwBind} == IBV_ACCESS_MW_BIND);
static_assert(int{kZeroBased} == IBV_ACCESS_ZERO_BASED);
static_assert(int{kOnDemand} == IBV_ACCESS_ON_DEMAND);
static_assert(int{kFlushGlobal} == kAccessFlushGlobal && int{kFlushPersistent} == kAccessFlushPersistent);

namespace {

constexpr uint32_t kEngineAccess =
    kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kMwBind | kZeroBased | kOnDemand | kFlushGlobal;
// User space ends here.
constexpr uint64_t kAddressesEnd = uint64_t{1} << 63;
constexpr size_t kBufAlignment = 4096;

/// Returns 0 or errno. Sets `rights` to the engine's Access bits for `access`.
int check_access(unsigned access, uint32_t& rights) {
  // Huge pages and relaxed ordering change nothing for a processor that copies.
  constexpr unsigned kIgnored = unsigned{IBV_ACCESS_HUGETLB} | IBV_ACCESS_OPTIONAL_RANGE;
  if ((access & kFlushPersistent) != 0) {
    log_message(LogLevel::kWarning,
                "a region with IBV_ACCESS_FLUSH_PERSISTENT is refused: no memory here outlives a power loss");
  }
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
  const NoCancel with_a_descriptor;
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

/// What the program asks a region to be.
struct Wish {
  void* addr;
  size_t length;
  uint64_t iova;
  uint32_t rights = 0;  // Access

  bool on_demand() const { return (rights & kOnDemand) != 0; }
  /// All of the process's memory, as it is at each access.
  bool implicit() const { return on_demand() && addr == nullptr && length == SIZE_MAX; }
};

/// Returns 0 or errno. The memory of an on-demand region need not be there yet: an access finds out.
int check_wish(Wish& wish) {
  if (wish.implicit()) {
    if (wish.iova != 0 || (wish.rights & kMwBind) != 0) return EINVAL;
    return 0;
  }
  if ((wish.rights & kZeroBased) != 0) wish.iova = 0;
  if (wish.length != 0 && wish.iova + (wish.length - 1) < wish.iova) return EINVAL;
  if (!wish.on_demand()) return check_memory(wish.addr, wish.length, wish.rights);
  const auto start = reinterpret_cast<uint64_t>(wish.addr);
  return start < kAddressesEnd && wish.length <= kAddressesEnd - start ? 0 : EFAULT;
}

/// How much of it the engine serves.
uint64_t served_length(const Wish& wish) { return wish.implicit() ? kAddressesEnd : wish.length; }

ibv_mr* register_wish(ibv_pd* pd, Wish wish, unsigned access) {
  if (is_the_parents(pd->context)) {
    refuse_to_child();
    return nullptr;
  }
  int error = check_access(access, wish.rights);
  if (error == 0) error = check_wish(wish);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  return add_region(pd, Mr::Of::kProgram, wish.length, [&](Engine& engine, Mr& mr) {
    mr.addr = wish.addr;
    mr.iova = wish.iova;
    mr.access = wish.rights;
    return engine.memory().register_region(ours(pd).id, wish.addr, served_length(wish), wish.iova, wish.rights);
  });
}

ibv_mr* register_region(ibv_pd* pd, void* addr, size_t length, uint64_t iova, unsigned access) {
  return register_wish(pd, {addr, length, iova}, access);
}

}  // namespace

UROCE_VERBS_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, size_t length, uint64_t iova, unsigned access) {
  return register_region(pd, addr, length, iova, access);
}

UROCE_VERBS_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, size_t length, int access) {
  return register_region(pd, addr, length, reinterpret_cast<uint64_t>(addr), static_cast<unsigned>(access));
}

UROCE_VERBS_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, size_t length, uint64_t iova, int access) {
  return register_region(pd, addr, length, iova, static_cast<unsigned>(access));
}

namespace {

int rereg_refused(int error) {
  errno = error;
  return IBV_REREG_MR_ERR_INPUT;  // the region is as it was
}

/// Returns 0 or errno: what rdma-core checks before it asks the kernel.
int check_rereg(const Mr& mr, int flags, ibv_pd* pd, void* addr, size_t length, int access) {
  if (mr.of != Mr::Of::kProgram) return EINVAL;
  if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0) return EINVAL;
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 && (length == 0 || addr == nullptr)) return EINVAL;
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) == 0 && access != 0) return EINVAL;
  if ((flags & IBV_REREG_MR_CHANGE_PD) == 0) return 0;
  if (pd == nullptr || ours(pd->context).file != ours(mr.context).file) return EINVAL;
  return 0;
}

/// Returns 0 or errno.
int change(Mr& mr, ibv_pd* pd, const Wish& wish) {
  EngineLock lock(endpoint());
  MemoryTable& memory = lock->memory();
  if (memory.region(mr.lkey) == nullptr) return ENOENT;  // destroyed through an import
  const uint64_t length = served_length(wish);
  if (memory.reregister(mr.lkey, ours(pd).id, wish.addr, length, wish.iova, wish.rights)) return 0;
  return EBUSY;  // memory windows are bound to it
}

}  // namespace

UROCE_VERBS_EXPORT int ibv_rereg_mr(ibv_mr* base, int flags, ibv_pd* pd, void* addr, size_t length, int access) {
  Mr& mr = ours(base);
  if (is_the_parents(base->context)) return rereg_refused(refuse_to_child());
  if (!is_found(*base)) return rereg_refused(ENOENT);
  if (const int error = check_rereg(mr, flags, pd, addr, length, access); error != 0) return rereg_refused(error);
  ibv_pd* const new_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0 ? pd : mr.pd;
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  Wish wish{mr.addr, mr.length, mr.iova, mr.access};
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) {
    if (const int error = check_access(static_cast<unsigned>(access), wish.rights); error != 0) {
      return rereg_refused(error);
    }
  }
  if (moves) wish = {addr, length, reinterpret_cast<uint64_t>(addr), wish.rights};
  int error = check_wish(wish);
  if (error == 0) error = change(mr, new_pd, wish);
  if (error != 0) return rereg_refused(error);
  count_object(mr.pd, -1);
  count_object(new_pd, 1);
  mr.pd = new_pd;
  mr.addr = wish.addr;
  mr.core->length = mr.length = wish.length;
  mr.iova = wish.iova;
  mr.access = wish.rights;
  return 0;
}

UROCE_VERBS_EXPORT int ibv_dereg_mr(ibv_mr* base) {
  if (is_the_parents(base->context)) return 0;
  if (!is_found(*base)) return with_errno(ENOENT);
  Mr& mr = ours(base);
  {
    EngineLock lock(endpoint());
    if (lock->memory().region(mr.lkey) == nullptr) return with_errno(ENOENT);
    if (!lock->memory().deregister(mr.lkey)) return with_errno(EBUSY);
  }
  Handles<MrCore>::get().remove(mr.handle);
  if (mr.core->dm != nullptr) mr.core->dm->regions--;
  forget_region(mr);
  return 0;
}

// Later ways to register.

namespace {

/// `kCall`: the call's name, for the log line. Programs probe for this call with an invalid descriptor (NCCL at each
/// start, with -1), which is not worth a line.
template <Name kCall>
ibv_mr* refuse_dmabuf(int fd) {
  if (fcntl(fd, F_GETFD) != -1) return refuse<ibv_mr*, kCall>();
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // namespace

UROCE_VERBS_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, uint64_t, size_t, uint64_t, int fd, int) {
  return refuse_dmabuf<"ibv_reg_dmabuf_mr">(fd);
}

namespace {

/// Returns 0 or errno: the range lies in the buffer, which is ordinary memory.
int check_buf(ibv_pd* pd, const ibv_mr_init_attr& attr) {
  const ibv_buf* buf = attr.buf;
  if (buf == nullptr || buf->pd != pd) return EINVAL;
  if ((attr.comp_mask & (kMrHasFd | kMrHasFdOffset)) != 0 || (attr.comp_mask & kMrHasAddr) == 0) return EINVAL;
  const auto start = reinterpret_cast<uint64_t>(buf->addr);
  const auto addr = reinterpret_cast<uint64_t>(attr.addr);
  if (addr < start || addr - start > buf->size || attr.length > buf->size - (addr - start)) return EINVAL;
  return 0;
}

}  // namespace

UROCE_VERBS_EXPORT ibv_mr* ibv_reg_mr_ex(ibv_pd* pd, ibv_mr_init_attr* attr) {
  constexpr uint64_t kKnown = kMrHasIova | kMrHasAddr | kMrHasFd | kMrHasFdOffset | kMrHasDmah | kMrHasBuf;
  const uint64_t mask = attr->comp_mask;
  int error = 0;
  if ((mask & ~kKnown) != 0) {
    error = EOPNOTSUPP;
  } else if ((mask & kMrHasBuf) != 0) {
    error = check_buf(pd, *attr);
  } else if (((mask & kMrHasAddr) != 0) == ((mask & kMrHasFd) != 0)) {
    error = EINVAL;  // exactly one of the two
  } else if ((mask & kMrHasFd) != 0) {
    return refuse_dmabuf<"ibv_reg_mr_ex with a dma-buf">(attr->fd);
  }
  if (error == 0 && (mask & kMrHasDmah) != 0) error = EINVAL;  // there is no handle: ibv_alloc_dmah gives none
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  const uint64_t iova = (mask & kMrHasIova) != 0 ? attr->iova : reinterpret_cast<uint64_t>(attr->addr);
  return register_region(pd, attr->addr, attr->length, iova, static_cast<unsigned>(attr->access));
}

/// New in rdma-core 64: memory that suits the device, which here is any memory.
UROCE_VERBS_EXPORT void* ibv_alloc_buf(ibv_pd* pd, size_t size, ibv_buf** buf) try {
  if (is_the_parents(pd->context)) {
    refuse_to_child();
    return nullptr;
  }
  if (size == 0) {
    errno = EINVAL;
    return nullptr;
  }
  auto made = std::make_unique<ibv_buf>();
  made->pd = pd;
  made->size = size;
  if (const int error = posix_memalign(&made->addr, kBufAlignment, size); error != 0) {
    errno = error;
    return nullptr;
  }
  *buf = made.release();
  return (*buf)->addr;
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

UROCE_VERBS_EXPORT void ibv_free_buf(ibv_buf* buf) {
  if (buf == nullptr) return;
  std::free(buf->addr);
  delete buf;
}

UROCE_VERBS_EXPORT ibv_mr* ibv_reg_buf_mr(ibv_pd* pd, ibv_buf* buf, void* addr, size_t length, int access) {
  ibv_mr_init_attr attr{};
  attr.length = length;
  attr.access = access;
  attr.comp_mask = kMrHasBuf | kMrHasAddr;
  attr.addr = addr;
  attr.buf = buf;
  return ibv_reg_mr_ex(pd, &attr);
}

namespace uroce::verbs {

ibv_mr* alloc_null_mr(ibv_pd* pd) {
  if (is_the_parents(pd->context)) {
    refuse_to_child();
    return nullptr;
  }
  return add_region(pd, Mr::Of::kNothing, SIZE_MAX,
                    [&](Engine& engine, Mr& /*mr*/) { return engine.memory().register_null(ours(pd).id); });
}

void forget_region(Mr& mr) {
  count_object(mr.pd, -1);
  delete &mr;
}

}  // namespace uroce::verbs
