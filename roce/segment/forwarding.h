// Where frames go that are not for the queue pair of a program in contact: address resolution, frames for stations, and
// frames that leave the segment.
//
// It behaves as a switch that knows all its hosts: broadcasts go to the stations, since programs do not need them
// (address resolution is answered from the directory), and frames for unknown destinations go to the members that lead
// to other networks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "segment/frame_address.h"
#include "segment/local_answers.h"
#include "segment/peers.h"
#include "segment/recently_sought.h"
#include "uroce/time.h"

namespace uroce::segment {

/// Whether a frame that is for no queue pair has news of neighbours for programs: an answer to address resolution, or
/// an announcement.
bool concerns_programs(std::span<const uint8_t> frame);
/// Whether the frame is a query for multicast group members.
bool asks_for_groups(std::span<const uint8_t> frame);

class Forwarding {
 public:
  /// Both outlive the forwarding. `role`: of this member.
  Forwarding(Peers& peers, LocalAnswers& answers, Role role) : peers_(peers), answers_(answers), role_(role) {}

  enum class Verdict : uint8_t {
    kPeers,     // to all `receivers`
    kAnswered,  // to no peer: the answer is queued, or no peer needs the frame
    kNobody,    // for a queue pair that no member has
    kNone,      // no member of the segment wants it
  };
  /// Looks into the directory where that may help.
  Verdict find(std::span<const uint8_t> frame, Instant now);
  /// Of the last `find`; valid until the next one, or until a peer is removed.
  const std::vector<Peer*>& receivers() const { return receivers_; }

 private:
  Peer* find_owner(const FrameAddress& destination, Instant now);
  Verdict judge(std::span<const uint8_t> frame, const FrameAddress& destination, Instant now);
  Verdict find_for_all(std::span<const uint8_t> frame, LocalAnswers::Asked asked);
  Verdict find_for_group(const MacAddress& group);
  Verdict find_for_query();
  Verdict find_for_management(const FrameAddress& destination);
  Verdict find_for_host(std::span<const uint8_t> frame, const FrameAddress& destination);
  void add_ways_out();

  Peers& peers_;
  LocalAnswers& answers_;
  const Role role_;
  std::vector<Peer*> receivers_;
  RecentlySought sought_;
};

}  // namespace uroce::segment
