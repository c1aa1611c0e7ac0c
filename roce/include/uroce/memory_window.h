// A temporary key to a part of a memory region: verbs' memory window of type 2.
//
// A window is bound by a work request of a queue pair, and only that queue pair's peer may use it. It ends when it is
// invalidated by either side (`invalidate`, or the peer's SEND with Invalidate), or destroyed. Only then may it be
// bound anew: a bind of a window that is bound completes as kMwBindErr, and the queue pair goes to ERR.
#pragma once

#include <cstdint>

#include "uroce/export.h"
#include "uroce/memory_region.h"
#include "uroce/operations.h"

namespace uroce::rdma {

class QueuePair;
struct DeviceCore;

class UROCE_API MemoryWindow {
 public:
  MemoryWindow() = default;  // none
  ~MemoryWindow() { release(); }
  MemoryWindow(MemoryWindow&& other) noexcept { *this = static_cast<MemoryWindow&&>(other); }
  MemoryWindow& operator=(MemoryWindow&& other) noexcept;
  /// False when there is no window: none was made, or the device had no room for one.
  explicit operator bool() const { return key_ != 0; }

  /// Posts the bind to `bytes` from `offset` on. `access` are kRemoteWrite, kRemoteRead, kRemoteAtomic; the region must
  /// have been registered with kMwBind, and outlives the window. Requests posted after it on the same queue pair may
  /// already tell the peer of it.
  PostResult bind(QueuePair& qp, const MemoryRegion& region, uint64_t offset, uint32_t bytes, uint32_t access,
                  uint64_t wr_id = 0, uint8_t flags = kSendSignaled);
  /// Posts the invalidation: after its completion the key is not valid any more.
  PostResult invalidate(QueuePair& qp, uint64_t wr_id = 0, uint8_t flags = kSendSignaled);
  /// What the peer needs to use the latest posted bind.
  const RemoteMemory& remote() const { return remote_; }

 private:
  friend class Device;
  void release();

  DeviceCore* core_ = nullptr;
  uint32_t key_ = 0;  // as it was made; binds change the low byte
  RemoteMemory remote_{};
};

}  // namespace uroce::rdma
