// What an engine tells beside completions. Calls come from whoever owns the engine, a thread of the endpoint among
// them, in the middle of a turn or of a post: a listener notes what it hears, and never calls the engine.
#pragma once

#include <cstdint>

#include "uroce/export.h"
#include "uroce/types.h"
#include "uroce/work_request.h"

namespace uroce::rdma {

class UROCE_API EventListener {
 public:
  virtual ~EventListener();
  /// What ibv_get_async_event gives for a queue pair.
  virtual void on_qp_event(uint32_t qp_num, AsyncEvent event);
  /// The link came or went, or the port's addresses changed: of endpoints with a thread of their own, which those on a
  /// port of the application's have not when the program alone drives.
  virtual void on_port_event(AsyncEvent event);
  /// A completion queue overran: CompletionQueue::overrun says which.
  virtual void on_cq_error();
  /// A shared receive queue fell below its limit.
  virtual void on_srq_limit();
  /// A work request of ours failed, signalled or not: cause_text(completion.cause) says why.
  virtual void on_error_completion(const Completion& completion);
  /// A peer's request to `qp_num` was refused: why.
  virtual void on_refused_request(uint32_t qp_num, Cause cause);
};

}  // namespace uroce::rdma
