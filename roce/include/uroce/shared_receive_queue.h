// Receives that several queue pairs share. The queue must live at least as long as they do: declare it before them. All
// calls must come from the thread that owns the device at the time (device.h).
#pragma once

#include <cstdint>

#include "uroce/export.h"
#include "uroce/handle.h"
#include "uroce/work_request.h"

namespace uroce::rdma {

class UROCE_API SharedReceiveQueue {
 public:
  SharedReceiveQueue() = default;  // none
  /// False when there is no queue: none was made, the device had no room for one, or it would have been too large
  /// (limits.h).
  explicit operator bool() const { return queue_ != nullptr; }

  PostResult post(const RecvWr& wr);
  /// EventListener::on_srq_limit is called once, when fewer than `limit` receives are left. With 0 it is never called.
  void set_limit(uint32_t limit);

 private:
  friend class Device;
  Handle<HeldSharedReceiveQueue> queue_;
};

}  // namespace uroce::rdma
