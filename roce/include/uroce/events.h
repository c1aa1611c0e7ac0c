// What a device reports beside completions. Calls come from the thread that owns the device, which may be a thread of
// the endpoint, in the middle of a turn or of a post: a listener only takes notes, and must never call the device.
#pragma once

#include <cstdint>

#include "uroce/export.h"
#include "uroce/types.h"
#include "uroce/work_request.h"

namespace uroce::rdma {

class UROCE_API EventListener {
 public:
  virtual ~EventListener();
  /// An event that verbs would return from ibv_get_async_event for a queue pair.
  virtual void on_qp_event(uint32_t qp_num, AsyncEvent event);
  /// The link came or went, or the port's addresses changed. Reported only by endpoints with a thread of their own; an
  /// endpoint on a port of the application has none when only the program drives (Drive::kProgram).
  virtual void on_port_event(AsyncEvent event);
  /// A completion queue overran; CompletionQueue::overrun tells which.
  virtual void on_cq_error();
  /// A shared receive queue fell below its limit.
  virtual void on_srq_limit();
  /// A work request of this program failed, signalled or not; cause_text(completion.cause) says why.
  virtual void on_error_completion(const Completion& completion);
  /// A peer's request to `qp_num` was refused for this cause.
  virtual void on_refused_request(uint32_t qp_num, Cause cause);
};

}  // namespace uroce::rdma
