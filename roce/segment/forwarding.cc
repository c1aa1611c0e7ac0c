#include "segment/forwarding.h"

#include <algorithm>

#include "packet/group_frames.h"
#include "packet/host_frames.h"

namespace uroce::segment {
bool concerns_programs(std::span<const uint8_t> frame) {
  const auto link = decode_link(frame);
  if (!link) return false;
  if (const auto arp = decode_arp(*link)) return arp->operation == Arp::kReply || arp->sender_ip == arp->target_ip;
  const auto icmp = decode_icmp(*link);
  const auto message = icmp ? decode_neighbour_message(*icmp) : std::nullopt;
  return message && message->advertisement;
}

bool asks_for_groups(std::span<const uint8_t> frame) {
  const auto link = decode_link(frame);
  return link && decode_group_query(*link);
}

/// Programs with flows get copies of frames that are not RoCE, in addition to all other receivers.
Forwarding::Verdict Forwarding::find(std::span<const uint8_t> frame, Instant now) {
  receivers_.clear();
  const FrameAddress destination = address_of_frame(frame);
  const Verdict way = judge(frame, destination, now);
  if (destination.qpn != 0 || peers_.raw_takers().empty()) return way;
  if (way != Verdict::kPeers) receivers_.clear();
  for (Peer* const peer : peers_.raw_takers()) {
    const bool has = std::find(receivers_.begin(), receivers_.end(), peer) != receivers_.end();
    if (!has && peer->takes_raw(destination.mac)) receivers_.push_back(peer);
  }
  return receivers_.empty() ? way : Verdict::kPeers;
}

/// A program was told its peer's number by other means, maybe only just now, and a datagram is sent once: so it scans
/// the directory for every peer that it does not know, however recently it did so for another one. Members of other
/// roles forward frames of strangers, which could make them scan for each frame.
Peer* Forwarding::find_owner(const FrameAddress& destination, Instant now) {
  Peer* const known = peers_.find(destination.mac, destination.qpn);
  if (known != nullptr || role_ != Role::kProgram) return known;
  if (!sought_.is_first(destination.mac, destination.qpn, now)) return nullptr;
  peers_.refresh();
  return peers_.find(destination.mac, destination.qpn);
}

Forwarding::Verdict Forwarding::judge(std::span<const uint8_t> frame, const FrameAddress& destination, Instant now) {
  const bool for_all = destination.mac.is_multicast();
  const bool group = for_all && destination.qpn == kMulticastQpn;
  const bool query = for_all && !group && asks_for_groups(frame);
  if (group || query || !for_all) {
    peers_.refresh_for_frame(now, destination.management ? Peers::kReadForManagement : Peers::kReadForUnknown);
  } else if (destination.qpn == 0) {
    peers_.refresh_for_raw(now);
  }
  if (destination.qpn > 1 && !for_all) {
    if (Peer* const peer = find_owner(destination, now)) {
      receivers_.push_back(peer);
      return Verdict::kPeers;
    }
    return find_for_host(frame, destination);
  }
  if (destination.qpn == kManagementQpn && !for_all) return find_for_management(destination);
  if (group) return find_for_group(destination.mac);
  if (query) return find_for_query();
  const LocalAnswers::Asked asked = answers_.ask(frame);
  if (asked == LocalAnswers::Asked::kKnown) return Verdict::kAnswered;
  return for_all ? find_for_all(frame, asked) : find_for_host(frame, destination);
}

Forwarding::Verdict Forwarding::find_for_all(std::span<const uint8_t> frame, LocalAnswers::Asked asked) {
  // A host announces itself once, not once for each of its programs.
  if (role_ == Role::kProgram && asked == LocalAnswers::Asked::kAnnouncement) return Verdict::kAnswered;
  receivers_ = peers_.stations();
  if (concerns_programs(frame)) {
    peers_.for_each_program([&](Peer& peer) {
      if (peer.lane) receivers_.push_back(&peer);
    });
  }
  if (!receivers_.empty()) return Verdict::kPeers;
  if (asked != LocalAnswers::Asked::kUnknown) return Verdict::kNone;
  if (role_ != Role::kBridge) answers_.warn_of_no_way();
  return Verdict::kAnswered;
}

/// A request for a service goes to the program that listens to it. If none does, any program of the host can reject it.
/// A message without a named receiver goes to all programs that listen: the one that it concerns recognizes it.
Forwarding::Verdict Forwarding::find_for_management(const FrameAddress& destination) {
  if (destination.service_id) {
    if (Peer* const listener = peers_.listener(destination.mac, *destination.service_id)) {
      receivers_.push_back(listener);
      return Verdict::kPeers;
    }
  }
  Peer* first = nullptr;
  peers_.for_each_program(destination.mac, [&](Peer& peer) {
    if (first == nullptr || !first->can_be_met()) first = &peer;
    if (!destination.service_id && !peer.listens.empty()) receivers_.push_back(&peer);
  });
  if (receivers_.empty() && first != nullptr) receivers_.push_back(first);
  if (receivers_.empty()) {
    if (Peer* const station = peers_.station_of(destination.mac)) {
      receivers_.push_back(station);
    } else {
      add_ways_out();
    }
  }
  return receivers_.empty() ? Verdict::kNobody : Verdict::kPeers;
}

/// Each program that has joined groups answers for itself.
Forwarding::Verdict Forwarding::find_for_query() {
  receivers_ = peers_.stations();
  peers_.for_each_program([&](Peer& peer) {
    if (!peer.groups.empty()) receivers_.push_back(&peer);
  });
  return receivers_.empty() ? Verdict::kAnswered : Verdict::kPeers;
}

/// To the programs in the group, and to all stations, which filter for themselves.
Forwarding::Verdict Forwarding::find_for_group(const MacAddress& group) {
  receivers_ = peers_.stations();
  peers_.for_each_program([&](Peer& peer) {
    if (peer.in_group(group)) receivers_.push_back(&peer);
  });
  return receivers_.empty() ? Verdict::kAnswered : Verdict::kPeers;
}

Forwarding::Verdict Forwarding::find_for_host(std::span<const uint8_t> frame, const FrameAddress& destination) {
  bool has_programs = false;
  const bool news = destination.qpn == 0 && concerns_programs(frame);
  Peer* first = nullptr;
  peers_.for_each_program(destination.mac, [&](Peer& peer) {
    has_programs = true;
    if (first == nullptr) first = &peer;
    // A program that waits for an answer has been in contact with the member that brings it.
    if (news && peer.lane) receivers_.push_back(&peer);
  });
  if (!receivers_.empty()) return Verdict::kPeers;
  if (has_programs && destination.qpn > 1) return Verdict::kNobody;
  if (Peer* const station = peers_.station_of(destination.mac)) {
    receivers_.push_back(station);
  } else if (has_programs && !news) {
    receivers_.push_back(first);  // any of them speaks for the host
  } else if (!has_programs) {
    add_ways_out();
  }
  if (!receivers_.empty()) return Verdict::kPeers;
  return destination.qpn > 1 ? Verdict::kNobody : Verdict::kNone;
}

void Forwarding::add_ways_out() {
  for (Peer* peer : peers_.stations()) {
    if (peer->role != Role::kStation) receivers_.push_back(peer);
  }
}

}  // namespace uroce::segment
