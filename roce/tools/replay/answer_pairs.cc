#include "replay/answer_pairs.h"

#include <algorithm>
#include <optional>

#include "replay/text.h"

namespace uroce::replay {

namespace {

constexpr size_t kLookAhead = 256;
constexpr Duration kGoing = milliseconds(1);  // a request so shortly before a DREQ may not reach its QP any more

bool is_plain_ack(const PacketView& view) {
  return view.info->operation == Operation::kAcknowledge && aeth_kind(view.aeth().syndrome) == AethKind::kAck;
}

bool is_nak(const PacketView& view) {
  return view.info->operation == Operation::kAcknowledge && aeth_kind(view.aeth().syndrome) != AethKind::kAck;
}

bool is_sequence_nak(const PacketView& view) {
  return is_nak(view) && view.aeth().syndrome == make_syndrome(AethKind::kNak, 0);
}

/// The PSN up to which everything is acknowledged.
Psn acknowledged_by(const PacketView& view) { return is_nak(view) ? view.bth.psn - 1 : view.bth.psn; }

/// An answer's BTH says nothing beyond opcode, QP and PSN.
bool has_plain_header(const PacketView& view) {
  const Bth& bth = view.bth;
  return !bth.solicited && !bth.ack_req && bth.pad_count == 0 && bth.tver == 0 && bth.resv7 == 0 &&
         bth.pkey == kDefaultPkey;
}

/// Takes plain ACKs and NAKs one after the other, and says whether one acknowledges less than an earlier one.
class Backwards {
 public:
  bool follow(const PacketView& view) {
    if (view.info->operation != Operation::kAcknowledge) return false;
    const Psn psn = acknowledged_by(view);
    const bool back = any_ && psn.before(newest_);
    if (!back) newest_ = psn;
    any_ = true;
    return back;
  }

 private:
  Psn newest_;
  bool any_ = false;
};

class Aligner {
 public:
  Aligner(const Conversation& conversation, const std::vector<OurAnswer>& ours, const MsnByPsn& progress,
          RoleResult& result)
      : packets_(conversation.packets),
        closed_(conversation.closed),
        ours_(ours),
        progress_(progress),
        result_(result) {
    Backwards recorded;
    for (size_t i = 0; i < packets_.size(); i++) {
      if (!packets_[i].response || !packets_[i].parsed) continue;
      recorded_.push_back(i);
      recorded_back_.push_back(packets_[i].usable() && recorded.follow(packets_[i].view));
    }
    Backwards own;
    for (const OurAnswer& answer : ours_) ours_back_.push_back(own.follow(answer.view));
  }
  void run();

 private:
  const Recorded& theirs(size_t i) const { return packets_[recorded_[i]]; }
  bool correspond(size_t i, size_t j) const;
  std::optional<Tolerance> may_lack_ours(size_t j) const { return granted(reason_to_lack_ours(j)); }
  std::optional<Tolerance> may_lack_theirs(size_t i, size_t j) const { return granted(reason_to_lack_theirs(i, j)); }
  std::optional<Tolerance> reason_to_lack_ours(size_t j) const;
  std::optional<Tolerance> reason_to_lack_theirs(size_t i, size_t j) const;
  std::optional<Tolerance> granted(std::optional<Tolerance> tolerance) const {
    return tolerance && result_.used.grants(*tolerance) ? tolerance : std::nullopt;
  }
  bool asked_again(size_t j) const;
  bool first_since_rnr_nak(size_t i) const;
  bool skip_ours();
  bool skip_theirs();
  void pair();
  const Recorded* read_response_before(size_t i) const;
  std::optional<bool> gave_credits(const PacketView& view);
  void report_ours();
  void report_theirs();

  const std::vector<Recorded>& packets_;
  const std::optional<Instant> closed_;
  const std::vector<OurAnswer>& ours_;
  const MsnByPsn& progress_;
  RoleResult& result_;
  std::vector<size_t> recorded_;     // indices of answers
  std::vector<bool> recorded_back_;  // for each: it acknowledges less than an earlier one
  std::vector<bool> ours_back_;
  std::unordered_map<uint8_t, bool> gave_credits_;  // by opcode
  size_t i_ = 0;                                    // into recorded_
  size_t j_ = 0;                                    // into ours_
};

bool Aligner::correspond(size_t i, size_t j) const {
  const PacketView& a = theirs(i).view;
  const PacketView& b = ours_[j].view;
  if (a.bth.psn != b.bth.psn || recorded_[i] < ours_[j].cause) return false;
  const bool reads = a.info->operation == Operation::kReadResponse && a.info->operation == b.info->operation;
  if (a.bth.opcode != b.bth.opcode) return reads && ours_[j].duplicate;
  return !a.info->has(kHasAeth) || aeth_kind(a.aeth().syndrome) == aeth_kind(b.aeth().syndrome);
}

/// True when the requester asks again later for what our answer `j` answers.
bool Aligner::asked_again(size_t j) const {
  const Psn psn = ours_[j].view.bth.psn;
  for (size_t at = ours_[j].cause + 1; at < packets_.size(); at++) {
    const Recorded& packet = packets_[at];
    if (packet.response || !packet.usable()) continue;
    if (distance(packet.psn(), psn) >= 0 && psn.before(end_of(packet.view, result_.mtu))) return true;
  }
  return false;
}

/// Why the capture may lack this answer of ours.
std::optional<Tolerance> Aligner::reason_to_lack_ours(size_t j) const {
  const PacketView& view = ours_[j].view;
  if (is_plain_ack(view) && !ours_back_[j]) {
    for (size_t i = i_; i < recorded_.size(); i++) {
      if (recorded_[i] < ours_[j].cause || !theirs(i).usable()) continue;
      if (distance(view.bth.psn, acknowledged_by(theirs(i).view)) >= 0) return Tolerance::kAckCoalescing;
    }
  }
  if (asked_again(j)) return Tolerance::kLostAnswer;
  if (closed_ && i_ == recorded_.size() && packets_[ours_[j].cause].time + kGoing > *closed_) return Tolerance::kClosed;
  return std::nullopt;
}

/// Why our engine may lack this recorded answer. Our answers before `j` are already paired or skipped.
std::optional<Tolerance> Aligner::reason_to_lack_theirs(size_t i, size_t j) const {
  const PacketView& view = theirs(i).view;
  if (!theirs(i).usable() || !has_plain_header(view)) return std::nullopt;
  if (is_plain_ack(view)) {
    // An additional ACK is correct, unless more was acknowledged before.
    if (recorded_back_[i]) return std::nullopt;
    const auto known = progress_.find(view.bth.psn.value());
    if (known == progress_.end() || known->second != view.aeth().msn) return std::nullopt;
    const auto later = std::partition_point(ours_.begin(), ours_.end(),
                                            [&](const OurAnswer& ours) { return ours.cause <= recorded_[i]; });
    for (auto k = static_cast<size_t>(later - ours_.begin()); k-- > 0;) {
      if (distance(view.bth.psn, acknowledged_by(ours_[k].view)) >= 0) return Tolerance::kAckCoalescing;
    }
  }
  if (is_sequence_nak(view)) {
    for (size_t k = j; k-- > 0;) {
      const PacketView& before = ours_[k].view;
      if (!is_nak(before)) break;
      if (aeth_kind(before.aeth().syndrome) == AethKind::kRnrNak && before.bth.psn == view.bth.psn &&
          before.aeth().msn == view.aeth().msn) {
        return first_since_rnr_nak(i) ? std::optional(Tolerance::kNakAfterRnr) : std::nullopt;
      }
    }
  }
  return std::nullopt;
}

/// True when this is the first such NAK since the RNR NAK and a request came too early: such requests get one NAK for
/// each RNR NAK.
bool Aligner::first_since_rnr_nak(size_t i) const {
  const Psn psn = theirs(i).psn();
  bool since = true;  // since the RNR NAK
  bool too_early = false;
  for (size_t k = recorded_[i], looked = 0; k-- > 0 && looked < kLookAhead; looked++) {
    const Recorded& before = packets_[k];
    if (!before.usable()) continue;
    too_early |= !before.response && distance(psn, before.psn()) > 0;
    if (since && before.response && is_nak(before.view)) {
      if (is_sequence_nak(before.view) && before.psn() == psn) return false;
      since = aeth_kind(before.view.aeth().syndrome) != AethKind::kRnrNak;
    }
    if (!since && too_early) return true;
  }
  return false;
}

/// Skips our answers up to the one that belongs to the recorded answer, or all that are left when there is none.
bool Aligner::skip_ours() {
  size_t j = j_;
  const size_t end = std::min(ours_.size(), j_ + kLookAhead);
  while (j < end && (i_ == recorded_.size() || !correspond(i_, j)) && may_lack_ours(j)) j++;
  const bool reached = i_ == recorded_.size() || (j < ours_.size() && correspond(i_, j));
  if (j == j_ || !reached) return false;
  for (; j_ < j; j_++) use(result_.used, *may_lack_ours(j_));
  return true;
}

bool Aligner::skip_theirs() {
  size_t i = i_;
  const size_t end = std::min(recorded_.size(), i_ + kLookAhead);
  while (i < end && (j_ == ours_.size() || !correspond(i, j_)) && may_lack_theirs(i, j_)) i++;
  const bool reached = j_ == ours_.size() || (i < recorded_.size() && correspond(i, j_));
  if (i == i_ || !reached) return false;
  for (; i_ < i; i_++) use(result_.used, *may_lack_theirs(i_, j_));
  return true;
}

/// The earlier recorded response with the same PSN.
const Recorded* Aligner::read_response_before(size_t i) const {
  for (size_t k = i; k-- > 0;) {
    const Recorded& before = theirs(k);
    if (before.usable() && before.info().operation == Operation::kReadResponse && before.psn() == theirs(i).psn()) {
      return &before;
    }
  }
  return nullptr;
}

/// Whether the first ACK of the same kind gave credits.
std::optional<bool> Aligner::gave_credits(const PacketView& view) {
  if (!view.info->has(kHasAeth) || aeth_kind(view.aeth().syndrome) != AethKind::kAck) return std::nullopt;
  return gave_credits_.try_emplace(view.bth.opcode, gives_credits(view.aeth())).first->second;
}

void Aligner::pair() {
  const OurAnswer& ours = ours_[j_];
  const Recorded& recorded = theirs(i_);
  CompareContext context;
  context.refused_send = ours.refused_send;
  context.duplicate = ours.duplicate;
  context.first = &theirs(0);
  context.original = ours.duplicate ? read_response_before(i_) : nullptr;
  context.gives_credits = gave_credits(recorded.view);
  std::vector<FieldPair> rows = compare(context, recorded, ours.view, result_.used);
  result_.compared++;
  if (!all_same(rows)) {
    result_.differences.push_back(
        {"an answer differs", recorded.frame, packets_[ours.cause].frame, std::move(rows), ours.reasons});
  }
  i_++;
  j_++;
}

void Aligner::report_ours() {
  const OurAnswer& ours = ours_[j_++];
  Difference difference{"we answer, the recorded responder does not", 0, packets_[ours.cause].frame, {}, ours.reasons};
  difference.rows.push_back({"packet", "none", summary(ours.view), false, "no tolerance lets this answer be missing"});
  result_.differences.push_back(std::move(difference));
}

void Aligner::report_theirs() {
  const Recorded& recorded = theirs(i_++);
  Difference difference{"the recorded responder answers, we do not", recorded.frame, 0, {}, {}};
  difference.rows.push_back(
      {"packet", summary(recorded.view), "none", false, "no tolerance lets this answer be there"});
  result_.differences.push_back(std::move(difference));
}

void Aligner::run() {
  while (i_ < recorded_.size() || j_ < ours_.size()) {
    const bool both = i_ < recorded_.size() && j_ < ours_.size();
    const bool paired = both && correspond(i_, j_);
    if (!paired && (skip_ours() || skip_theirs())) continue;
    // Different answers to the same request are a pair, too.
    const bool same_psn = both && theirs(i_).psn() == ours_[j_].view.bth.psn;
    const bool too_early = both && recorded_[i_] < ours_[j_].cause;
    if (paired || (same_psn && !too_early)) {
      pair();
    } else if (too_early && may_lack_theirs(i_, j_)) {
      use(result_.used, *may_lack_theirs(i_++, j_));
    } else if (both && may_lack_ours(j_) && may_lack_theirs(i_, j_)) {
      use(result_.used, *may_lack_ours(j_++));
      use(result_.used, *may_lack_theirs(i_, j_));
      i_++;
    } else if (i_ == recorded_.size() ||
               (both && ours_[j_].cause < recorded_[i_] && ours_[j_].view.bth.psn.before(theirs(i_).psn()))) {
      report_ours();
    } else {
      report_theirs();
    }
  }
}

}  // namespace

void pair_answers(const Conversation& conversation, const std::vector<OurAnswer>& ours, const MsnByPsn& progress,
                  RoleResult& result) {
  Aligner(conversation, ours, progress, result).run();
}

}  // namespace uroce::replay
