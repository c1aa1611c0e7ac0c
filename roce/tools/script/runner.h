// Runs a script against an engine of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "script/script.h"
#include "uroce/time.h"

namespace uroce::script {

/// A packet of the timeline, for a capture.
struct TimelineFrame {
  Duration at;
  bool sent = false;
  std::vector<uint8_t> bytes;
};

struct Result {
  bool passed = false;
  /// What went wrong, with file and line, both sides of the comparison, the timeline so far and the reasons that the
  /// engine gave; empty when nothing did.
  std::string report;
  /// What happened, a line each.
  std::vector<std::string> timeline;
  std::vector<TimelineFrame> frames;
};

/// With `keep_frames`, Result::frames is filled. Throws ScriptError when the script asks for something impossible.
Result run(const Script& script, bool keep_frames = false);

}  // namespace uroce::script
