#include "lint/sequence_judge.h"

#include <utility>

namespace uroce::lint {
namespace {

constexpr size_t kMaxGaps = 64;  // with more gaps, a capture cannot be judged one by one

}  // namespace

void SequenceJudge::blame(Rule rule, uint64_t frame, std::string text, bool young) {
  if (!young) return report_.blame_requester(rule, frame, std::move(text));
  early_.push_back({rule, frame, std::move(text)});
}

Verdict SequenceJudge::on_far(const Packet& packet) {
  if (seen_.numbers.awaits_start()) {
    report_.blame_requester(Rule::kCmStartPsn, packet.frame,
                            sentence("first request has PSN %u; expected the starting PSN %u", val(packet.psn()),
                                     val(seen_.numbers.first)));
    return Verdict::kRestarted;
  }
  const int32_t since_odd = odd_ ? distance(odd_->psn, packet.psn()) : -1;
  if (since_odd >= 0 && since_odd <= kFar) return Verdict::kRestarted;
  odd_ = Odd{packet.psn(), packet.frame, packet.opcode()};
  return Verdict::kTaken;
}

/// The sequence goes on without the packet that was far away.
void SequenceJudge::blame_odd(const Packet& packet) {
  report_.blame_requester(Rule::kPsnGap, odd_->frame,
                          sentence("%s with PSN %u, while the sequence goes on with PSN %u; expected a PSN near it",
                                   opcode_name(odd_->opcode), val(odd_->psn), val(packet.psn())));
  odd_.reset();
}

void SequenceJudge::on_ahead(const Packet& packet) {
  const Psn next = seen_.numbers.next;
  const char* const name = opcode_name(packet.opcode());
  const Rule rule = seen_.numbers.awaits_start() ? Rule::kCmStartPsn : Rule::kPsnGap;
  if (packet.direction == pcap::FrameDirection::kSent && !seen_.lossy_capture) {
    blame(rule, packet.frame,
          sentence("%s sent with PSN %u after PSN %u; expected PSN %u", name, val(packet.psn()), val(next - 1),
                   val(next)),
          seen_.is_young());
    return;
  }
  if (seen_.service == Service::kUc) {  // UC sends nothing again
    report_.blame_requester(
        Rule::kUcLoss, packet.frame,
        sentence("%s with PSN %u after PSN %u; expected PSN %u, unless it was lost in front of the capture", name,
                 val(packet.psn()), val(next - 1), val(next)));
    return;
  }
  if (gaps_.size() == kMaxGaps) gaps_.erase(gaps_.begin());
  const auto count = static_cast<uint32_t>(distance(next, packet.psn()));
  gaps_.push_back({next, count, packet.frame, rule, seen_.is_young()});
}

Verdict SequenceJudge::on_uc_behind(const Packet& packet) {
  if (packet.psn() == seen_.numbers.first) return Verdict::kRestarted;  // another life, from the same PSN on
  report_.blame_requester(
      Rule::kUcPsnBack, packet.frame,
      sentence("%s with PSN %u after PSN %u; expected PSN %u or later", opcode_name(packet.opcode()), val(packet.psn()),
               val(seen_.numbers.next - 1), val(seen_.numbers.next)));
  return Verdict::kTaken;
}

bool SequenceJudge::on_behind(Psn psn, uint32_t span) {
  if (!fill(psn, span)) return false;
  overtaken_end_ = seen_.numbers.next;
  return true;
}

bool SequenceJudge::fill(Psn psn, uint32_t span) {
  bool filled = false;
  for (size_t i = 0; i < gaps_.size(); i++) {
    Gap& gap = gaps_[i];
    const int32_t begin = std::max(0, distance(gap.begin, psn));
    const int32_t end = std::min(static_cast<int32_t>(gap.count), distance(gap.begin, psn + span));
    if (end <= begin) continue;
    filled = true;
    const Gap rest{gap.begin + static_cast<uint32_t>(end), gap.count - static_cast<uint32_t>(end), gap.frame, gap.rule,
                   gap.young};
    gap.count = static_cast<uint32_t>(begin);
    if (rest.count != 0) gaps_.push_back(rest);
  }
  std::erase_if(gaps_, [](const Gap& gap) { return gap.count == 0; });
  return filled;
}

/// A responder drops what comes over a gap, so it has to come again when the gap has closed.
void SequenceJudge::check_overtaken(Psn psn, uint64_t frame, SentRequests& requests) {
  for (Psn at = seen_.numbers.acked; distance(at, psn) >= 0;) {
    Sent* const sent = requests.find(at);
    if (sent != nullptr && sent->over_gap && !is_over_gap(at) && !seen_.selective()) {
      sent->over_gap = false;
      blame(Rule::kRequestOrder, frame,
            sentence("acknowledges PSN %u, which came before one of an earlier PSN and was not sent again; expected a "
                     "NAK and a retransmission first",
                     val(at)),
            seen_.is_young());
    }
    at = sent != nullptr && distance(at, sent->end()) > 0 ? sent->end() : at + 1;
  }
  if (distance(*overtaken_end_, psn) >= -1) overtaken_end_.reset();
}

void SequenceJudge::blame_missing(Psn psn, uint64_t frame) {
  for (const Gap& gap : gaps_) {
    if (distance(gap.begin, psn) < 0) continue;
    const Psn last = gap.begin + (gap.count - 1);
    blame(gap.rule, gap.frame,
          sentence("PSN %u to %u never came by, yet frame %llu acknowledges PSN %u; expected PSN %u here, unless the "
                   "capture lost it",
                   val(gap.begin), val(last), long_val(frame), val(psn), val(gap.begin)),
          gap.young);
  }
  std::erase_if(gaps_, [psn](const Gap& gap) { return distance(gap.begin, psn) >= 0; });
}

std::optional<Psn> SequenceJudge::take_missing_before(Psn psn) {
  const auto missed =
      std::find_if(gaps_.begin(), gaps_.end(), [psn](const Gap& gap) { return distance(gap.begin, psn) > 0; });
  if (missed == gaps_.end()) return std::nullopt;
  const Psn first = missed->begin;
  std::erase_if(gaps_, [psn](const Gap& gap) { return distance(gap.begin, psn) > 0; });
  return first;
}

std::optional<Psn> SequenceJudge::missing_in(const SackRange& range) const {
  for (const Gap& gap : gaps_) {
    const Psn end = gap.begin + gap.count;
    if (gap.young || !range.first.before(end) || !gap.begin.before(range.end)) continue;
    return range.first.before(gap.begin) ? gap.begin : range.first;
  }
  return std::nullopt;
}

void SequenceJudge::finish() {
  // With selective repeat a capture may begin with single packets that were sent again.
  if (seen_.selective()) return;
  for (EarlyFinding& finding : early_) report_.blame_requester(finding.rule, finding.frame, std::move(finding.text));
}

}  // namespace uroce::lint
