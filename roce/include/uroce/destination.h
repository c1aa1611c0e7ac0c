// Where a datagram of an unreliable datagram (UD) queue pair goes; verbs calls this an address handle.
#pragma once

#include "uroce/export.h"
#include "uroce/handle.h"
#include "uroce/work_request.h"

namespace uroce::rdma {

/// Must live until the work requests that name it have completed.
class UROCE_API Destination {
 public:
  Destination() = default;  // none
  /// False when there is no destination: none was made, the address leads nowhere, or the device had no room for one.
  explicit operator bool() const { return handle_ != nullptr; }

  /// True when the peer's MAC address is known. Datagrams that are posted before that are dropped.
  bool resolved() const;
  /// For SendWr::ah.
  const AddressHandle* handle() const { return handle_.get(); }

 private:
  friend class Device;
  Handle<AddressHandle> handle_;
};

}  // namespace uroce::rdma
