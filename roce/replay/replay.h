// Plays one side of a recorded conversation against our engine and compares what it sends with what was sent.
//
//   Recording recording = read_recording(file);
//   MemoryAttachment attachment;
//   for (conversation, role) RoleResult result = replay(recording, conversation, role, options, attachment);
//
// As responder: recorded requests are handed in at their times, our answers are compared with the recorded ones. As
// requester: work requests are made from the recorded requests and posted when their first packet was sent, recorded
// answers are handed in, our requests are compared.
#pragma once

#include <string>
#include <vector>

#include "replay/attachment.h"
#include "replay/compare.h"
#include "replay/parameters.h"
#include "replay/recording.h"

namespace uroce::replay {

struct ReplayOptions {
  Parameters parameters;
  uint32_t withheld = 0;  // tolerances that are not granted: ToleranceUse::bit
};

enum class Outcome : uint8_t { kSame, kDifferent, kSkipped };

struct RoleResult {
  Outcome outcome = Outcome::kSame;
  uint32_t mtu = 1024;
  std::string why;        // skipped: why
  uint64_t injected = 0;  // recorded packets handed to our engine
  uint64_t compared = 0;  // pairs
  std::vector<Difference> differences;
  ToleranceUse used{};
  std::vector<uint64_t> lost_frames;  // requests taken as lost on the way
  std::vector<std::string> learned;   // "path MTU 1024", ...
};

/// Over `attachment`, which is used for one conversation and role after the other.
RoleResult replay(const Recording& recording, size_t conversation, Role role, const ReplayOptions& options,
                  Attachment& attachment);
/// The parts of it.
RoleResult replay_responder(const Conversation& conversation, const ReplayOptions& options, Attachment& attachment);
RoleResult replay_requester(const Conversation& conversation, const ReplayOptions& options, Attachment& attachment);

}  // namespace uroce::replay
