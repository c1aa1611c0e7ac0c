// How a QP finds out whether its peer knows selective repeat too (doc/adr/0015).
#pragma once

#include <cstdint>

#include "uroce/types.h"

namespace uroce {

/// Watches the signatures of what a peer sends.
class PeerRecognition {
 public:
  static constexpr uint8_t kInARow = 3;

  explicit PeerRecognition(LossRecovery recovery) : recovery_(recovery) {}

  /// A packet with a good iCRC arrived. After one without a signature, the peer is no longer taken to know selective
  /// repeat.
  void on_packet(bool is_signed) {
    if (!is_signed) {
      signed_ = 0;
    } else if (signed_ < kInARow) {
      signed_++;
    }
  }
  void forget() { signed_ = 0; }

  /// Whether this side signs its packets and understands selective ACKs.
  bool enabled() const { return recovery_ != LossRecovery::kGoBackN; }
  /// Whether the peer does.
  bool selective() const {
    return recovery_ == LossRecovery::kSelective || (recovery_ == LossRecovery::kAuto && signed_ == kInARow);
  }

 private:
  LossRecovery recovery_;
  uint8_t signed_ = 0;
};

}  // namespace uroce
