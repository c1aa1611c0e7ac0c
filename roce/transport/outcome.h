// What a step of the transport says about the queue pair.
#pragma once

#include <cstdint>

namespace uroce {

/// A function that gets another outcome than kGoesOn takes no further step and returns that outcome to its caller; the
/// Qp acts on it.
enum class [[nodiscard]] Outcome : uint8_t{
    kGoesOn,
    kSendQueueFailed,  // UC and UD: the send queue goes to error (SQE), receiving goes on
    kFailed,           // the QP goes to error
};

/// The result of a call for a frame. There may be a frame although the QP has failed: it is the last one of a message
/// whose completion found no room in its queue.
struct [[nodiscard]] PollResult {
  bool frame = false;
  Outcome outcome = Outcome::kGoesOn;
};

}  // namespace uroce
