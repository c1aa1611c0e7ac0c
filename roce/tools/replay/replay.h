// Lets our engine take one side of a recorded conversation, and compares what it sends with what was recorded.
//
//   Recording recording = read_recording(file);
//   MemoryPlayerPort player_port;
//   for (conversation, role) RoleResult result = replay(recording, conversation, role, options, player_port);
//
// As responder, the engine receives the recorded requests at their times, and its answers are compared with the
// recorded ones. As requester, work requests are made from the recorded requests and posted when their first packet was
// sent; the engine receives the recorded answers, and its requests are compared.
#pragma once

#include <string>
#include <vector>

#include "replay/compare.h"
#include "replay/parameters.h"
#include "replay/player_port.h"
#include "replay/recording.h"

namespace uroce::replay {

struct ReplayOptions {
  Parameters parameters;
  uint32_t withheld = 0;  // tolerances that are not granted: ToleranceUse::bit
};

enum class ReplayOutcome : uint8_t { kSame, kDifferent, kSkipped };

struct RoleResult {
  ReplayOutcome outcome = ReplayOutcome::kSame;
  uint32_t mtu = 1024;
  std::string why;        // if skipped: why
  uint64_t injected = 0;  // recorded packets that were delivered to our engine
  uint64_t compared = 0;  // pairs
  std::vector<Difference> differences;
  ToleranceUse used{};
  std::vector<uint64_t> lost_frames;  // requests that were taken to be lost on the way
  std::vector<std::string> learned;   // "path MTU 1024", ...
};

/// Replays over `player_port`, which can be used for one conversation and role after the other.
RoleResult replay(const Recording& recording, size_t conversation, Role role, const ReplayOptions& options,
                  PlayerPort& player_port);
/// The two halves of `replay`.
RoleResult replay_responder(const Conversation& conversation, const ReplayOptions& options, PlayerPort& player_port);
RoleResult replay_requester(const Conversation& conversation, const ReplayOptions& options, PlayerPort& player_port);

}  // namespace uroce::replay
