#include "replay/replay.h"

namespace uroce::replay {

namespace {

RoleResult skipped(const char* why) {
  RoleResult result;
  result.outcome = ReplayOutcome::kSkipped;
  result.why = why;
  return result;
}

}  // namespace

RoleResult replay(const Recording& recording, size_t index, Role role, const ReplayOptions& options,
                  PlayerPort& player_port) {
  const Conversation& conversation = recording.conversations.at(index);
  const Service service = conversation.service;
  if (service != Service::kRc && service != Service::kUc && service != Service::kUd) {
    return skipped("our engine does not speak this service");
  }
  if (conversation.cut) return skipped("the capture has not all bytes of these packets");
  if (conversation.requester == conversation.responder) return skipped("both ends have the same address");
  if (service == Service::kRc && !conversation.requester_qpn && role == Role::kResponder) {
    return skipped("nothing in the capture answers, so nothing tells the requester's QP");
  }
  RoleResult result = role == Role::kResponder ? replay_responder(conversation, options, player_port)
                                               : replay_requester(conversation, options, player_port);
  if (result.outcome != ReplayOutcome::kSkipped && !result.differences.empty())
    result.outcome = ReplayOutcome::kDifferent;
  return result;
}

}  // namespace uroce::replay
