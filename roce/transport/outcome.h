// What a step of the transport's says of the queue pair.
#pragma once

#include <cstdint>

namespace uroce {

/// Whoever gets another one than kGoesOn ends its call without another step and returns it to its caller; the Qp acts
/// on it.
enum class [[nodiscard]] Outcome : uint8_t{
    kGoesOn,
    kSendQueueFailed,  // UC and UD: the send queue goes to error (SQE), receiving goes on
    kFailed,           // the QP goes to error
};

/// What a call for a frame came to. There may be a frame although the QP has failed: the last of the message whose
/// completion found no room.
struct [[nodiscard]] Polled {
  bool frame = false;
  Outcome outcome = Outcome::kGoesOn;
};

}  // namespace uroce
