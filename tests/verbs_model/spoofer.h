// Somebody who is not on the path between two hosts: sees none of their packets, but knows their addresses, ports and
// QP numbers, has read the specification, and guesses the rest. Sends every kind of packet with a good iCRC.
//
// A guess that hits cannot be told from the peer's own packet; the specification has nothing against it. So this one
// never hits: its PSNs are far from what is under way, on either side, and from what may be held until its turn comes.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "sim/testbed.h"

namespace uroce::model {

/// Memory that the victim's peer may use, for an attacker who has seen its key.
struct Prey {
  uint64_t addr;
  uint32_t bytes;
  uint32_t key;
};

class Spoofer {
 public:
  explicit Spoofer(uint64_t seed) : random_(seed) {}

  /// Sends a packet to `victim` in the name of `peer`.
  void forge(sim::Host& host, const Qp& victim, const Qp& peer, const Prey& prey);

 private:
  Psn far_from(Psn near, uint32_t ahead);
  uint8_t syndrome();

  SeededRandom random_;
};

}  // namespace uroce::model
