// One direction of a connected QP pair as a wire tap saw it: the requests of one side and the answers of the other,
// without any judgement.
//
// The channel that owns it is the only one that changes it, packet by packet; the judges read it.
#pragma once

#include <cstdint>
#include <optional>

#include "lint/channel_statistics.h"
#include "lint/numbers.h"
#include "lint/packet.h"
#include "lint/sent_requests.h"
#include "lint/signature_trail.h"

namespace uroce::lint {

/// What became of a request. `kRestarted`: it belongs to a later life of the QP number, that is, to another QP with the
/// same number, and was not taken.
enum class Verdict : uint8_t { kTaken, kRestarted };

/// Whether the requester and the responder sign their packets. Both trails belong to the flows, and are null as long as
/// the two flows are not known to belong together.
struct Signatures {
  const SignatureTrail* requests = nullptr;
  const SignatureTrail* responses = nullptr;

  bool known() const { return requests != nullptr && responses != nullptr; }
  bool responder_signs() const { return responses != nullptr && responses->signs(); }
  /// True when both sides sign, and so may use selective repeat.
  bool of_both() const {
    if (!known()) return false;
    if (!requests->signs() && !requests->known()) return false;
    if (!responses->signs() && !responses->known()) return false;
    return requests->known() || responses->known();
  }
};

struct Conversation {
  explicit Conversation(Service used) : service(used) {}

  Service service;
  bool lossy_capture = false;  // the capture says that it lost frames
  bool behind_losses = false;  // packets were lost before the tap
  Numbers numbers;
  SentRequests sent;
  Signatures signatures;
  ChannelStatistics statistics;
  uint64_t packets = 0;              // those of both sides
  std::optional<Instant> last_time;  // of the newest packet

  bool selective() const { return signatures.of_both(); }
  /// A capture that begins in the middle has shown little so far: with selective repeat maybe only single packets that
  /// were sent again.
  bool is_young() const { return !numbers.from_start() && statistics.requests < kFirstRequests; }
  /// Packets that were seen again, or late.
  uint64_t repeats() const { return statistics.retransmitted + statistics.late; }
  /// The oldest PSN for which the requester may still wait.
  Psn oldest_in_doubt() const { return sent.reads().oldest_in_doubt(numbers.acked).value_or(numbers.acked); }

  void note_time(const Packet& packet) {
    last_time = packet.has_time ? std::optional<Instant>(packet.time) : std::nullopt;
  }
  /// The requester begins again, and nothing that was seen explains it: counts a timeout.
  void count_timeout(const Packet& packet);
  /// A request that is not new comes. Go-back-N leaves out only what was acknowledged in the meantime: when this
  /// request jumps over more, packets were lost before the tap.
  void note_jump(Psn psn) {
    if (distance(numbers.position, psn) > 0 && distance(numbers.acked, psn) > 0) behind_losses = true;
  }
  /// An answered request was sent, even if that was before the capture.
  void learn_frontier(Psn end);
  /// `payload_bytes` is the payload of a packet that has to be full.
  void learn_mtu(uint32_t payload_bytes);

 private:
  static constexpr uint64_t kFirstRequests = 64;
};

}  // namespace uroce::lint
