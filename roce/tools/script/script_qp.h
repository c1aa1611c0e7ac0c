// A queue pair of a script, and what was seen of it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "engine/engine.h"
#include "packet/route_header.h"
#include "transport/address_handle.h"
#include "transport/completion_queue.h"

namespace uroce::script {

inline constexpr Instant kStart{1'000'000'000};  // the script's time 0

struct SeenCompletion {
  Instant at;
  Completion completion;
};

/// A QP and what the script said of it.
struct ScriptQp {
  uint32_t id = 0;
  Qp* qp = nullptr;
  CompletionQueue* cq = nullptr;
  QpAttributes attributes;
  uint32_t peer_qpn = 0;
  Route from_peer;  // of its packets
  QpState expected_state = QpState::kReset;
  SharedReceiveQueue* srq = nullptr;
  std::unique_ptr<AddressHandle> ah;  // UD
  std::deque<SeenCompletion> completions;
  std::deque<AsyncEvent> events;
};

using ScriptQps = std::map<uint32_t, std::unique_ptr<ScriptQp>>;  // by their numbers

}  // namespace uroce::script
