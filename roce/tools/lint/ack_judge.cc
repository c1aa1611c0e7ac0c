#include "lint/ack_judge.h"

namespace uroce::lint {

AckJudge::Meaning AckJudge::on_ack(const Packet& packet) {
  const Psn psn = packet.psn();
  const Read* const read = seen_.sent.find_read(psn);
  if (takes_place_of_response(packet, read)) {
    const char* const what = read->atomic() ? "an atomic" : "a READ";
    report_.blame_responder(Rule::kAckForRead, packet.frame,
                            sentence("ACK for PSN %u, which is %s; expected %s response", val(psn), what, what));
    return Meaning::kNothing;
  }
  if (leaves_out_reads(psn)) return Meaning::kPackets;
  if (goes_back(packet)) return Meaning::kNothing;
  return read == nullptr ? Meaning::kWholeMessages : Meaning::kPackets;
}

bool AckJudge::goes_back(const Packet& packet) {
  const Psn acked = seen_.numbers.acked;
  if (distance(packet.psn(), acked) <= 1) return false;
  const char* const name = packet.info().operation == Operation::kSelectiveAck ? "SACK" : "ACK";
  report_.blame_responder(Rule::kAckBack, packet.frame,
                          sentence("%s for PSN %u after PSN %u was acknowledged; expected PSN %u or later", name,
                                   val(packet.psn()), val(acked - 1), val(acked - 1)));
  return true;
}

/// `read` is the READ or atomic with the PSN of the ACK. Two kinds of ACK carry the latest PSN whatever it belongs to:
/// the answer to a duplicate, and an update of the credits. The response itself may have been lost before the tap.
bool AckJudge::takes_place_of_response(const Packet& packet, const Read* read) const {
  if (read == nullptr || !read->untouched()) return false;
  const bool duplicates = seen_.repeats() != read->repeats_before;
  const bool credits =
      aeth_value(packet.view.aeth().syndrome) != kCreditsInvalid && packet.direction != pcap::FrameDirection::kSent;
  return !duplicates && !credits;
}

/// True when the ACK may answer a duplicate and leaves out READs and atomics that were answered. An ACK must not name
/// those, so some responders name the packet before them.
bool AckJudge::leaves_out_reads(Psn psn) const {
  const uint64_t repeats = seen_.repeats();
  const Read* read = repeats == 0 ? nullptr : seen_.sent.find_read(psn + 1);
  if (read == nullptr || read->repeats_before == repeats) return false;
  while (read != nullptr && distance(read->end(), seen_.numbers.acked) > 0) read = seen_.sent.find_read(read->end());
  return read != nullptr;
}

}  // namespace uroce::lint
