// Aligns our engine's answers with the recorded ones: which belong together, and which may be missing on one side.
#pragma once

#include <unordered_map>
#include <vector>

#include "replay/learned_responder.h"
#include "replay/replay.h"

namespace uroce::replay {

struct OurAnswer {
  Bytes bytes;
  PacketView view;
  size_t cause = 0;  // index of the request, in the conversation's packets
  bool duplicate = false;
  bool refused_send = false;
  std::vector<std::string> reasons;
};

/// For a PSN, the MSN that our responder had when it had carried out everything up to that PSN.
using MsnByPsn = std::unordered_map<uint32_t, uint32_t>;

/// Appends differences, and counts pairs and tolerances.
void pair_answers(const Conversation& conversation, const std::vector<OurAnswer>& ours, const MsnByPsn& progress,
                  RoleResult& result);

}  // namespace uroce::replay
