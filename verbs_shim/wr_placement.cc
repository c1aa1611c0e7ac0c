// ibv_wr_flush and ibv_wr_atomic_write. ibv_post_send has neither: its structure has no member for what a FLUSH asks.
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/guarded_memory.h"
#include "later_abi.h"
#include "operations.h"

namespace uroce::verbs {

static_assert(static_cast<int>(WrOpcode::kFlush) == kWrFlush &&
              static_cast<int>(WrOpcode::kAtomicWrite) == kWrAtomicWrite);
static_assert(static_cast<int>(WcOpcode::kFlush) == kWcFlush &&
              static_cast<int>(WcOpcode::kAtomicWrite) == kWcAtomicWrite);

namespace {

SendWr& begin_placement(ibv_qp_ex* base, WrOpcode opcode, uint32_t rkey, uint64_t remote_addr) {
  SendWr& wr = ours(base).builder->next();
  wr.wr_id = base->wr_id;
  wr.opcode = opcode;
  wr.flags = static_cast<uint8_t>(base->wr_flags & (kSendFence | kSendSignaled));
  wr.rkey = rkey;
  wr.remote_addr = remote_addr;
  return wr;
}

void wr_flush(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, size_t len, uint8_t type, uint8_t level) {
  SendWr& wr = begin_placement(qp, WrOpcode::kFlush, rkey, remote_addr);
  constexpr unsigned kTypes = unsigned{kFlushToGlobal} | kFlushToPersistent;
  const bool known = type != 0 && (type & ~kTypes) == 0 && level <= static_cast<uint8_t>(FlushLevel::kRegion);
  if (!known || len > UINT32_MAX) return ours(qp).builder->fail(EINVAL);
  wr.flush = {static_cast<uint32_t>(len), type, static_cast<FlushLevel>(level)};
}

void wr_atomic_write(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, const void* atomic_wr) {
  SendWr& wr = begin_placement(qp, WrOpcode::kAtomicWrite, rkey, remote_addr);
  if (!try_copy(&wr.swap, atomic_wr, sizeof wr.swap)) ours(qp).builder->fail(EFAULT);
}

/// Programs that were built with release 45 or later find the operation behind what release 44 had.
template <typename QpEx>
void set_flush(QpEx& qp) {
  if constexpr (requires { qp.wr_flush; }) {
    qp.wr_flush = wr_flush;
  } else {
    static_assert(sizeof(ibv_qp_ex) == offsetof(ibv_qp_ex, wr_atomic_write) + sizeof qp.wr_atomic_write);
    const WrFlush flush = wr_flush;
    std::memcpy(qp.foreign, &flush, sizeof flush);
  }
}

}  // namespace

void fill_placement_operations(QueuePair& qp) {
  qp.wr_atomic_write = wr_atomic_write;
  set_flush(qp);
}

}  // namespace uroce::verbs
