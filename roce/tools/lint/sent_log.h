// What a requester sent, by PSN.
#pragma once

#include <cstdint>
#include <vector>

#include "packet/opcode.h"
#include "uroce/psn.h"

namespace uroce::lint {

/// One request packet.
struct Sent {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t psn = kNone;
  uint32_t span = 1;  // PSNs that it takes: a READ takes those of its responses
  uint32_t payload_bytes = 0;
  uint32_t payload_crc = 0;
  uint32_t header_crc = 0;  // of what a retransmission has as it was: `header_crc_of`
  uint32_t dma_length = 0;  // of the RETH, when there is one
  uint32_t first_psn = 0;   // first PSN of its message, if `message_known`
  uint32_t messages = 0;    // messages that ended with or before it, counted within `epoch`
  uint32_t epoch = 0;       // a run of packets without a gap: counts compare only within one
  uint8_t opcode = 0;
  bool has_crc = false;
  bool message_known = false;
  bool repeated = false;  // seen more than once
  bool over_gap = false;  // came while an earlier one was missing, so its receiver has dropped it

  bool is_set() const { return psn != kNone; }
  Psn end() const { return Psn(psn) + span; }
  const OpcodeInfo& info() const { return opcode_info(opcode); }
  /// True when more packets of its message must follow.
  bool is_open() const { return !info().is_last(); }
  uint32_t messages_before() const { return messages - (info().is_last() ? 1 : 0); }
};

/// Remembers the newest packets: at least those that are not acknowledged, up to kMaxSlots.
class SentLog {
 public:
  static constexpr uint32_t kMaxSlots = 16384;

  const Sent* find(Psn psn) const {
    if (slots_.empty()) return nullptr;
    const Sent& slot = slots_[psn.value() & (slots_.size() - 1)];
    return slot.psn == psn.value() ? &slot : nullptr;
  }
  Sent* find(Psn psn) { return const_cast<Sent*>(static_cast<const SentLog*>(this)->find(psn)); }

  /// Packets from `oldest` on are kept.
  void put(const Sent& sent, Psn oldest) {
    if (slots_.empty()) slots_.resize(16);
    while (slots_.size() < kMaxSlots) {
      const Sent& slot = slots_[sent.psn & (slots_.size() - 1)];
      if (!slot.is_set() || slot.psn == sent.psn || distance(oldest, Psn(slot.psn)) < 0) break;
      grow();
    }
    slots_[sent.psn & (slots_.size() - 1)] = sent;
  }

 private:
  void grow() {
    std::vector<Sent> bigger(slots_.size() * 2);
    for (const Sent& slot : slots_) {
      if (slot.is_set()) bigger[slot.psn & (bigger.size() - 1)] = slot;
    }
    slots_ = std::move(bigger);
  }
  std::vector<Sent> slots_;
};

}  // namespace uroce::lint
