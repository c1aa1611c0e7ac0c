#include "lint/read_judge.h"

#include <algorithm>
#include <utility>

namespace uroce::lint {
namespace {

constexpr uint32_t kRetriesOfStrangers = 4;  // so many of the newest repetitions of a READ may still be answered
constexpr uint64_t kFollowers = 3;           // a hole counts after so many packets

/// None: no request that is answered by a packet of its own.
std::optional<Read::Kind> kind_of(const OpcodeInfo& info) {
  if (is_atomic(info)) return Read::Kind::kAtomic;
  if (is_placement(info)) return Read::Kind::kPlacement;
  if (info.operation == Operation::kReadRequest) return Read::Kind::kRead;
  return std::nullopt;
}

uint32_t srqn_of(const Packet& packet) { return packet.info().has(kHasXrceth) ? packet.view.xrceth().srqn : 0; }

}  // namespace

void ReadJudge::on_asked(const Packet& packet, uint32_t span, bool is_new) {
  Read read;
  read.psn = packet.psn();
  read.span = span;
  read.span_state = seen_.sent.span_is_known(packet) ? Read::Span::kKnown : Read::Span::kGuessed;
  read.origin_known = is_new && (seen_.numbers.from_start() || read.psn != seen_.numbers.first);
  if (!read.origin_known) read.retries.add(read.psn, read.end());
  read.repeats_before = seen_.repeats();
  read.kind = *kind_of(packet.info());
  if (!read.atomic()) {
    const Reth reth = packet.view.reth();
    read.asked.va = reth.va;
    read.asked.rkey = reth.rkey;
    read.asked.srqn = srqn_of(packet);
    read.asked.length = std::min(reth.dma_length, 0x80000000u);
  }
  if (is_new) check_limit(packet);
  reads_.insert(read);
}

void ReadJudge::check_limit(const Packet& packet) {
  if (limit_ == UINT32_MAX) return;
  const uint32_t waiting = reads_.waiting();
  if (waiting < limit_) return;
  report_.blame_requester(
      Rule::kReadOutstanding, packet.frame,
      sentence("%s while %u READs or atomics wait for their responses; expected at most %u outstanding",
               opcode_name(packet.opcode()), waiting, limit_));
}

ReadJudge::Within ReadJudge::on_within(const Packet& packet, const Read& read, bool settled) {
  const OpcodeInfo& info = packet.info();
  const bool repeats = read.kind == kind_of(info);
  if (repeats) {
    check_repetition(packet, read);
    return Within::kRepetition;
  }
  if (settled || distance(read.end(), seen_.numbers.acked) >= 0) return Within::kRestarted;
  const bool inside = packet.psn() != read.psn;
  report_.blame_requester(inside ? Rule::kPsnReadRange : Rule::kRetransmitDiffers, packet.frame,
                          sentence("%s with PSN %u, which belongs to the %s of PSN %u to %u; expected PSN %u or later",
                                   opcode_name(packet.opcode()), val(packet.psn()), read.atomic() ? "atomic" : "READ",
                                   val(read.psn), val(read.end() - 1), val(read.end())));
  return Within::kWrong;
}

void ReadJudge::on_asked_again(const Packet& packet, Read& read) {
  read.retries.add(packet.psn(), packet.psn() + seen_.sent.span_of(packet));
  if (read.hole != Read::Hole::kNone) read.hole = Read::Hole::kAskedAgain;
}

/// A repeated READ may ask for less than what is left, but for nothing outside of it.
void ReadJudge::check_repetition(const Packet& packet, const Read& read) {
  if (read.kind != Read::Kind::kRead) return;  // as it was before, like a SEND: ContentJudge
  const auto skipped = static_cast<uint32_t>(distance(read.psn, packet.psn()));
  if (skipped != 0 && seen_.sent.mtu() == 0) return;
  const Reth reth = packet.view.reth();
  const uint64_t expected_va = read.asked.va + uint64_t{skipped} * seen_.sent.mtu();
  const uint32_t expected_length = read.asked.length - skipped * seen_.sent.mtu();
  const bool same = reth.va == expected_va && reth.rkey == read.asked.rkey && srqn_of(packet) == read.asked.srqn;
  if (same && reth.dma_length <= expected_length) return;
  report_.blame_requester(
      Rule::kReadRetryRange, packet.frame,
      sentence(
          "READ again at PSN %u for %u bytes at 0x%llx with rkey 0x%x; expected %u bytes at 0x%llx with rkey 0x%x%s",
          val(packet.psn()), reth.dma_length, long_val(reth.va), reth.rkey, expected_length, long_val(expected_va),
          read.asked.rkey, srqn_of(packet) == read.asked.srqn ? "" : " and the same XRCETH"));
}

void ReadJudge::retire(bool settled) {
  if (!reads_.is_full()) return;
  if (!settled) {
    for (const Read& read : reads_.oldest_half()) judge_hole(read);
  }
  reads_.drop_oldest_half();
}

void ReadJudge::finish(bool settled) {
  if (settled) return;
  for (const Read& read : reads_.all()) judge_hole(read);
}

/// Nothing more will be seen of this READ or atomic.
void ReadJudge::judge_hole(const Read& read) {
  if (read.done() || !read.span_known() || read.hole != Read::Hole::kOpen) return;
  // With selective repeat, responses that came before are not sent again.
  if (read.span_state == Read::Span::kLate && seen_.selective()) return;
  if (seen_.packets - read.hole_packets < kFollowers) return;  // the requester had no time to ask again
  const Psn missing = read.psn + read.answered;
  report_.blame_responder(
      read.atomic() ? Rule::kAtomicMissing : Rule::kReadResponseMissing, read.hole_frame,
      sentence("response beyond PSN %u, which was never answered nor asked for again; expected the %s "
               "response with that PSN before",
               val(missing), read.atomic() ? "atomic" : "READ"));
}

void ReadJudge::on_acknowledged(Psn psn, uint64_t frame) {
  for (Read& read : reads_.open()) {
    if (distance(read.psn, psn) < 0) break;
    if (read.done() || !read.span_known() || distance(read.end() - 1, psn) < 0) continue;
    open_hole(read, frame);
  }
}

/// The packet in this frame should have come after responses that are missing.
void ReadJudge::open_hole(Read& read, uint64_t frame) const {
  if (read.hole != Read::Hole::kNone) return;
  read.hole = Read::Hole::kOpen;
  read.hole_frame = frame;
  read.hole_packets = seen_.packets;
}

Read* ReadJudge::answered_by(const Packet& packet) {
  const Psn psn = packet.psn();
  const bool atomic = packet.info().operation == Operation::kAtomicAcknowledge;
  Read* const read = reads_.find(psn);
  if (read != nullptr && read->atomic() == atomic) return read;
  if (read == nullptr && seen_.sent.find(psn) == nullptr) return nullptr;  // it is not known what that PSN was
  if (atomic) {
    report_.blame_responder(
        Rule::kAtomicResponseUnasked, packet.frame,
        sentence("atomic response for PSN %u, which is no atomic; expected a response that fits the request",
                 val(psn)));
  } else {
    report_.blame_responder(Rule::kReadResponseUnasked, packet.frame,
                            sentence("%s for PSN %u, which is no READ; expected a response that fits the request",
                                     opcode_name(packet.opcode()), val(psn)));
  }
  return nullptr;
}

void ReadJudge::check_form(const Packet& packet, const Read& read) {
  if (!read.span_known()) return;
  const OpcodeInfo& info = packet.info();
  const Psn psn = packet.psn();
  const auto offset = static_cast<uint32_t>(distance(read.psn, psn));
  const bool last = offset + 1 == read.span;
  // A repeated READ that starts later has a First of its own; but some responders still use the opcodes of the
  // original.
  const bool first = offset == 0;
  // With selective repeat any part of a READ may be asked for again, and is answered as a READ of its own.
  const bool parts = seen_.selective();
  if (parts && read.retries.count() > Retries::kKept) return;
  const bool first_of_retry = read.retries.started_at(psn, parts ? Retries::kKept : kRetriesOfStrangers);
  const bool last_of_part = parts && info.is_last() && read.retries.ended_at(psn + 1);
  const bool fits = (info.is_last() == last || last_of_part) &&
                    (!read.origin_known || info.is_first() == first || info.is_first() == (first || first_of_retry));
  if (!fits) {
    const char* expected = last ? (first ? "an Only" : "a Last") : (first ? "a First" : "a Middle");
    report_.blame_responder(Rule::kReadResponseOpcode, packet.frame,
                            sentence("%s as response %u of %u; expected %s", opcode_name(packet.opcode()), offset + 1,
                                     read.span, expected));
    return;
  }
  const uint32_t expected = last ? read.answer_bytes() - (read.span - 1) * seen_.sent.mtu() : seen_.sent.mtu();
  if (packet.view.payload_bytes == expected) return;
  report_.blame_responder(
      Rule::kReadResponseLength, packet.frame,
      sentence("%s of %u bytes as response %u of %u to a READ of %u bytes; expected %u", opcode_name(packet.opcode()),
               packet.view.payload_bytes, offset + 1, read.span, read.asked.length, expected));
}

/// Checks that a READ is answered once for each time that it was asked, from some PSN on and in order.
void ReadJudge::check_order(const Packet& packet, Read& read, bool seen_before) {
  const auto offset = static_cast<uint32_t>(distance(read.psn, packet.psn()));
  const bool back = offset < read.newest || (read.untouched() && was_overtaken(read));
  read.newest = offset + 1;
  if (!back) return;
  // The first READ of a capture may have been asked before the capture began, and is then answered from its beginning.
  const bool free = !read.origin_known && offset != 0 && !seen_.behind_losses;
  if (read.steps_back++ < read.retries.count() - (free && read.retries.count() != 0 ? 1 : 0)) return;
  if (seen_before) {
    report_.blame_responder(
        Rule::kReadResponseUnasked, packet.frame,
        sentence("%s for PSN %u a second time; expected one response as long as the READ is not repeated",
                 opcode_name(packet.opcode()), val(packet.psn())));
  } else {
    report_.blame_responder(
        Rule::kReadResponseOrder, packet.frame,
        sentence("%s for PSN %u behind that for a later PSN; expected responses in order as long as nothing is "
                 "asked again",
                 opcode_name(packet.opcode()), val(packet.psn())));
  }
}

/// True when a later READ was answered before this one.
bool ReadJudge::was_overtaken(const Read& read) const {
  const std::span<const Read> reads = std::as_const(reads_).all();
  return distance(read.end(), seen_.numbers.acked) > 0 &&
         std::any_of(reads.begin(), reads.end(),
                     [&read](const Read& r) { return distance(read.psn, r.psn) > 0 && r.newest != 0; });
}

void ReadJudge::on_read_response(const Packet& packet, Read& read) {
  const auto offset = static_cast<uint32_t>(distance(read.psn, packet.psn()));
  const uint32_t ahead = offset - read.answered;  // meaningful from `answered` on
  const bool seen_before = offset < read.answered || (ahead < 64 && ((read.seen_ahead >> ahead) & 1) != 0);
  check_order(packet, read, seen_before);
  if (offset < read.answered) return;
  if (ahead != 0) open_hole(read, packet.frame);
  if (ahead < 64) read.seen_ahead |= uint64_t{1} << ahead;
  while ((read.seen_ahead & 1) != 0) {
    read.seen_ahead >>= 1;
    read.answered++;
  }
}

void ReadJudge::on_atomic_response(const Packet& packet, Read& read) {
  const uint64_t value = packet.view.atomic_ack_eth().original;
  if (read.answered != 0 && value != read.value) {
    report_.blame_responder(Rule::kAtomicReplay, packet.frame,
                            sentence("atomic of PSN %u answered with 0x%llx; expected 0x%llx as the first time",
                                     val(packet.psn()), long_val(value), long_val(read.value)));
  } else if (read.answered != 0 && read.retries.count() == 0) {
    report_.blame_responder(
        Rule::kAtomicResponseUnasked, packet.frame,
        sentence("second response for the atomic of PSN %u; expected one as long as it is not repeated",
                 val(packet.psn())));
  }
  if (read.answered == 0) read.value = value;
  read.answered = 1;
}

}  // namespace uroce::lint
