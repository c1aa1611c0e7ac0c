// Whether a peer's memory can be reached without frames, as far as this member has found out.
#pragma once

#include <cstdint>

#include "segment/mailbox.h"
#include "uroce/time.h"

namespace uroce::segment {

struct DirectWay {
  enum class State : uint8_t { kUntried, kOpen, kClosed };
  LetterSender process = {};  // who said hello
  State state = State::kUntried;
  Instant proven{0};      // when the process was last seen to be the member
  bool admitted = false;  // the peer may copy to and from our memory
  bool barred = false;    // and never again
  Duration waited{0};     // for its copies, in all
};

}  // namespace uroce::segment
