// ibv_advise_mr: pages of on-demand regions are brought in before they are needed.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "host/mappings.h"
#include "operations.h"
#include "runtime.h"
#include "transport/memory_table.h"

namespace uroce::verbs {

namespace {

constexpr uint64_t kPage = 4096;

struct Range {
  uint64_t start;
  uint64_t end;
};

/// Returns 0 or errno. Adds the range of the element's bytes to `ranges`.
int find_range(const MemoryTable& memory, PdId pd, const ibv_sge& sge, bool writes, std::vector<Range>& ranges) {
  const MemoryRegion* region = memory.region(sge.lkey);
  if (region == nullptr) return ENOENT;
  if (region->pd != pd) return EPERM;
  if (writes && (region->access & kLocalWrite) == 0) return EPERM;
  if ((region->access & kOnDemand) == 0) return EINVAL;
  if (sge.addr < region->iova) return EFAULT;
  const uint64_t offset = sge.addr - region->iova;
  if (offset > region->length || sge.length > region->length - offset) return EFAULT;
  const auto start = reinterpret_cast<uint64_t>(region->memory) + offset;
  if (sge.length != 0) ranges.push_back({start & ~(kPage - 1), (start + sge.length + kPage - 1) & ~(kPage - 1)});
  return 0;
}

/// False when the range is not mapped, or not with these rights. Kernels before 5.14 bring nothing in, which is
/// allowed. Leaves errno alone.
bool bring_in(const Range& range, bool writes) {
  constexpr int kPopulateRead = 22;
  constexpr int kPopulateWrite = 23;
  auto* start = reinterpret_cast<void*>(range.start);
  const size_t bytes = range.end - range.start;
  const int errno_before = errno;
  if (madvise(start, bytes, writes ? kPopulateWrite : kPopulateRead) == 0) return true;
  const int error = std::exchange(errno, errno_before);
  if (error != EINVAL) return error == EAGAIN || error == EINTR;
  // An old kernel, or memory of a device, which is there already, or a mapping without that right.
  return check_range(start, bytes, writes ? Need::kWrite : Need::kRead).state == RangeState::kUsable;
}

}  // namespace

/// With and without IBV_ADVISE_MR_FLAG_FLUSH the pages are there when the call returns.
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* sges, uint32_t count) try {
  if (is_the_parents(pd->context)) return refuse_to_child();
  const bool writes = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  const bool brings_in = writes || advice == IBV_ADVISE_MR_ADVICE_PREFETCH;
  if (!brings_in && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return with_errno(EOPNOTSUPP);
  if ((flags & ~uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0 || count == 0 || sges == nullptr) return with_errno(EINVAL);
  std::vector<Range> ranges;
  {
    EngineLock lock(endpoint());
    for (const ibv_sge& sge : std::span(sges, count)) {
      const int error = find_range(lock->memory(), ours(pd).id, sge, writes, ranges);
      if (error != 0) return with_errno(error);
    }
  }
  if (!brings_in) return 0;
  const bool all = std::all_of(ranges.begin(), ranges.end(), [&](const Range& r) { return bring_in(r, writes); });
  return all ? 0 : with_errno(EFAULT);
} catch (const std::bad_alloc&) {
  return with_errno(ENOMEM);
}

}  // namespace uroce::verbs
