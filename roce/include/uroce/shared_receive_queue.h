// Receives that several queue pairs share. It lives at least as long as they do: declare it before them.
#pragma once

#include <cstdint>

#include "uroce/export.h"
#include "uroce/handle.h"
#include "uroce/work_request.h"

namespace uroce::rdma {

class UROCE_API SharedReceiveQueue {
 public:
  SharedReceiveQueue() = default;  // none
  /// False: none, or the engine had no room for one, or it would be larger than any may be (limits.h).
  explicit operator bool() const { return queue_ != nullptr; }

  PostResult post(const RecvWr& wr);
  /// EventListener::on_srq_limit comes once, when fewer than `limit` receives are left. 0: never.
  void set_limit(uint32_t limit);

 private:
  friend class Engine;
  Handle<HeldSharedReceiveQueue> queue_;
};

}  // namespace uroce::rdma
