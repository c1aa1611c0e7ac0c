#include "lint/sack_judge.h"

#include <algorithm>

namespace uroce::lint {
namespace {

constexpr Duration kForgets =
    milliseconds(500);  // a responder may drop what it holds for a peer that is silent for so long

bool same(const SackRange& a, const SackRange& b) { return a.first == b.first && a.end == b.end; }

}  // namespace

std::vector<SackRange> SackJudge::ranges_of(const Packet& packet) {
  std::vector<SackRange> ranges;
  if (!packet.whole || !sack_length_holds(packet.view.payload_bytes)) return ranges;
  for (uint32_t at = 0; at < packet.view.payload_bytes; at += SackRange::kBytes) {
    const SackRange range = SackRange::decode(packet.view.payload + at);
    // Impossible ranges are reported by check_headers, and ignored here.
    if ((packet.psn() + 1).before(range.first) && range.first.before(range.end)) ranges.push_back(range);
  }
  return ranges;
}

bool SackJudge::check_ends(const Packet& packet) {
  if (!seen_.signatures.known()) return false;
  if (!seen_.signatures.responses->signs()) {
    report_.blame_responder(
        Rule::kSackUnsigned, packet.frame,
        sentence("SACK for PSN %u without its sender's signature; expected it on every packet of one that "
                 "knows selective repeat",
                 val(packet.psn())));
    return false;
  }
  const bool too_soon = seen_.numbers.from_start() && seen_.signatures.requests->packets() < 3;
  if (!seen_.signatures.requests->is_stranger() && !too_soon) return true;
  report_.blame_responder(
      Rule::kSackStranger, packet.frame,
      sentence("SACK for PSN %u to a peer that did not sign its last three packets; expected an ACK or a NAK",
               val(packet.psn())));
  return false;
}

/// Ranges that are as in the previous SACK must come after the others, in the same order.
void SackJudge::check_order(const Packet& packet, const std::vector<SackRange>& ranges) {
  const bool comparable = !newest_.empty() && packet.has_time && packet.time - newest_time_ < kForgets;
  size_t before = 0;  // position in the previous SACK of the latest range that did not change
  bool unchanged = false;
  for (const SackRange& range : ranges) {
    if (!comparable) break;
    const auto known =
        std::find_if(newest_.begin(), newest_.end(), [&range](const SackRange& r) { return same(r, range); });
    const bool wrong = known == newest_.end() ? unchanged && newest_.size() < kSackRangesMax
                                              : unchanged && static_cast<size_t>(known - newest_.begin()) < before;
    if (wrong) {
      report_.blame_responder(
          Rule::kSackOrder, packet.frame,
          sentence("SACK with PSN %u to %u behind a range that changed before it; expected the range that "
                   "changed last first",
                   val(range.first), val(range.end - 1)));
      break;
    }
    if (known == newest_.end()) continue;
    unchanged = true;
    before = static_cast<size_t>(known - newest_.begin());
  }
  newest_ = ranges;
  newest_time_ = packet.time;
}

void SackJudge::on_range(const Packet& packet, const SackRange& range, std::optional<Psn> missing) {
  if (missing) {
    report_.blame_responder(
        Rule::kSackUnseen, packet.frame,
        sentence("SACK for PSN %u holds PSN %u, which never came by; expected ranges of what arrived, unless "
                 "the capture lost it",
                 val(packet.psn()), val(*missing)));
  }
  held_.add(range);
}

void SackJudge::on_expected(Psn psn) {
  if (held_.contains(psn)) forget();
}

void SackJudge::on_ack(Psn psn) {
  on_expected(psn + 1);
  newest_.clear();
}

void SackJudge::forget() {
  held_.clear();
  newest_.clear();
}

/// Only at the requester's own port can the capture tell whether the requester knew that the peer holds the packet: a
/// SACK that was seen elsewhere may be lost after the tap, or come too late.
void SackJudge::on_sent_again(const Packet& packet, Psn end, bool answered_by_response) {
  if (!seen_.selective()) return;
  const Psn psn = packet.psn();
  if (back_runs_.follow(psn, end)) {
    if (held_.contains(psn)) forget();
    return;
  }
  // The oldest packet may be a probe, or the ACK timer may have run out. The first response of a READ says that the
  // request arrived.
  const Read* const answering = seen_.sent.find_read(seen_.numbers.acked);
  const bool oldest = psn == seen_.numbers.acked || (answering != nullptr && psn == answering->end());
  if (answered_by_response || oldest || psn == seen_.oldest_in_doubt()) return back_runs_.begin(end);
  if (packet.direction != pcap::FrameDirection::kSent || !held_.contains(psn)) return;
  report_.blame_requester(
      Rule::kRetransmitHeld, packet.frame,
      sentence("%s with PSN %u again, which a SACK said is held; expected only what is missing, or everything from "
               "PSN %u on",
               opcode_name(packet.opcode()), val(psn), val(seen_.numbers.acked)));
}

}  // namespace uroce::lint
