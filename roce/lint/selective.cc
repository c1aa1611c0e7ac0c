// The channel's view of selective repeat: what selective ACKs say, and what is sent again because of them.
//
// Both sides must sign their packets to be judged by these rules; all others keep those of go-back-N.
#include <algorithm>
#include <cstdlib>

#include "lint/channel.h"

namespace uroce::lint {
namespace {

constexpr int32_t kFar = 16384;
constexpr int64_t kForgets = 500'000'000;  // a responder may drop what it holds for a peer that is silent for so long

constexpr unsigned val(Psn psn) { return psn.value(); }

bool same(const SackRange& a, const SackRange& b) { return a.first == b.first && a.end == b.end; }

std::vector<SackRange> sack_ranges(const Packet& packet) {
  std::vector<SackRange> ranges;
  if (!packet.whole || !sack_length_holds(packet.view.payload_bytes)) return ranges;
  for (uint32_t at = 0; at < packet.view.payload_bytes; at += SackRange::kBytes) {
    const SackRange range = SackRange::decode(packet.view.payload + at);
    // What cannot be is reported as such (check_headers), and means nothing.
    if ((packet.psn() + 1).before(range.first) && range.first.before(range.end)) ranges.push_back(range);
  }
  return ranges;
}

}  // namespace

bool Channel::selective() const {
  if (requests_signed_ == nullptr || responses_signed_ == nullptr) return false;
  if (!requests_signed_->signs() && !requests_signed_->known()) return false;
  if (!responses_signed_->signs() && !responses_signed_->known()) return false;
  return requests_signed_->known() || responses_signed_->known();
}

/// What is answered was sent, even if that was before the capture.
void Channel::learn_frontier(Psn end) {
  if (!is_young() || tip_span_unknown_) return;
  const int32_t ahead = distance(next_, end);
  if (ahead > 0 && ahead < kFar) next_ = end;
}

/// Who may send one, and to whom?
bool Channel::check_sack_ends(const Packet& packet) {
  if (requests_signed_ == nullptr || responses_signed_ == nullptr) return false;
  if (!responses_signed_->signs()) {
    add_response(Rule::kSackUnsigned, packet.frame,
                 sentence("SACK for PSN %u without its sender's signature; expected it on every packet of one that "
                          "knows selective repeat",
                          val(packet.psn())));
    return false;
  }
  const bool too_soon = beginning_known_ && requests_signed_->packets() < 3;
  if (!requests_signed_->is_stranger() && !too_soon) return true;
  add_response(Rule::kSackStranger, packet.frame,
               sentence("SACK for PSN %u to a peer that did not sign its last three packets; expected an ACK or a NAK",
                        val(packet.psn())));
  return false;
}

void Channel::on_selective_ack(const Packet& packet) {
  statistics_.sacks++;
  if (!check_sack_ends(packet)) return;
  const Psn psn = packet.psn();
  if (distance(psn, acked_) > 1) {
    add_response(Rule::kAckBack, packet.frame,
                 sentence("SACK for PSN %u after PSN %u was acknowledged; expected PSN %u or later", val(psn),
                          val(acked_ - 1), val(acked_ - 1)));
    return;
  }
  if (find_read(psn) == nullptr) check_msn(packet, psn, packet.view.aeth().msn, true);
  // READs and atomics in front of it may still be waiting for their turn to be answered.
  acknowledge(psn, packet.frame, false);
  note_expected(psn + 1);
  const std::vector<SackRange> ranges = sack_ranges(packet);
  for (const SackRange& range : ranges) learn_frontier(range.end);  // its sender signed it
  const auto unsent = std::find_if(ranges.begin(), ranges.end(),
                                   [this](const SackRange& range) { return distance(next_, range.end) > 0; });
  if (unsent != ranges.end()) {
    if (tip_span_unknown_) return;
    check_held_response(nullptr, 0);
    response_ = {true, unsent->end - 1, packet.frame, packet.time, next_ - 1, packet.opcode(), Rule::kSackUnsent};
    return;
  }
  check_sack_order(packet, ranges);
  for (const SackRange& range : ranges) {
    check_seen(packet, range);
    held_.add(range);
  }
}

/// The range that changed last stands first: what is as it was in the SACK before comes behind the others, in the same
/// order.
void Channel::check_sack_order(const Packet& packet, const std::vector<SackRange>& ranges) {
  const bool comparable = !sack_.empty() && packet.has_time && packet.time.ns - sack_time_.ns < kForgets;
  size_t before = 0;  // position in the one before of the newest range that did not change
  bool unchanged = false;
  for (const SackRange& range : ranges) {
    if (!comparable) break;
    const auto known =
        std::find_if(sack_.begin(), sack_.end(), [&range](const SackRange& r) { return same(r, range); });
    const bool wrong = known == sack_.end() ? unchanged && sack_.size() < kSackRangesMax
                                            : unchanged && static_cast<size_t>(known - sack_.begin()) < before;
    if (wrong) {
      add_response(Rule::kSackOrder, packet.frame,
                   sentence("SACK with PSN %u to %u behind a range that changed before it; expected the range that "
                            "changed last first",
                            val(range.first), val(range.end - 1)));
      break;
    }
    if (known == sack_.end()) continue;
    unchanged = true;
    before = static_cast<size_t>(known - sack_.begin());
  }
  sack_ = ranges;
  sack_time_ = packet.time;
}

/// What is held must have come by.
void Channel::check_seen(const Packet& packet, const SackRange& range) {
  for (const Gap& gap : gaps_) {
    const Psn end = gap.begin + gap.count;
    if (gap.young || !range.first.before(end) || !gap.begin.before(range.end)) continue;
    const Psn first = range.first.before(gap.begin) ? gap.begin : range.first;
    add_response(Rule::kSackUnseen, packet.frame,
                 sentence("SACK for PSN %u holds PSN %u, which never came by; expected ranges of what arrived, unless "
                          "the capture lost it",
                          val(packet.psn()), val(first)));
    break;
  }
  fill_gap(range.first, static_cast<uint32_t>(distance(range.first, range.end)));
}

/// The peer says that it expects `psn`: if it held that one, it has dropped all that it held.
void Channel::note_expected(Psn psn) {
  if (held_.contains(psn)) forget_held();
}

/// A NAK, or the end of patience: what was held is not any more.
void Channel::forget_held() {
  held_.clear();
  sack_.clear();
}

/// A request up to `end` is sent again. Whether the peer is known to hold it can be told only at its sender's own port:
/// a SACK that was seen elsewhere may be lost behind the capture, or come too late.
void Channel::on_sent_again(const Packet& packet, Psn end, bool answered_by_response) {
  if (!selective()) return;
  const Psn psn = packet.psn();
  if (back_runs_.follow(psn, end)) {
    if (held_.contains(psn)) forget_held();
    return;
  }
  // The oldest one may be a probe; or the ACK timer ran out. The first response of a READ tells that the request
  // arrived.
  const Read* const answering = find_read(acked_);
  const bool oldest = psn == acked_ || (answering != nullptr && psn == answering->end());
  if (answered_by_response || oldest || psn == oldest_in_doubt()) return back_runs_.begin(end);
  if (packet.direction != capture::FrameDirection::kSent || !held_.contains(psn)) return;
  add(Rule::kRetransmitHeld, packet.frame,
      sentence("%s with PSN %u again, which a SACK said is held; expected only what is missing, or everything from "
               "PSN %u on",
               opcode_name(packet.opcode()), val(psn), val(acked_)));
}

}  // namespace uroce::lint
