// Device memory: memory of the host, which a program reaches only through the calls below and through regions in it.
//
// To a device in software, its own memory is the host's. So it makes nothing faster, but programs written for it work.
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

#include "base/guarded_memory.h"
#include "operations.h"
#include "regions.h"
#include "runtime.h"
#include "transport/memory_table.h"

namespace uroce::verbs {

namespace {

constexpr uint32_t kLogAlignMax = 12;  // every piece begins on a page

std::atomic<size_t> bytes_in_use{0};

size_t whole_pages(size_t bytes) { return (bytes + (size_t{1} << kLogAlignMax) - 1) >> kLogAlignMax << kLogAlignMax; }

/// The allocation counts whole pages.
bool reserve(size_t bytes) {
  if (bytes_in_use.fetch_add(whole_pages(bytes)) + whole_pages(bytes) <= kMaxDmBytes) return true;
  bytes_in_use -= whole_pages(bytes);
  return false;
}

constexpr uint64_t kWord = 4;

/// Returns 0 or errno; `at` becomes the address of the range. Only whole words are accepted: a card copies a word at a
/// time, and a program that copied anything else here would fail there.
int place_of(ibv_dm* dm, uint64_t offset, size_t length, uint8_t*& at) {
  if (is_the_parents(dm->context)) return refuse_to_child();
  const DmCore& core = *ours(dm).core;
  if (offset > core.bytes || length > core.bytes - offset) return with_errno(EFAULT);
  if (offset % kWord != 0 || length % kWord != 0) return with_errno(EINVAL);
  at = core.memory + offset;
  return 0;
}

int memcpy_to_dm(ibv_dm* dm, uint64_t offset, const void* host, size_t length) {
  uint8_t* at = nullptr;
  if (const int error = place_of(dm, offset, length, at); error != 0) return error;
  return length == 0 || try_copy(at, host, length) ? 0 : with_errno(EFAULT);
}

int memcpy_from_dm(void* host, ibv_dm* dm, uint64_t offset, size_t length) {
  uint8_t* at = nullptr;
  if (const int error = place_of(dm, offset, length, at); error != 0) return error;
  return length == 0 || try_copy(host, at, length) ? 0 : with_errno(EFAULT);
}

}  // namespace

DmCore::DmCore(size_t size)
    : memory(static_cast<uint8_t*>(::operator new (whole_pages(size), std::align_val_t{size_t{1} << kLogAlignMax}))),
      bytes(size) {
  std::memset(memory, 0, size);  // what earlier users left in it is not for the program to read
}

DmCore::~DmCore() {
  ::operator delete (memory, std::align_val_t{size_t{1} << kLogAlignMax});
  bytes_in_use -= whole_pages(bytes);
}

ibv_dm* wrap_dm(ibv_context* context, uint32_t handle, std::shared_ptr<DmCore> core) {
  auto dm = std::make_unique<Dm>();
  dm->context = context;
  dm->memcpy_to_dm = memcpy_to_dm;
  dm->memcpy_from_dm = memcpy_from_dm;
  dm->comp_mask = IBV_DM_MASK_HANDLE;
  dm->handle = handle;
  dm->core = std::move(core);
  count_object(context, 1);
  return dm.release();
}

ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr) try {
  if (is_the_parents(context)) {
    refuse_to_child();
    return nullptr;
  }
  if (attr->comp_mask != 0 || attr->length == 0 || attr->length > kMaxDmBytes || attr->log_align_req > kLogAlignMax) {
    errno = EINVAL;
    return nullptr;
  }
  if (!reserve(attr->length)) {
    errno = ENOMEM;
    return nullptr;
  }
  std::shared_ptr<DmCore> core;
  try {
    core = std::make_shared<DmCore>(attr->length);
  } catch (const std::bad_alloc&) {
    bytes_in_use -= whole_pages(attr->length);
    throw;
  }
  const uint32_t number = next_handle();
  NewHandle handle(number, ours(context).file, core);
  ibv_dm* const dm = wrap_dm(context, number, std::move(core));
  handle.made();
  return dm;
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

int free_dm(ibv_dm* dm) {
  if (is_the_parents(dm->context)) return 0;
  if (ours(dm).core->regions != 0) return with_errno(EBUSY);
  if (!Handles<DmCore>::get().remove(dm->handle)) return with_errno(ENOENT);
  forget_dm(ours(dm));
  return 0;
}

void leave_device_memory() {
  Handles<DmCore>::get().leave();
  bytes_in_use = 0;
}

void forget_dm(Dm& dm) {
  count_object(dm.context, -1);
  delete &dm;
}

ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length, unsigned access) {
  if (is_the_parents(pd->context) || is_the_parents(dm->context)) {
    refuse_to_child();
    return nullptr;
  }
  if (!is_same_file(pd->context, dm->context)) {
    errno = ENOENT;
    return nullptr;
  }
  constexpr unsigned kAllowed = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kMwBind | kZeroBased;
  constexpr unsigned kWrites = kRemoteWrite | kRemoteAtomic;
  const std::shared_ptr<DmCore> core = ours(dm).core;
  const bool inside = offset <= core->bytes && length <= core->bytes - offset;
  const unsigned rights = access & ~unsigned{IBV_ACCESS_OPTIONAL_RANGE};
  if (!inside || (rights & kZeroBased) == 0 || (rights & ~kAllowed) != 0 ||
      ((rights & kWrites) != 0 && (rights & kLocalWrite) == 0)) {
    errno = EINVAL;
    return nullptr;
  }
  ibv_mr* mr = add_region(pd, Mr::Of::kDeviceMemory, length, [&](Engine& engine, Mr& region) {
    region.access = rights;
    return engine.memory().register_region(ours(pd).id, core->memory + offset, length, 0, rights);
  });
  if (mr == nullptr) return nullptr;
  ours(mr).core->dm = core;
  core->regions++;
  return mr;
}

}  // namespace uroce::verbs
