#include "uroce/memory_window.h"

#include <utility>

#include "api/device_core.h"
#include "transport/memory_table.h"
#include "uroce/device.h"
#include "uroce/queue_pair.h"

namespace uroce::rdma {

MemoryWindow& MemoryWindow::operator=(MemoryWindow&& other) noexcept {
  if (this == &other) return *this;
  release();
  core_ = std::exchange(other.core_, nullptr);
  key_ = std::exchange(other.key_, 0);
  remote_ = std::exchange(other.remote_, {});
  return *this;
}

void MemoryWindow::release() {
  if (key_ != 0) core_->engine->memory().free_window(key_);
}

PostResult MemoryWindow::bind(QueuePair& qp, const MemoryRegion& region, uint64_t offset, uint32_t bytes,
                              uint32_t access, uint64_t wr_id, uint8_t flags) {
  const RemoteMemory wanted{region.address() + offset, (key_ & ~0xffu) | ((remote_.rkey + 1) & 0xff), bytes};
  SendWr wr;
  wr.wr_id = wr_id;
  wr.opcode = WrOpcode::kBindMw;
  wr.flags = flags;
  wr.bind.mw_rkey = key_;
  wr.bind.new_rkey = wanted.rkey;
  wr.bind.mr_lkey = region.lkey();
  wr.bind.addr = wanted.address;
  wr.bind.length = bytes;
  wr.bind.access = access;
  const PostResult result = qp.post_send(wr);
  if (result == PostResult::kOk) remote_ = wanted;
  return result;
}

PostResult MemoryWindow::invalidate(QueuePair& qp, uint64_t wr_id, uint8_t flags) {
  SendWr wr;
  wr.wr_id = wr_id;
  wr.opcode = WrOpcode::kLocalInv;
  wr.flags = flags;
  wr.imm_or_rkey = remote_.rkey;
  return qp.post_send(wr);
}

MemoryWindow Device::create_window(PdId pd) {
  MemoryWindow window;
  if (!core_->has(pd)) return window;
  window.key_ = core_->engine->memory().allocate_window(pd, true);
  if (window.key_ == 0) return window;
  window.core_ = core_.get();
  window.remote_.rkey = window.key_;
  return window;
}

}  // namespace uroce::rdma
