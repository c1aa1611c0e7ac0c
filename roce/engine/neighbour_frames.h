// The frames in which we ask for neighbours, answer them, and announce ourselves: ARP for IPv4, neighbour discovery for
// IPv6, which serve the same purpose.
#pragma once

#include <cstdint>
#include <span>

#include "engine/neighbour_table.h"
#include "packet/host_frames.h"
#include "transport/counters.h"
#include "uroce/address.h"

namespace uroce {

/// Each function writes a whole frame and returns its bytes; 0: it does not fit. Counts them.
class NeighbourFrames {
 public:
  /// `mac`: our own.
  NeighbourFrames(const MacAddress& mac, Counters& counters) : mac_(mac), counters_(counters) {}

  /// Gratuitous ARP, or an unsolicited advertisement.
  uint32_t write_announcement(std::span<uint8_t> out, const LocalAddress& address);
  uint32_t write_question(std::span<uint8_t> out, const NeighbourQuestion& question);
  /// The reply to a request for `ours`.
  uint32_t write_reply(std::span<uint8_t> out, const Arp& request, const LocalAddress& ours);
  uint32_t write_reply(std::span<uint8_t> out, const LinkFrame& link, const NeighbourMessage& solicitation,
                       const LocalAddress& ours);

 private:
  uint32_t write_advertisement_to_all(std::span<uint8_t> out, const LocalAddress& ours);
  uint32_t write_advertisement(std::span<uint8_t> out, const LocalAddress& ours, const IpAddress& to_ip,
                               const MacAddress& to, bool solicited);

  const MacAddress mac_;
  Counters& counters_;
};

}  // namespace uroce
