#include "lint/channel.h"

#include <algorithm>

namespace uroce::lint {
namespace {

/// Whether the PSN was acknowledged, or everything was refused for good.
bool is_settled(Psn psn, const Conversation& seen, const RefusalJudge& refusals) {
  return distance(psn, seen.numbers.acked) > 0 || refusals.is_final();
}

}  // namespace

void Channel::set_start(Psn psn, uint32_t read_limit) {
  seen_.numbers.start(psn, Numbers::Beginning::kAgreed);
  reads_.set_limit(read_limit);
}

Verdict Channel::on_request(const Packet& packet) {
  seen_.packets++;
  if (!seen_.numbers.started()) seen_.numbers.start(packet.psn(), Numbers::Beginning::kAnywhere);
  seen_.numbers.resolve_tip(packet.psn());
  if (seen_.numbers.is_far(packet.psn())) return on_far(packet);
  sequence_.on_near(packet);
  const int32_t ahead = distance(seen_.numbers.next, packet.psn());
  if (seen_.numbers.awaits_start() && ahead < 0) return on_far(packet);
  if (ahead < 0) {
    const Verdict verdict = seen_.service == Service::kUc ? sequence_.on_uc_behind(packet) : on_behind(packet);
    if (verdict == Verdict::kRestarted) return verdict;
  } else {
    if (ahead > 0) on_ahead(packet);
    refusals_.on_sent(packet, 1);
    store(packet, true);
  }
  seen_.statistics.requests++;
  seen_.numbers.leave_start();
  unsent_.on_request(packet, seen_.sent.last().span);
  seen_.note_time(packet);
  seen_.numbers.keep_in_half_circle();
  return Verdict::kTaken;
}

Verdict Channel::on_far(const Packet& packet) {
  const Verdict verdict = sequence_.on_far(packet);
  seen_.numbers.leave_start();
  return verdict;
}

/// Packets before this one are missing. Whether that is a fault turns out later.
void Channel::on_ahead(const Packet& packet) {
  seen_.statistics.missing += static_cast<uint32_t>(distance(seen_.numbers.next, packet.psn()));
  seen_.behind_losses = true;
  sequence_.on_ahead(packet);
}

/// A request of a PSN that is not new.
Verdict Channel::on_behind(const Packet& packet) {
  const Psn psn = packet.psn();
  if (Read* const read = seen_.sent.find_read(psn); read != nullptr) return on_read_range(packet, *read);
  if (const Sent* const sent = seen_.sent.find(psn); sent != nullptr) {
    if (contents_.check_repeated(packet, *sent, is_settled(psn, seen_, refusals_)) == Verdict::kRestarted)
      return Verdict::kRestarted;
  }
  const bool filled = sequence_.on_behind(psn, seen_.sent.longest_span_of(packet));
  if (filled) {
    seen_.statistics.late++;
  } else {
    seen_.statistics.retransmitted++;
  }
  seen_.note_jump(psn);
  if (distance(psn, seen_.numbers.position) > 0 && (!filled || refusals_.is_open())) go_back(packet);
  const uint32_t span = seen_.sent.span_of(packet);
  refusals_.on_sent(packet, span);
  sacks_.on_sent_again(packet, psn + span, false);
  seen_.numbers.extend_back(psn);
  store(packet, false);
  return Verdict::kTaken;
}

/// A request at or within the PSNs of an earlier READ or atomic.
Verdict Channel::on_read_range(const Packet& packet, Read& read) {
  switch (reads_.on_within(packet, read, refusals_.is_final())) {
    case ReadJudge::Within::kRestarted:
      return Verdict::kRestarted;
    case ReadJudge::Within::kWrong:
      return Verdict::kTaken;
    case ReadJudge::Within::kRepetition:
      break;
  }
  const Sent* const before = seen_.sent.find(packet.psn());
  if (read.kind != Read::Kind::kRead && before != nullptr) {
    if (contents_.check_repeated(packet, *before, is_settled(packet.psn(), seen_, refusals_)) == Verdict::kRestarted)
      return Verdict::kRestarted;
  }
  seen_.statistics.retransmitted++;
  seen_.note_jump(packet.psn());
  if (distance(packet.psn(), seen_.numbers.position) > 0) go_back(packet);
  refusals_.on_sent(packet, static_cast<uint32_t>(distance(packet.psn(), read.end())));
  sacks_.on_sent_again(packet, read.end(), true);
  reads_.on_asked_again(packet, read);
  if (Sent* const sent = seen_.sent.find(read.psn)) {
    sent->repeated = true;
    sent->over_gap = sequence_.is_over_gap(packet.psn());
    seen_.sent.set_last(*sent);
  }
  seen_.numbers.position = read.end();
  return Verdict::kTaken;
}

/// The requester starts again at an earlier PSN. Finds out why, and whether it is the right PSN.
void Channel::go_back(const Packet& packet) {
  ChannelStatistics& statistics = seen_.statistics;
  switch (refusals_.on_back(packet)) {
    case RefusalJudge::Reason::kRnrNak:
      statistics.back_for_rnr++;
      return;
    case RefusalJudge::Reason::kNak:
      statistics.back_for_nak++;
      return;
    case RefusalJudge::Reason::kNone:
      break;
  }
  const Read* const read = seen_.sent.find_read(packet.psn());
  if (read != nullptr && (read->hole != Read::Hole::kNone || seen_.selective())) {
    statistics.back_for_read++;
  } else if (sacks_.explains_back(packet.psn())) {
    statistics.back_for_sack++;
  } else {
    seen_.count_timeout(packet);
  }
}

void Channel::store(const Packet& packet, bool is_new) {
  const Psn psn = packet.psn();
  const Sent* const previous = seen_.sent.before(psn);
  if (previous == nullptr && seen_.sent.begin_run() == 1 && seen_.numbers.from_start() && psn == seen_.numbers.first) {
    msn_.count_from_start(1);
  }
  Sent sent = seen_.sent.describe(packet, previous);
  sent.repeated = !is_new && seen_.sent.find(psn) != nullptr;
  sent.over_gap = sequence_.is_over_gap(psn);
  if (previous != nullptr) contents_.check_opcode(packet, *previous);
  seen_.sent.log(sent, seen_.numbers.acked);
  contents_.check_lengths(packet, sent);
  const OpcodeInfo& info = packet.info();
  if (info.has(kHasPayload) && !info.is_last()) seen_.learn_mtu(sent.payload_bytes);
  seen_.sent.set_last(sent);
  if (info.operation == Operation::kReadRequest || is_atomic(info) || is_placement(info)) {
    reads_.on_asked(packet, sent.span, is_new);
    if (is_new) seen_.numbers.tip_open = !seen_.sent.span_is_known(packet);
    reads_.retire(refusals_.is_final());
  }
  if (is_new) seen_.numbers.next = sent.end();
  seen_.numbers.position = sent.end();
}

bool Channel::could_answer(const Packet& packet) const {
  const Psn psn = packet.psn();
  const Numbers& numbers = seen_.numbers;
  if (!numbers.started() || distance(numbers.acked, psn) < 0 || distance(psn, numbers.next) <= 0) return false;
  const Read* const read = seen_.sent.find_read(psn);
  switch (packet.info().operation) {
    case Operation::kReadResponse:
      return read != nullptr && !read->atomic();
    case Operation::kAtomicAcknowledge:
      return read != nullptr && read->atomic();
    default:
      return read != nullptr || seen_.sent.find(psn) != nullptr;
  }
}

void Channel::on_response(const Packet& packet) {
  seen_.packets++;
  const Psn psn = packet.psn();
  const bool sack = packet.info().operation == Operation::kSelectiveAck;
  if (!seen_.numbers.started()) return;
  if (sequence_.is_about_odd(psn)) return;
  if (distance(seen_.numbers.first, psn) < (sack ? -1 : 0)) return unsent_.on_old(packet);
  if (seen_.selective() || (sack && seen_.signatures.responder_signs())) seen_.learn_frontier(psn + 1);
  if (!was_sent(packet)) return;
  if (refusals_.is_final()) return refusals_.on_after_final(packet);
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
  seen_.note_time(packet);
}

/// True when the request that the response names was sent, as far as the capture shows.
bool Channel::was_sent(const Packet& packet) {
  const Psn psn = packet.psn();
  const Numbers& numbers = seen_.numbers;
  if (distance(numbers.next, psn) < 0) return true;
  if (numbers.tip_open && packet.info().operation == Operation::kReadResponse) {
    seen_.learn_mtu(packet.view.payload_bytes);
    if (distance(numbers.next, psn) < 0) return true;
  }
  if (!numbers.tip_open) unsent_.on_early(packet, psn, Rule::kAckUnsent);
  return false;
}

void Channel::on_ack(const Packet& packet) {
  const uint8_t syndrome = packet.view.aeth().syndrome;
  switch (aeth_kind(syndrome)) {
    case AethKind::kAck:
      return on_positive_ack(packet);
    case AethKind::kRnrNak:
      return on_rnr_nak(packet);
    case AethKind::kNak:
      if (aeth_value(syndrome) == static_cast<uint8_t>(NakCode::kPsnSequenceError)) return on_sequence_nak(packet);
      if (aeth_value(syndrome) < seen_.statistics.naks.size()) on_fatal_nak(packet);
      break;
    case AethKind::kReserved:
      break;
  }
}

void Channel::on_positive_ack(const Packet& packet) {
  const Psn psn = packet.psn();
  seen_.statistics.acks++;
  const AckJudge::Meaning meaning = acks_.on_ack(packet);
  if (meaning == AckJudge::Meaning::kNothing) return;
  if (meaning == AckJudge::Meaning::kWholeMessages) msn_.check(packet, psn, true);
  acknowledge(psn, packet.frame);
  sacks_.on_ack(psn);
}

void Channel::on_rnr_nak(const Packet& packet) {
  seen_.statistics.rnr_naks++;
  sacks_.on_nak();
  if (refusals_.is_too_late(packet)) return;
  const bool again = refusals_.on_rnr_nak(packet);
  msn_.check(packet, packet.psn(), false);
  const Psn una = seen_.oldest_in_doubt();
  acknowledge(packet.psn() - 1, packet.frame);
  refusals_.open_rnr(packet, una, again);
}

void Channel::on_sequence_nak(const Packet& packet) {
  seen_.statistics.naks[0]++;
  sacks_.on_nak();
  if (refusals_.is_too_late(packet)) return;
  refusals_.on_sequence_nak(packet, sequence_.take_missing_before(packet.psn()));
  msn_.check(packet, packet.psn(), false);
  const Psn una = seen_.oldest_in_doubt();
  acknowledge(packet.psn() - 1, packet.frame);
  refusals_.open_nak(packet, una);
}

void Channel::on_fatal_nak(const Packet& packet) {
  seen_.statistics.naks[aeth_value(packet.view.aeth().syndrome)]++;
  if (refusals_.is_too_late(packet)) return;
  msn_.check(packet, packet.psn(), false);
  acknowledge(packet.psn() - 1, packet.frame);
  refusals_.on_fatal_nak(packet);
}

void Channel::on_selective_ack(const Packet& packet) {
  const Psn psn = packet.psn();
  seen_.statistics.sacks++;
  if (!sacks_.check_ends(packet) || acks_.goes_back(packet)) return;
  if (seen_.sent.find_read(psn) == nullptr) msn_.check(packet, psn, true);
  // READs and atomics before it may still be waiting for their turn to be answered.
  acknowledge_packets(psn, packet.frame);
  sacks_.on_expected(psn + 1);
  const std::vector<SackRange> ranges = SackJudge::ranges_of(packet);
  for (const SackRange& range : ranges) seen_.learn_frontier(range.end);  // it is signed, so it is true
  const auto unsent = std::find_if(ranges.begin(), ranges.end(), [this](const SackRange& range) {
    return distance(seen_.numbers.next, range.end) > 0;
  });
  if (unsent != ranges.end()) {
    if (!seen_.numbers.tip_open) unsent_.on_early(packet, unsent->end - 1, Rule::kSackUnsent);
    return;
  }
  sacks_.check_order(packet, ranges);
  for (const SackRange& range : ranges) {
    sacks_.on_range(packet, range, sequence_.missing_in(range));
    sequence_.fill(range.first, static_cast<uint32_t>(distance(range.first, range.end)));
  }
}

void Channel::on_read_response(const Packet& packet) {
  if (!packet.info().is_last()) seen_.learn_mtu(packet.view.payload_bytes);
  Read* const read = reads_.answered_by(packet);
  if (read == nullptr) return;
  acknowledge(read->psn - 1, packet.frame);
  advance(packet.psn(), packet.frame);
  reads_.check_form(packet, *read);
  if (packet.info().has(kHasAeth)) msn_.check_range(packet, *read);
  reads_.on_read_response(packet, *read);
}

void Channel::on_atomic_response(const Packet& packet) {
  Read* const read = reads_.answered_by(packet);
  if (read == nullptr) return;
  reads_.on_atomic_response(packet, *read);
  acknowledge(packet.psn() - 1, packet.frame);
  advance(packet.psn(), packet.frame);
  msn_.check_range(packet, *read);
}

/// This frame says that everything up to `psn` reached the responder. That may end within a READ.
void Channel::advance(Psn psn, uint64_t frame) {
  sequence_.check_order(psn, frame, seen_.sent);
  seen_.numbers.acknowledge(psn);
  sacks_.on_acknowledged(seen_.numbers.acked);
}

/// The same, and gaps and refusals before `psn` are settled.
void Channel::acknowledge_packets(Psn psn, uint64_t frame) {
  advance(psn, frame);
  sequence_.on_acknowledged(psn, frame);
  refusals_.on_acknowledged(psn, frame);
}

/// The same, and READs and atomics before `psn` were answered.
void Channel::acknowledge(Psn psn, uint64_t frame) {
  acknowledge_packets(psn, frame);
  reads_.on_acknowledged(psn, frame);
}

void Channel::finish() {
  unsent_.finish();
  reads_.finish(refusals_.is_final());
  sequence_.finish();
}

}  // namespace uroce::lint
