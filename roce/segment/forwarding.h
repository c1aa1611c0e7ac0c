// Where a frame goes that is not for the queue pair of a program with which there was contact: questions for addresses,
// frames for stations, and what leaves the segment.
//
// It behaves as a switch that knows all its hosts: what is for everybody goes to the stations, since programs need
// nothing of it (their questions are answered from the directory), and what is for nobody on the segment goes to those
// behind which there are others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "segment/destination.h"
#include "segment/local_answers.h"
#include "segment/peers.h"
#include "segment/recently_sought.h"
#include "uroce/time.h"

namespace uroce::segment {

/// Whether a frame that is for no queue pair tells of neighbours what programs may want to know: it answers a question
/// of theirs, or somebody announces himself.
bool concerns_programs(std::span<const uint8_t> frame);
/// Whether it asks who wants multicast groups.
bool asks_for_groups(std::span<const uint8_t> frame);

class Forwarding {
 public:
  /// Both outlive the forwarding. `role`: of this member.
  Forwarding(Peers& peers, LocalAnswers& answers, Role role) : peers_(peers), answers_(answers), role_(role) {}

  enum class Way : uint8_t {
    kPeers,     // to all `receivers`
    kAnswered,  // to nobody: the answer waits, or nobody needs it
    kNobody,    // for a queue pair that no member has
    kNone,      // nobody on the segment wants it
  };
  /// Looks into the directory where that may help.
  Way find(std::span<const uint8_t> frame, Instant now);
  /// Of the last `find`; valid until the next one, or until a peer is removed.
  const std::vector<Peer*>& receivers() const { return receivers_; }

 private:
  Peer* find_owner(const Destination& destination, Instant now);
  Way find_way(std::span<const uint8_t> frame, const Destination& destination, Instant now);
  Way find_for_all(std::span<const uint8_t> frame, LocalAnswers::Asked asked);
  Way find_for_group(const MacAddress& group);
  Way find_for_query();
  Way find_for_management(const Destination& destination);
  Way find_for_host(std::span<const uint8_t> frame, const Destination& destination);
  void add_ways_out();

  Peers& peers_;
  LocalAnswers& answers_;
  const Role role_;
  std::vector<Peer*> receivers_;
  RecentlySought sought_;
};

}  // namespace uroce::segment
