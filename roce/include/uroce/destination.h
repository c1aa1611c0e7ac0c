// Where a datagram of an unreliable datagram (UD) queue pair goes: verbs' address handle.
#pragma once

#include "uroce/export.h"
#include "uroce/handle.h"
#include "uroce/work_request.h"

namespace uroce::rdma {

/// Lives until the work requests that name it have completed.
class UROCE_API Destination {
 public:
  Destination() = default;  // none
  /// False: none, the address leads nowhere, or the engine had no room for one.
  explicit operator bool() const { return handle_ != nullptr; }

  /// The peer's MAC address is known. Datagrams that are posted earlier are dropped.
  bool resolved() const;
  /// For SendWr::ah.
  const AddressHandle* handle() const { return handle_.get(); }

 private:
  friend class Engine;
  Handle<AddressHandle> handle_;
};

}  // namespace uroce::rdma
