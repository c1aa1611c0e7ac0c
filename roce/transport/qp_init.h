// What a QP is created with.
#pragma once

#include <optional>

#include "uroce/qp_attributes.h"
#include "uroce/types.h"

namespace uroce {

class CompletionQueue;
class SharedReceiveQueue;

struct QpInit {
  QpType type = QpType::kRc;
  PdId pd = 0;
  CompletionQueue* send_cq = nullptr;  // must outlive the QP; an XRC target has none
  CompletionQueue* recv_cq = nullptr;  // the same; XRC has none
  SharedReceiveQueue* srq = nullptr;   // nullptr: the QP has its own receive queue
  XrcdId xrcd = 0;                     // of an XRC target
  QpCapabilities cap;
  bool sq_sig_all = false;
  bool blocks_own_multicast = false;  // UD: what it sends to a group does not come back to it
  // Memory of the queues that is not the engine's: SendQueue::bytes_for, with device_work_of, and
  // ReceiveQueue::bytes_for, until the QP is destroyed. nullptr: the engine's.
  void* send_memory = nullptr;
  void* receive_memory = nullptr;
  std::optional<LossRecovery> loss_recovery;  // none: the engine's
};

}  // namespace uroce
