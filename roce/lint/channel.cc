#include "lint/channel.h"

#include <algorithm>

#include "lint/rnr_timer.h"

namespace uroce::lint {
namespace {

constexpr int32_t kFar = 16384;       // PSNs: more is no loss but another life of the QP number, or a wrong PSN
constexpr int32_t kHalf = 1 << 22;    // keeps comparisons on one half of the circle
constexpr size_t kMaxGaps = 64;       // a capture with more of them is beyond judging one by one
constexpr uint64_t kSwapFrames = 4;   // frames by which a capture may show two directions in the wrong order
constexpr int64_t kSwapNs = 200'000;  // and the time

constexpr unsigned val(Psn psn) { return psn.value(); }

bool covers(Psn begin, uint32_t span, Psn psn) {
  const int32_t d = distance(begin, psn);
  return d >= 0 && static_cast<uint32_t>(d) < span;
}

}  // namespace

Channel::Channel(Findings& findings, uint32_t request_flow, Service service)
    : findings_(findings), request_flow_(request_flow), service_(service) {}

void Channel::start(Psn psn) {
  started_ = true;
  first_ = next_ = position_ = acked_ = psn;
}

void Channel::set_start(Psn psn, uint32_t read_limit) {
  start(psn);
  start_known_ = beginning_known_ = true;
  read_limit_ = read_limit;
}

bool Channel::is_far(Psn psn) const { return distance(next_, psn) > kFar || distance(psn, acked_) > kFar; }

/// One packet that is far away is a wrong PSN; two that follow each other are another life of this QP number.
Channel::Verdict Channel::on_far(const Packet& packet) {
  if (start_known_) {
    add(Rule::kCmStartPsn, packet.frame,
        sentence("first request has PSN %u; expected the starting PSN %u", val(packet.psn()), val(first_)));
    start_known_ = false;
    return Verdict::kRestarted;
  }
  const int32_t since_odd = odd_.active ? distance(odd_.psn, packet.psn()) : -1;
  if (since_odd >= 0 && since_odd <= kFar) return Verdict::kRestarted;
  odd_ = {true, packet.psn(), packet.frame, packet.time, next_ - 1, packet.opcode()};
  return Verdict::kTaken;
}

Channel::Verdict Channel::on_request(const Packet& packet) {
  packets_++;
  if (!started_) start(packet.psn());
  resolve_tip(packet.psn());
  if (is_far(packet.psn())) return on_far(packet);
  if (odd_.active) {
    add(Rule::kPsnGap, odd_.frame,
        sentence("%s with PSN %u, while the sequence goes on with PSN %u; expected a PSN near it",
                 opcode_name(odd_.opcode), val(odd_.psn), val(packet.psn())));
    odd_.active = false;
  }
  const int32_t ahead = distance(next_, packet.psn());
  if (start_known_ && ahead < 0) return on_far(packet);
  if (ahead < 0) {
    const Verdict verdict = service_ == Service::kUc ? on_uc_behind(packet) : on_behind(packet);
    if (verdict == Verdict::kRestarted) return verdict;
  } else {
    if (ahead > 0) on_ahead(packet);
    satisfy_refusals(packet, 1);
    store(packet, true);
  }
  statistics_.requests++;
  start_known_ = false;
  check_held_response(&packet, last_.span);
  last_time_ = packet.time;
  has_last_time_ = packet.has_time;
  keep_in_half_circle();
  return Verdict::kTaken;
}

/// Packets are missing in front of this one. Whether that is a fault shows later.
void Channel::on_ahead(const Packet& packet) {
  const auto count = static_cast<uint32_t>(distance(next_, packet.psn()));
  statistics_.missing += count;
  behind_losses_ = true;
  const Rule rule = start_known_ ? Rule::kCmStartPsn : Rule::kPsnGap;
  if (packet.direction == capture::FrameDirection::kSent && !lossy_capture_) {
    add_gap(rule, packet.frame,
            sentence("%s sent with PSN %u after PSN %u; expected PSN %u", opcode_name(packet.opcode()),
                     val(packet.psn()), val(next_ - 1), val(next_)),
            is_young());
    return;
  }
  if (service_ == Service::kUc) {  // what UC loses stays lost
    add(Rule::kUcLoss, packet.frame,
        sentence("%s with PSN %u after PSN %u; expected PSN %u, unless it was lost in front of the capture",
                 opcode_name(packet.opcode()), val(packet.psn()), val(next_ - 1), val(next_)));
    return;
  }
  if (gaps_.size() == kMaxGaps) gaps_.erase(gaps_.begin());
  gaps_.push_back({next_, count, packet.frame, rule, is_young()});
}

bool Channel::fill_gap(Psn psn, uint32_t span) {
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

Channel::Verdict Channel::on_uc_behind(const Packet& packet) {
  if (packet.psn() == first_) return Verdict::kRestarted;  // the same number again, from the same PSN on
  add(Rule::kUcPsnBack, packet.frame,
      sentence("%s with PSN %u after PSN %u; expected PSN %u or later", opcode_name(packet.opcode()), val(packet.psn()),
               val(next_ - 1), val(next_)));
  return Verdict::kTaken;
}

Channel::Verdict Channel::on_behind(const Packet& packet) {
  const Psn psn = packet.psn();
  if (Read* const read = find_read(psn); read != nullptr) return on_read_range(packet, *read);
  const Sent* const sent = log_.find(psn);
  if (sent != nullptr && !same_request(packet, *sent)) {
    // Acknowledged or refused for good: the number may serve somebody else by now.
    if (distance(psn, acked_) > 0 || fatal_frame_ != 0) return Verdict::kRestarted;
    add(Rule::kRetransmitDiffers, packet.frame,
        sentence("%s of %u bytes with PSN %u, which was %s of %u bytes (or another content) before; expected the same",
                 opcode_name(packet.opcode()), packet.view.payload_bytes, val(psn), opcode_name(sent->opcode),
                 sent->payload_bytes));
  }
  const bool filled = fill_gap(psn, longest_span_of(packet));
  if (filled) {
    statistics_.late++;
    overtaken_ = true;
    overtaken_end_ = next_;
  } else {
    statistics_.retransmitted++;
  }
  const bool refused = nak_.active || rnr_.active;
  // Go-back-N leaves nothing out but what was acknowledged meanwhile.
  if (distance(position_, psn) > 0 && distance(acked_, psn) > 0) behind_losses_ = true;
  if (distance(psn, position_) > 0 && (!filled || refused)) go_back(packet);
  satisfy_refusals(packet, span_of(packet));
  on_sent_again(packet, psn + span_of(packet), false);
  if (distance(psn, first_) > 0) {
    first_ = psn;
    if (!acknowledged_) acked_ = psn;
  }
  store(packet, false);
  return Verdict::kTaken;
}

void Channel::count_timeout(const Packet& packet) {
  statistics_.timeouts++;
  if (!packet.has_time || !has_last_time_) return;
  const int64_t silence_ns = std::max<int64_t>(0, packet.time.ns - last_time_.ns);
  const bool first = statistics_.timeouts == 1;
  statistics_.timeout_min_ns = first ? silence_ns : std::min(statistics_.timeout_min_ns, silence_ns);
  statistics_.timeout_max_ns = std::max(statistics_.timeout_max_ns, silence_ns);
}

/// The requester starts again at an earlier PSN: why, and is it the right one?
void Channel::go_back(const Packet& packet) {
  const Psn psn = packet.psn();
  if (rnr_.active && goes_back_for(rnr_, packet)) {
    statistics_.back_for_rnr++;
    return;
  }
  if (nak_.active && goes_back_for(nak_, packet)) {
    statistics_.back_for_nak++;
    return;
  }
  const Read* const read = find_read(psn);
  if (read != nullptr && (read->hole_frame != 0 || selective())) {
    statistics_.back_for_read++;
    return;
  }
  if (selective() && held_.any_behind(psn)) {
    statistics_.back_for_sack++;
    return;
  }
  count_timeout(packet);
}

/// True when the refusal explains the step back.
bool Channel::goes_back_for(Refusal& refusal, const Packet& packet) {
  const int32_t behind_named = distance(refusal.psn, packet.psn());
  if (behind_named == 0) return true;
  const char* name = opcode_name(packet.opcode());
  if (behind_named > 0) {
    if (refusal.late_frame == 0) {
      refusal.late_frame = packet.frame;
      refusal.late_psn = packet.psn();
    }
    return true;
  }
  // In front of it: a timer may have run out while the NAK was on its way, and starts with the oldest PSN in doubt. In
  // a capture behind losses the first packets of that run may be missing.
  if (distance(refusal.una, packet.psn()) <= 0) return false;
  // Nothing but its own response acknowledges a READ: the NAK may be put aside for it.
  if (refusal.read_in_doubt || find_read(packet.psn()) != nullptr) return false;
  if (behind_losses_ && packet.direction != capture::FrameDirection::kSent) return false;
  // A single packet that was under way when the NAK left.
  if (selective() && packet.direction != capture::FrameDirection::kSent) return false;
  add(Rule::kRetransmitStart, packet.frame,
      sentence("retransmission starts with %s PSN %u after the NAK of frame %llu; expected PSN %u", name,
               val(packet.psn()), static_cast<unsigned long long>(refusal.frame), val(refusal.psn)));
  return true;
}

void Channel::satisfy_refusals(const Packet& packet, uint32_t span) {
  if (nak_.active && covers(packet.psn(), span, nak_.psn)) nak_.active = false;
  if (!rnr_.active || !covers(packet.psn(), span, rnr_.psn)) return;
  rnr_.active = false;
  if (!rnr_.has_time || !packet.has_time) return;
  const int64_t waited_ns = packet.time.ns - rnr_.time.ns;
  const int64_t asked_ns = rnr_timer(rnr_.code).ns;
  // Time stamps of a capture jitter a little.
  if (waited_ns >= asked_ns - asked_ns / 50 - 10'000) return;
  add(Rule::kRnrEarly, packet.frame,
      sentence("PSN %u sent again %.3f ms after the RNR NAK of frame %llu; expected to wait %.3f ms (timer code %u)",
               val(rnr_.psn), static_cast<double>(waited_ns) / 1e6, static_cast<unsigned long long>(rnr_.frame),
               static_cast<double>(asked_ns) / 1e6, rnr_.code));
}

/// A response that came before its request was seen: the capture may have swapped neighbours, but no more than that.
void Channel::check_held_response(const Packet* packet, uint32_t span) {
  if (!response_.active) return;
  response_.active = false;
  if (packet != nullptr && covers(packet->psn(), span, response_.psn) &&
      packet->frame - response_.frame <= kSwapFrames && packet->time.ns - response_.time.ns <= kSwapNs) {
    return;
  }
  const char* const verb = response_.rule == Rule::kSackUnsent ? "holds" : "for";
  add_response(response_.rule, response_.frame,
               sentence("%s %s PSN %u; expected at most PSN %u, the last that was sent", opcode_name(response_.opcode),
                        verb, val(response_.psn), val(response_.newest)));
}

/// Without acknowledgements in sight the oldest PSNs are forgotten, so that "before" keeps its meaning.
void Channel::keep_in_half_circle() {
  if (distance(acked_, next_) > kHalf || distance(acked_, next_) < 0) acked_ = next_ - kHalf;
  if (distance(first_, next_) > kHalf || distance(first_, next_) < 0) first_ = next_ - kHalf;
}

void Channel::finish() {
  check_held_response(nullptr, 0);
  for (const Read& read : reads_) judge(read);
  // With selective repeat a capture may begin with single packets that were sent again.
  for (EarlyFinding& finding : early_) {
    if (!selective()) add(finding.rule, finding.frame, std::move(finding.text));
  }
}

}  // namespace uroce::lint
