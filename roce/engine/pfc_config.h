// Settings of priority flow control (priority_flow_control.h).
#pragma once

#include <cstdint>

#include "packet/mac_control.h"
#include "uroce/time.h"

namespace uroce {

struct PfcConfig {
  uint8_t lossless = 0;     // the priorities that obey and send pauses, as bits; 0: pause frames are ignored
  bool link_pause = false;  // IEEE 802.3x frames stop all priorities
  uint64_t bits_per_second = 100'000'000'000;  // of the link: pauses are measured in its bit times
  uint32_t xoff_frames = 192;                  // received and not processed yet: from here on the neighbour is paused
  uint32_t xon_frames = 48;                    // ... and may go on
  uint16_t quanta = kMaxPauseQuanta;           // of every pause that we send; repeated at half of it
  /// A priority that is paused for this long without a break is taken for stuck (a pause storm, or a deadlock): its
  /// pauses are ignored for `watchdog_restore`. 0: never.
  Duration watchdog = milliseconds(200);
  Duration watchdog_restore = milliseconds(200);
};

}  // namespace uroce
