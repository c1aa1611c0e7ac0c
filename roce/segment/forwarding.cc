#include "segment/forwarding.h"

#include "packet/host_frames.h"

namespace uroce::segment {
namespace {

/// How often a directory that changes is read because of a frame for somebody unknown.
constexpr Duration kReadForUnknown = milliseconds(2);

}  // namespace

bool concerns_programs(std::span<const uint8_t> frame) {
  const auto link = decode_link(frame);
  if (!link) return false;
  if (const auto arp = decode_arp(*link)) return arp->operation == Arp::kReply || arp->sender_ip == arp->target_ip;
  const auto icmp = decode_icmp(*link);
  const auto message = icmp ? decode_neighbour_message(*icmp) : std::nullopt;
  return message && message->advertisement;
}

void Forwarding::refresh(Instant now) {
  if (now < next_refresh_) return;
  next_refresh_ = now + kReadForUnknown;
  peers_.refresh();
}

Forwarding::Way Forwarding::find(std::span<const uint8_t> frame, Instant now) {
  receivers_.clear();
  const Destination destination = destination_of(frame);
  if (!destination.mac.is_multicast()) refresh(now);
  if (destination.qpn > 1 && !destination.mac.is_multicast()) {
    if (Peer* const peer = peers_.find(destination.mac, destination.qpn)) {
      receivers_.push_back(peer);
      return Way::kPeers;
    }
    return find_for_host(frame, destination);
  }
  const LocalAnswers::Asked asked = answers_.ask(frame);
  if (asked == LocalAnswers::Asked::kKnown) return Way::kAnswered;
  return destination.mac.is_multicast() ? find_for_all(frame, asked) : find_for_host(frame, destination);
}

Forwarding::Way Forwarding::find_for_all(std::span<const uint8_t> frame, LocalAnswers::Asked asked) {
  // A host announces itself once, not once for each of its programs.
  if (role_ == Role::kProgram && asked == LocalAnswers::Asked::kAnnouncement) return Way::kAnswered;
  receivers_ = peers_.stations();
  if (concerns_programs(frame)) {
    peers_.for_each_program([&](Peer& peer) {
      if (peer.lane) receivers_.push_back(&peer);
    });
  }
  if (!receivers_.empty()) return Way::kPeers;
  if (asked != LocalAnswers::Asked::kUnknown) return Way::kNone;
  answers_.warn_of_no_way();
  return Way::kAnswered;
}

Forwarding::Way Forwarding::find_for_host(std::span<const uint8_t> frame, const Destination& destination) {
  bool has_programs = false;
  const bool news = destination.qpn == 0 && concerns_programs(frame);
  Peer* first = nullptr;
  peers_.for_each_program(destination.mac, [&](Peer& peer) {
    has_programs = true;
    if (first == nullptr) first = &peer;
    // Whoever waits for an answer has been in contact with whoever brings it.
    if (news && peer.lane) receivers_.push_back(&peer);
  });
  if (!receivers_.empty()) return Way::kPeers;
  if (has_programs && destination.qpn > 1) return Way::kNobody;
  if (Peer* const station = peers_.station_of(destination.mac)) {
    receivers_.push_back(station);
  } else if (has_programs && !news) {
    receivers_.push_back(first);  // any of them speaks for the host
  } else if (!has_programs) {
    add_ways_out();
  }
  if (!receivers_.empty()) return Way::kPeers;
  return destination.qpn > 1 ? Way::kNobody : Way::kNone;
}

void Forwarding::add_ways_out() {
  for (Peer* peer : peers_.stations()) {
    if (peer->role != Role::kStation) receivers_.push_back(peer);
  }
}

}  // namespace uroce::segment
