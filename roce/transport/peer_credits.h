// End-to-end credits: how many messages the peer has receives for, according to its ACKs.
#pragma once

#include <cstdint>
#include <optional>

#include "packet/headers.h"
#include "transport/timing.h"
#include "uroce/psn.h"

namespace uroce {

class PeerCredits {
 public:
  /// A new connection: nothing is known, and nothing is forbidden.
  void reset() { limit_.reset(); }
  /// To be called with every ACK. A peer may stop giving credits at any time; then nothing is forbidden.
  void learn(const Aeth& aeth) {
    const uint8_t code = aeth_value(aeth.syndrome);
    limit_.reset();
    if (code != kCreditsInvalid) limit_ = Psn(aeth.msn + credits_of(code));
  }
  /// May the message with this send sequence number be sent, if it takes a receive?
  bool allow(uint32_t ssn) const { return !limit_ || !limit_->before(Psn(ssn)); }

 private:
  std::optional<Psn> limit_;  // the highest SSN that the peer has a receive for: 24 bits, as PSNs are
};

}  // namespace uroce
