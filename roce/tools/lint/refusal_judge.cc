#include "lint/refusal_judge.h"

#include "lint/rnr_timer.h"

namespace uroce::lint {
namespace {

const char* nak_name(uint8_t code) {
  static constexpr const char* kNames[] = {"PSN sequence error", "invalid request", "remote access error",
                                           "remote operational error", "invalid RD request"};
  return code < 5 ? kNames[code] : "reserved code";
}

}  // namespace

RefusalJudge::Reason RefusalJudge::on_back(const Packet& packet) {
  if (rnr_.is_open() && explains(rnr_, packet)) return Reason::kRnrNak;
  if (nak_.is_open() && explains(nak_, packet)) return Reason::kNak;
  return Reason::kNone;
}

/// True when the refusal explains the step back.
bool RefusalJudge::explains(Refusal& refusal, const Packet& packet) {
  const int32_t behind_named = distance(refusal.psn, packet.psn());
  if (behind_named == 0) return true;
  if (behind_named > 0) {
    if (refusal.state == Refusal::State::kOpen) {
      refusal.state = Refusal::State::kBegunBehind;
      refusal.behind_frame = packet.frame;
      refusal.behind_psn = packet.psn();
    }
    return true;
  }
  // The packet is before the PSN that was named: a timer may have run out while the NAK was on its way, and then the
  // requester starts with the oldest PSN in doubt. If packets were lost before the tap, the first packets of that run
  // may be missing.
  if (distance(refusal.una, packet.psn()) <= 0) return false;
  // Only its own response acknowledges a READ, so the requester may ask for that response first.
  if (refusal.read_in_doubt || seen_.sent.find_read(packet.psn()) != nullptr) return false;
  if (seen_.behind_losses && packet.direction != pcap::FrameDirection::kSent) return false;
  // With selective repeat it may be a single packet that was under way when the NAK left.
  if (seen_.selective() && packet.direction != pcap::FrameDirection::kSent) return false;
  report_.blame_requester(
      Rule::kRetransmitStart, packet.frame,
      sentence("retransmission starts with %s PSN %u after the NAK of frame %llu; expected PSN %u",
               opcode_name(packet.opcode()), val(packet.psn()), long_val(refusal.frame), val(refusal.psn)));
  return true;
}

/// The requester sends what was refused. Checks that it waited as long as it was told.
void RefusalJudge::check_answer(const Packet& packet, uint32_t span) {
  if (nak_.is_open() && covers(packet.psn(), span, nak_.psn)) nak_.settle();
  if (!rnr_.is_open() || !covers(packet.psn(), span, rnr_.psn)) return;
  rnr_.settle();
  if (!rnr_.time || !packet.has_time) return;
  const int64_t waited_ns = packet.time.ns - rnr_.time->ns;
  const int64_t asked_ns = rnr_timer(rnr_.code).ns;
  // Tolerates a little jitter in the time stamps of the capture.
  if (waited_ns >= asked_ns - asked_ns / 50 - 10'000) return;
  report_.blame_requester(
      Rule::kRnrEarly, packet.frame,
      sentence("PSN %u sent again %.3f ms after the RNR NAK of frame %llu; expected to wait %.3f ms (timer code %u)",
               val(rnr_.psn), static_cast<double>(waited_ns) / 1e6, long_val(rnr_.frame),
               static_cast<double>(asked_ns) / 1e6, rnr_.code));
}

bool RefusalJudge::is_too_late(const Packet& packet) {
  if (distance(packet.psn(), seen_.numbers.acked) <= 0) return false;
  const uint8_t syndrome = packet.view.aeth().syndrome;
  const char* const what = aeth_kind(syndrome) == AethKind::kRnrNak ? "RNR" : nak_name(aeth_value(syndrome));
  report_.blame_responder(Rule::kNakAcked, packet.frame,
                          sentence("NAK \"%s\" for PSN %u after PSN %u was acknowledged; expected an ACK or silence",
                                   what, val(packet.psn()), val(seen_.numbers.acked - 1)));
  return true;
}

bool RefusalJudge::on_rnr_nak(const Packet& packet) {
  if (!rnr_.is_open()) return false;
  if (may_be_under_way(rnr_)) return true;
  report_.blame_responder(Rule::kNakRepeated, packet.frame,
                          sentence("RNR NAK for PSN %u while that of frame %llu for PSN %u is open; expected silence",
                                   val(packet.psn()), long_val(rnr_.frame), val(rnr_.psn)));
  return false;
}

void RefusalJudge::open_rnr(const Packet& packet, Psn una, bool again) {
  // A second refusal of the same packet does not make the wait longer.
  const bool same_wait = again && rnr_.psn == packet.psn();
  const Instant since = same_wait ? rnr_.time.value_or(Instant{}) : packet.time;
  rnr_ = Refusal{};
  rnr_.state = Refusal::State::kOpen;
  rnr_.psn = packet.psn();
  rnr_.frame = packet.frame;
  if (packet.has_time) rnr_.time = since;
  rnr_.code = aeth_value(packet.view.aeth().syndrome);
  rnr_.una = una;
}

void RefusalJudge::on_sequence_nak(const Packet& packet, std::optional<Psn> missing) {
  const Psn psn = packet.psn();
  if (nak_.is_open() && (psn == nak_.psn || !may_be_under_way(nak_))) {
    report_.blame_responder(Rule::kNakRepeated, packet.frame,
                            sentence("NAK for PSN %u while that of frame %llu for PSN %u is open; expected silence",
                                     val(psn), long_val(nak_.frame), val(nak_.psn)));
  } else if (rnr_.is_open()) {
    report_.blame_responder(
        Rule::kNakAfterRnr, packet.frame,
        sentence("NAK for PSN %u while the RNR wait of frame %llu for PSN %u runs; expected silence", val(psn),
                 long_val(rnr_.frame), val(rnr_.psn)));
  }
  const Sent* const sent = seen_.sent.find(psn);
  // A packet that was dropped because of a gap is still missing after the gap has closed.
  const bool dropped = sent != nullptr && sent->over_gap;
  const Numbers& numbers = seen_.numbers;
  if (!numbers.tip_open && sent != nullptr && !dropped && distance(sent->end(), numbers.next) <= 0) {
    report_.blame_responder(
        Rule::kNakPsn, packet.frame,
        sentence("NAK for PSN %u, and no later PSN was sent; expected none: nothing can be out of sequence", val(psn)));
  }
  if (missing) {
    report_.blame_responder(Rule::kNakPsn, packet.frame,
                            sentence("NAK for PSN %u, while PSN %u never came by; expected PSN %u, the first missing",
                                     val(psn), val(*missing), val(*missing)));
  }
  nak_.settle();
}

void RefusalJudge::open_nak(const Packet& packet, Psn una) {
  nak_ = Refusal{};
  nak_.state = Refusal::State::kOpen;
  nak_.psn = packet.psn();
  nak_.frame = packet.frame;
  nak_.una = una;
  nak_.read_in_doubt = distance(seen_.oldest_in_doubt(), packet.psn()) > 0;
}

void RefusalJudge::on_after_final(const Packet& packet) {
  report_.blame_responder(Rule::kAfterFatalNak, packet.frame,
                          sentence("%s for PSN %u after the fatal NAK of frame %llu; expected silence",
                                   opcode_name(packet.opcode()), val(packet.psn()), long_val(final_frame_)));
}

/// True when the refused packet was sent again before the refusal was seen: that copy may have been under way.
bool RefusalJudge::may_be_under_way(const Refusal& refusal) const {
  const Sent* const sent = seen_.sent.find(refusal.psn);
  return sent == nullptr || sent->repeated;
}

/// Reports that what was refused is now acknowledged although it was not sent again as it should have been.
void RefusalJudge::blame_unanswered(Refusal& refusal, uint64_t frame) {
  const bool begun_behind = refusal.state == Refusal::State::kBegunBehind;
  refusal.settle();
  if (may_be_under_way(refusal)) return;
  if (begun_behind) {
    report_.blame_requester(Rule::kRetransmitStart, refusal.behind_frame,
                            sentence("retransmission starts with PSN %u after the NAK of frame %llu; expected PSN %u",
                                     val(refusal.behind_psn), long_val(refusal.frame), val(refusal.psn)));
    return;
  }
  report_.blame_responder(Rule::kNakUnanswered, frame,
                          sentence("acknowledges PSN %u, which frame %llu refused and which was not sent again; "
                                   "expected a retransmission first",
                                   val(refusal.psn), long_val(refusal.frame)));
}

}  // namespace uroce::lint
