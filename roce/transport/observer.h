// What the transport reports to the code above it. There is one observer per engine. Every call comes from the thread
// that owns the engine, in the middle of a turn or of a post: implementations queue or log, and never call back into
// the engine.
#pragma once

#include <cstdint>

#include "uroce/types.h"
#include "uroce/work_request.h"

namespace uroce {

struct NeighbourNews;  // engine/neighbour_news.h
class CompletionQueue;
class SharedReceiveQueue;
class Qp;

class Observer {
 public:
  virtual ~Observer() = default;
  /// An armed queue has a completion for the program; it is disarmed now. Also called from CompletionQueue::arm.
  virtual void on_cq_event(CompletionQueue& /*cq*/) {}
  virtual void on_qp_event(Qp& /*qp*/, AsyncEvent /*event*/) {}
  /// The link came or went, or the port's addresses changed.
  virtual void on_port_event(AsyncEvent /*event*/) {}
  virtual void on_cq_error(CompletionQueue& /*cq*/) {}
  virtual void on_srq_limit(SharedReceiveQueue& /*srq*/) {}
  /// A completion in error, with its cause; called for unsignalled ones too.
  virtual void on_error_completion(const Qp& /*qp*/, const Completion& /*completion*/) {}
  /// A bind completed in error: the window still has `key`, although the program was told another one when it posted
  /// the bind.
  virtual void on_bind_error(void* /*window's user*/, const MwBind& /*bind*/, uint32_t /*key*/) {}
  /// A peer's request was refused for this cause: the responder sent a fatal NAK, or an unreliable connection used up
  /// its budget of wrong keys (key_guard.h).
  virtual void on_responder_error(const Qp& /*qp*/, Cause /*cause*/) {}
  /// An address moved to another MAC, or two hosts claim it.
  virtual void on_neighbour_news(const NeighbourNews& /*news*/) {}
};

}  // namespace uroce
