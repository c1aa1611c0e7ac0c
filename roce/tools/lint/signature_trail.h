// Finds out whether the sender of a flow signs its packets (wire/signature.h). The signature depends on the sender's
// own QP number, which only the flow in the other direction shows: until that is known, the newest packets are kept.
#pragma once

#include <array>
#include <cstdint>

#include "packet/packet.h"
#include "packet/signature.h"

namespace uroce::lint {

class SignatureTrail {
 public:
  void on_packet(const PacketView& view) {
    if (signature_.is_set()) return judge(view);
    waiting_[packets_++ % waiting_.size()] = {view.flow_id, view.bth.psn, view.ipv6};
  }

  /// QP `source` sends to QP `destination`.
  void set_ends(uint32_t source, uint32_t destination) {
    if (signature_.is_set()) return;
    signature_ = Signature(source, destination);
    const uint64_t seen = packets_;
    packets_ = seen > waiting_.size() ? seen - waiting_.size() : 0;
    while (packets_ != seen) {
      const Mark& mark = waiting_[packets_ % waiting_.size()];
      PacketView view;
      view.flow_id = mark.flow_id;
      view.bth.psn = mark.psn;
      view.ipv6 = mark.ipv6;
      judge(view);
    }
  }

  uint64_t packets() const { return packets_; }
  /// True when the newest packet was signed.
  bool signs() const { return in_a_row_ != 0; }
  /// True when three packets in a row were signed at some time, which does not happen by chance.
  bool known() const { return known_; }
  /// True when at least one packet was not signed, and no three in a row were signed since: then no peer may assume
  /// that the sender knows selective repeat.
  bool is_stranger() const { return unsigned_seen_ && in_a_row_ < kInARow; }

 private:
  static constexpr uint8_t kInARow = 3;
  struct Mark {
    uint32_t flow_id = 0;
    Psn psn;
    bool ipv6 = false;
  };

  void judge(const PacketView& view) {
    packets_++;
    if (!view.signed_with(signature_)) {
      in_a_row_ = 0;
      unsigned_seen_ = true;
    } else if (in_a_row_ < kInARow && ++in_a_row_ == kInARow) {
      known_ = true;
    }
  }

  Signature signature_;
  std::array<Mark, 4> waiting_{};
  uint64_t packets_ = 0;
  uint8_t in_a_row_ = 0;
  bool unsigned_seen_ = false;
  bool known_ = false;
};

}  // namespace uroce::lint
