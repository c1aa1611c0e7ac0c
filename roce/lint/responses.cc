// The channel's view of responses: acknowledgements, NAKs, READ and atomic responses.
#include <algorithm>
#include <cstdlib>

#include "lint/channel.h"

namespace uroce::lint {
namespace {

constexpr int32_t kFar = 16384;
constexpr uint32_t kMsnMask = 0xFFFFFF;
constexpr size_t kRetriesOfStrangers = 4;  // the newest repetitions of a READ that may still be answered

constexpr unsigned val(Psn psn) { return psn.value(); }

const char* nak_name(uint8_t code) {
  static constexpr const char* kNames[] = {"PSN sequence error", "invalid request", "remote access error",
                                           "remote operational error", "invalid RD request"};
  return code < 5 ? kNames[code] : "reserved code";
}

}  // namespace

bool Channel::could_answer(const Packet& packet) const {
  const Psn psn = packet.psn();
  if (!started_ || distance(acked_, psn) < 0 || distance(psn, next_) <= 0) return false;
  const Read* const read = find_read(psn);
  switch (packet.info().operation) {
    case Operation::kReadResponse:
      return read != nullptr && !read->atomic;
    case Operation::kAtomicAcknowledge:
      return read != nullptr && read->atomic;
    default:
      return read != nullptr || log_.find(psn) != nullptr;
  }
}

Psn Channel::oldest_in_doubt() const {
  for (size_t i = open_reads_; i < reads_.size(); i++) {
    const Read& read = reads_[i];
    if (!read.done() && distance(read.psn, acked_) > 0) return read.psn + read.answered;
  }
  return acked_;
}

void Channel::on_response(const Packet& packet) {
  packets_++;
  const Psn psn = packet.psn();
  const bool sack = packet.info().operation == Operation::kSelectiveAck;
  if (!started_) return;
  if (odd_.active && std::abs(distance(odd_.psn, psn)) <= kFar) return;
  if (distance(first_, psn) < (sack ? -1 : 0)) return on_old_response(packet);
  if (selective() || (sack && responses_signed_ != nullptr && responses_signed_->signs())) learn_frontier(psn + 1);
  if (distance(next_, psn) >= 0) {
    if (tip_span_unknown_ && packet.info().operation == Operation::kReadResponse) {
      learn_mtu(packet.view.payload_bytes);
    }
    if (distance(next_, psn) >= 0) {
      if (tip_span_unknown_) return;
      check_held_response(nullptr, 0);
      response_ = {true, psn, packet.frame, packet.time, next_ - 1, packet.opcode()};
      return;
    }
  }
  if (fatal_frame_ != 0) {
    add_response(Rule::kAfterFatalNak, packet.frame,
                 sentence("%s for PSN %u after the fatal NAK of frame %llu; expected silence",
                          opcode_name(packet.opcode()), val(psn), static_cast<unsigned long long>(fatal_frame_)));
    return;
  }
  switch (packet.info().operation) {
    case Operation::kAcknowledge:
      on_ack(packet);
      break;
    case Operation::kSelectiveAck:
      on_selective_ack(packet);
      break;
    case Operation::kReadResponse:
      on_read_response(packet);
      break;
    case Operation::kAtomicAcknowledge:
      on_atomic_response(packet);
      break;
    default:
      break;
  }
  last_time_ = packet.time;
  has_last_time_ = packet.has_time;
}

/// A response to what was sent before the capture, unless that is too long ago.
void Channel::on_old_response(const Packet& packet) {
  if (distance(packet.psn(), first_) <= kFar) return;
  add_response(Rule::kAckUnsent, packet.frame,
               sentence("%s for PSN %u; expected PSN %u to %u, of what was sent", opcode_name(packet.opcode()),
                        val(packet.psn()), val(acked_), val(next_ - 1)));
}

void Channel::on_ack(const Packet& packet) {
  const Aeth aeth = packet.view.aeth();
  switch (aeth_kind(aeth.syndrome)) {
    case AethKind::kAck:
      on_positive_ack(packet, aeth);
      break;
    case AethKind::kRnrNak:
      on_rnr_nak(packet, aeth);
      break;
    case AethKind::kNak:
      if (aeth_value(aeth.syndrome) == static_cast<uint8_t>(NakCode::kPsnSequenceError)) {
        on_sequence_nak(packet, aeth);
      } else if (aeth_value(aeth.syndrome) < statistics_.naks.size()) {
        on_fatal_nak(packet, aeth);
      }
      break;
    case AethKind::kReserved:
      break;
  }
}

/// The answer to a duplicate in front of READs and atomics that were answered: an ACK is not to name those, so there
/// are responders that name what stands before them.
bool Channel::leaves_out_reads(Psn psn) const {
  const uint64_t repeats = statistics_.retransmitted + statistics_.late;
  const Read* read = repeats == 0 ? nullptr : find_read(psn + 1);
  if (read == nullptr || read->repeats_before == repeats) return false;
  while (read != nullptr && distance(read->end(), acked_) > 0) read = find_read(read->end());
  return read != nullptr;
}

void Channel::on_positive_ack(const Packet& packet, const Aeth& aeth) {
  const Psn psn = packet.psn();
  statistics_.acks++;
  // Two kinds of ACK carry the latest PSN, whatever that was: the answer to a duplicate, and an update of the credits.
  // The response itself may be lost in front of the capture.
  const Read* const read = find_read(psn);
  const bool duplicates = read != nullptr && statistics_.retransmitted + statistics_.late != read->repeats_before;
  const bool credits =
      aeth_value(aeth.syndrome) != kCreditsInvalid && packet.direction != capture::FrameDirection::kSent;
  if (read != nullptr && read->answered == 0 && read->seen_ahead == 0 && !duplicates && !credits) {
    add_response(Rule::kAckForRead, packet.frame,
                 sentence("ACK for PSN %u, which is %s; expected %s response", val(psn),
                          read->atomic ? "an atomic" : "a READ", read->atomic ? "an atomic" : "a READ"));
    return;
  }
  const bool before_reads = leaves_out_reads(psn);
  if (distance(psn, acked_) > 1 && !before_reads) {
    add_response(Rule::kAckBack, packet.frame,
                 sentence("ACK for PSN %u after PSN %u was acknowledged; expected PSN %u or later", val(psn),
                          val(acked_ - 1), val(acked_ - 1)));
    return;
  }
  if (read == nullptr && !before_reads) check_msn(packet, psn, aeth.msn, true);
  acknowledge(psn, packet.frame);
  note_expected(psn + 1);
  sack_.clear();
}

bool Channel::refuses_acknowledged(const Packet& packet) {
  if (distance(packet.psn(), acked_) <= 0) return false;
  const uint8_t syndrome = packet.view.aeth().syndrome;
  const char* const what = aeth_kind(syndrome) == AethKind::kRnrNak ? "RNR" : nak_name(aeth_value(syndrome));
  add_response(Rule::kNakAcked, packet.frame,
               sentence("NAK \"%s\" for PSN %u after PSN %u was acknowledged; expected an ACK or silence", what,
                        val(packet.psn()), val(acked_ - 1)));
  return true;
}

void Channel::on_rnr_nak(const Packet& packet, const Aeth& aeth) {
  const Psn psn = packet.psn();
  statistics_.rnr_naks++;
  forget_held();
  if (refuses_acknowledged(packet)) return;
  const bool again = rnr_.active && may_be_under_way(rnr_);
  if (rnr_.active && !again) {
    add_response(Rule::kNakRepeated, packet.frame,
                 sentence("RNR NAK for PSN %u while that of frame %llu for PSN %u is open; expected silence", val(psn),
                          static_cast<unsigned long long>(rnr_.frame), val(rnr_.psn)));
  }
  check_msn(packet, psn, aeth.msn, false);
  const Psn una = oldest_in_doubt();
  acknowledge(psn - 1, packet.frame);
  // The second refusal of copies that were under way together does not make the wait longer.
  const Refusal first = rnr_;
  rnr_ = Refusal{};
  rnr_.active = true;
  rnr_.psn = psn;
  rnr_.frame = packet.frame;
  rnr_.time = packet.time;
  rnr_.has_time = packet.has_time;
  if (again && first.psn == psn) rnr_.time = first.time;
  rnr_.code = aeth_value(aeth.syndrome);
  rnr_.una = una;
}

void Channel::on_sequence_nak(const Packet& packet, const Aeth& aeth) {
  const Psn psn = packet.psn();
  statistics_.naks[0]++;
  forget_held();
  if (refuses_acknowledged(packet)) return;
  if (nak_.active && (psn == nak_.psn || !may_be_under_way(nak_))) {
    add_response(Rule::kNakRepeated, packet.frame,
                 sentence("NAK for PSN %u while that of frame %llu for PSN %u is open; expected silence", val(psn),
                          static_cast<unsigned long long>(nak_.frame), val(nak_.psn)));
  } else if (rnr_.active) {
    add_response(Rule::kNakAfterRnr, packet.frame,
                 sentence("NAK for PSN %u while the RNR wait of frame %llu for PSN %u runs; expected silence", val(psn),
                          static_cast<unsigned long long>(rnr_.frame), val(rnr_.psn)));
  }
  const Sent* const sent = log_.find(psn);
  // What was dropped over a gap is still missing after the gap has closed.
  const bool dropped = sent != nullptr && sent->over_gap;
  if (!tip_span_unknown_ && sent != nullptr && !dropped && distance(sent->end(), next_) <= 0) {
    add_response(
        Rule::kNakPsn, packet.frame,
        sentence("NAK for PSN %u, and no later PSN was sent; expected none: nothing can be out of sequence", val(psn)));
  }
  const auto missed =
      std::find_if(gaps_.begin(), gaps_.end(), [psn](const Gap& gap) { return distance(gap.begin, psn) > 0; });
  if (missed != gaps_.end()) {
    add_response(Rule::kNakPsn, packet.frame,
                 sentence("NAK for PSN %u, while PSN %u never came by; expected PSN %u, the first missing", val(psn),
                          val(missed->begin), val(missed->begin)));
    std::erase_if(gaps_, [psn](const Gap& gap) { return distance(gap.begin, psn) > 0; });
  }
  check_msn(packet, psn, aeth.msn, false);
  const Psn una = oldest_in_doubt();
  nak_.active = false;
  acknowledge(psn - 1, packet.frame);
  nak_ = Refusal{};
  nak_.active = true;
  nak_.psn = psn;
  nak_.frame = packet.frame;
  nak_.una = una;
  nak_.read_in_doubt = distance(oldest_in_doubt(), psn) > 0;
}

void Channel::on_fatal_nak(const Packet& packet, const Aeth& aeth) {
  statistics_.naks[aeth_value(aeth.syndrome)]++;
  if (refuses_acknowledged(packet)) return;
  check_msn(packet, packet.psn(), aeth.msn, false);
  acknowledge(packet.psn() - 1, packet.frame);
  fatal_frame_ = packet.frame;
}

void Channel::advance(Psn psn, uint64_t frame) {
  if (overtaken_) check_order(psn, frame);
  acknowledged_ = true;
  if (distance(acked_, psn) >= 0) acked_ = psn + 1;
  held_.drop_before(acked_);
}

/// Everything up to `psn` reached the responder. `reads_answered`: and its READs were answered before.
void Channel::acknowledge(Psn psn, uint64_t frame, bool reads_answered) {
  advance(psn, frame);
  for (const Gap& gap : gaps_) {
    if (distance(gap.begin, psn) < 0) continue;
    const Psn last = gap.begin + (gap.count - 1);
    add_gap(gap.rule, gap.frame,
            sentence("PSN %u to %u never came by, yet frame %llu acknowledges PSN %u; expected PSN %u here, unless the "
                     "capture lost it",
                     val(gap.begin), val(last), static_cast<unsigned long long>(frame), val(psn), val(gap.begin)),
            gap.young);
  }
  std::erase_if(gaps_, [psn](const Gap& gap) { return distance(gap.begin, psn) >= 0; });
  settle(nak_, psn, frame);
  settle(rnr_, psn, frame);
  if (reads_answered) mark_holes(psn, frame);
}

/// A responder drops what comes over a gap: when the gap has closed, that has to come again.
void Channel::check_order(Psn psn, uint64_t frame) {
  for (Psn at = acked_; distance(at, psn) >= 0;) {
    Sent* const sent = log_.find(at);
    if (sent != nullptr && sent->over_gap && !is_over_gap(at) && !selective()) {
      sent->over_gap = false;
      add_gap(
          Rule::kRequestOrder, frame,
          sentence("acknowledges PSN %u, which came before one of an earlier PSN and was not sent again; expected a "
                   "NAK and a retransmission first",
                   val(at)),
          is_young());
    }
    at = sent != nullptr && distance(at, sent->end()) > 0 ? sent->end() : at + 1;
  }
  if (distance(overtaken_end_, psn) >= -1) overtaken_ = false;
}

/// The refused packet was sent again even before the refusal was seen: that copy may have been under way then.
bool Channel::may_be_under_way(const Refusal& refusal) const {
  const Sent* const sent = log_.find(refusal.psn);
  return sent == nullptr || sent->repeated;
}

/// What was refused is acknowledged now, and was not sent again as it should.
void Channel::settle(Refusal& refusal, Psn psn, uint64_t frame) {
  if (!refusal.active || distance(refusal.psn, psn) < 0) return;
  refusal.active = false;
  if (may_be_under_way(refusal)) return;
  if (refusal.late_frame != 0) {
    add(Rule::kRetransmitStart, refusal.late_frame,
        sentence("retransmission starts with PSN %u after the NAK of frame %llu; expected PSN %u",
                 val(refusal.late_psn), static_cast<unsigned long long>(refusal.frame), val(refusal.psn)));
    return;
  }
  add_response(Rule::kNakUnanswered, frame,
               sentence("acknowledges PSN %u, which frame %llu refused and which was not sent again; expected a "
                        "retransmission first",
                        val(refusal.psn), static_cast<unsigned long long>(refusal.frame)));
}

/// READs and atomics that end up to `psn` should be answered by now.
void Channel::mark_holes(Psn psn, uint64_t frame) {
  while (open_reads_ < reads_.size() && reads_[open_reads_].done()) open_reads_++;
  for (size_t i = open_reads_; i < reads_.size(); i++) {
    Read& read = reads_[i];
    if (distance(read.psn, psn) < 0) break;
    if (read.done() || read.hole_frame != 0 || !read.span_known || distance(read.end() - 1, psn) < 0) continue;
    read.hole_frame = frame;
    read.hole_count = packets_;
    read.asked_again = false;
  }
}

void Channel::on_read_response(const Packet& packet) {
  const Psn psn = packet.psn();
  if (!packet.info().is_last()) learn_mtu(packet.view.payload_bytes);
  Read* const read = find_read(psn);
  if (read == nullptr || read->atomic) {
    if (read == nullptr && log_.find(psn) == nullptr) return;  // what that PSN was is not known
    add_response(Rule::kReadResponseUnasked, packet.frame,
                 sentence("%s for PSN %u, which is no READ; expected a response that fits the request",
                          opcode_name(packet.opcode()), val(psn)));
    return;
  }
  acknowledge(read->psn - 1, packet.frame);
  advance(psn, packet.frame);
  check_read_response(packet, *read);
  if (packet.info().has(kHasAeth)) check_msn_range(packet, *read, packet.view.aeth().msn);
  mark_answered(*read, packet);
}

void Channel::check_read_response(const Packet& packet, const Read& read) {
  if (!read.span_known) return;
  const OpcodeInfo& info = packet.info();
  const Psn psn = packet.psn();
  const auto offset = static_cast<uint32_t>(distance(read.psn, psn));
  const bool last = offset + 1 == read.span;
  // A repeated READ that starts later has its own First; some responders still answer by the original's places.
  const bool first = offset == 0;
  const bool parts = selective();  // any part of a READ may be asked for again, and is answered as a READ of its own
  if (parts && read.retries > read.retries_seen.size()) return;
  const bool first_of_retry = read.was_retried_from(psn, parts ? read.retries_seen.size() : kRetriesOfStrangers);
  const bool last_of_part = parts && info.is_last() && read.was_retried_to(psn + 1);
  const bool fits = (info.is_last() == last || last_of_part) &&
                    (!read.origin_known || info.is_first() == first || info.is_first() == (first || first_of_retry));
  if (!fits) {
    const char* expected = last ? (first ? "an Only" : "a Last") : (first ? "a First" : "a Middle");
    add_response(Rule::kReadResponseOpcode, packet.frame,
                 sentence("%s as response %u of %u; expected %s", opcode_name(packet.opcode()), offset + 1, read.span,
                          expected));
    return;
  }
  const uint32_t expected = last ? read.length - (read.span - 1) * mtu_ : mtu_;
  if (packet.view.payload_bytes == expected) return;
  add_response(
      Rule::kReadResponseLength, packet.frame,
      sentence("%s of %u bytes as response %u of %u to a READ of %u bytes; expected %u", opcode_name(packet.opcode()),
               packet.view.payload_bytes, offset + 1, read.span, read.length, expected));
}

/// Each time that it is asked, a READ is answered once, from some PSN on and in order.
void Channel::check_response_order(Read& read, const Packet& packet, bool seen) {
  const auto offset = static_cast<uint32_t>(distance(read.psn, packet.psn()));
  const bool back = offset < read.newest || (read.answered == 0 && read.seen_ahead == 0 && was_overtaken(read));
  read.newest = offset + 1;
  if (!back) return;
  // The first READ of a capture may have been asked before, and is answered from its beginning then.
  const bool free = !read.origin_known && offset != 0 && !behind_losses_;
  if (read.steps_back++ < read.retries - (free && read.retries != 0 ? 1 : 0)) return;
  if (seen) {
    add_response(Rule::kReadResponseUnasked, packet.frame,
                 sentence("%s for PSN %u a second time; expected one response as long as the READ is not repeated",
                          opcode_name(packet.opcode()), val(packet.psn())));
  } else {
    add_response(
        Rule::kReadResponseOrder, packet.frame,
        sentence("%s for PSN %u behind that for a later PSN; expected responses in order as long as nothing is "
                 "asked again",
                 opcode_name(packet.opcode()), val(packet.psn())));
  }
}

/// A later READ was answered before this one.
bool Channel::was_overtaken(const Read& read) const {
  return distance(read.end(), acked_) > 0 && std::any_of(reads_.begin(), reads_.end(), [&read](const Read& r) {
           return distance(read.psn, r.psn) > 0 && r.newest != 0;
         });
}

void Channel::mark_answered(Read& read, const Packet& packet) {
  const auto offset = static_cast<uint32_t>(distance(read.psn, packet.psn()));
  const uint32_t ahead = offset - read.answered;  // meaningful from `answered` on
  const bool seen = offset < read.answered || (ahead < 64 && ((read.seen_ahead >> ahead) & 1) != 0);
  check_response_order(read, packet, seen);
  if (offset < read.answered) return;
  if (ahead != 0 && read.hole_frame == 0) {
    read.hole_frame = packet.frame;
    read.hole_count = packets_;
  }
  if (ahead < 64) read.seen_ahead |= uint64_t{1} << ahead;
  while ((read.seen_ahead & 1) != 0) {
    read.seen_ahead >>= 1;
    read.answered++;
  }
}

void Channel::on_atomic_response(const Packet& packet) {
  const Psn psn = packet.psn();
  Read* const read = find_read(psn);
  if (read == nullptr || !read->atomic) {
    if (read == nullptr && log_.find(psn) == nullptr) return;
    add_response(Rule::kAtomicResponseUnasked, packet.frame,
                 sentence("atomic response for PSN %u, which is no atomic; expected a response that fits the request",
                          val(psn)));
    return;
  }
  const uint64_t value = packet.view.atomic_ack_eth().original;
  if (read->answered != 0 && value != read->value) {
    add_response(Rule::kAtomicReplay, packet.frame,
                 sentence("atomic of PSN %u answered with 0x%llx; expected 0x%llx as the first time", val(psn),
                          static_cast<unsigned long long>(value), static_cast<unsigned long long>(read->value)));
  } else if (read->answered != 0 && read->retries == 0) {
    add_response(
        Rule::kAtomicResponseUnasked, packet.frame,
        sentence("second response for the atomic of PSN %u; expected one as long as it is not repeated", val(psn)));
  }
  if (read->answered == 0) read->value = value;
  read->answered = 1;
  acknowledge(psn - 1, packet.frame);
  advance(psn, packet.frame);
  check_msn_range(packet, *read, packet.view.aeth().msn);
}

/// `through`: the message that ends with `psn` counts.
void Channel::check_msn(const Packet& packet, Psn psn, uint32_t msn, bool through) {
  const Sent* const sent = log_.find(psn);
  if (sent == nullptr) return;
  const uint32_t messages = through ? sent->messages : sent->messages_before();
  if (msn_epoch_ != sent->epoch) {
    msn_epoch_ = sent->epoch;
    msn_offset_ = msn - messages;
    return;
  }
  const uint32_t expected = (messages + msn_offset_) & kMsnMask;
  if (msn == expected) return;
  add_response(
      Rule::kMsn, packet.frame,
      sentence("%s for PSN %u with MSN %u; expected MSN %u", opcode_name(packet.opcode()), val(psn), msn, expected));
}

/// READ and atomic responses may be sent after later messages completed, or carry the count before their own.
void Channel::check_msn_range(const Packet& packet, const Read& read, uint32_t msn) {
  const Sent* const sent = log_.find(read.psn);
  if (sent == nullptr || !last_.is_set()) return;
  const Sent* const newest = before(next_);
  if (newest == nullptr || newest->epoch != sent->epoch) return;
  if (msn_epoch_ != sent->epoch) {
    if (newest->psn != sent->psn || !packet.info().is_last()) return;
    msn_epoch_ = sent->epoch;
    msn_offset_ = msn - sent->messages;
    return;
  }
  const uint32_t least = (sent->messages_before() + msn_offset_) & kMsnMask;
  const uint32_t most = newest->messages - sent->messages_before();
  if (((msn - least) & kMsnMask) <= most) return;
  add_response(Rule::kMsn, packet.frame,
               sentence("%s for PSN %u with MSN %u; expected MSN %u to %u", opcode_name(packet.opcode()),
                        val(packet.psn()), msn, least, (least + most) & kMsnMask));
}

}  // namespace uroce::lint
