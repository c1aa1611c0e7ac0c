// The channel's view of requests: what each packet is, and whether it fits the one before.
#include <algorithm>
#include <bit>

#include "lint/channel.h"
#include "wire/crc32.h"

namespace uroce::lint {
namespace {

constexpr uint32_t kSmallestMtu = 256;
constexpr uint32_t kLargestMtu = 4096;
constexpr size_t kMaxReads = 512;
constexpr uint64_t kFollowers = 3;  // packets after a hole that make it one

constexpr unsigned val(Psn psn) { return psn.value(); }

constexpr bool is_mtu(uint32_t bytes) {
  return bytes >= kSmallestMtu && bytes <= kLargestMtu && std::has_single_bit(bytes);
}

constexpr uint32_t packets_of(uint32_t length, uint32_t mtu) {
  return length == 0 ? 1 : static_cast<uint32_t>((uint64_t{length} + mtu - 1) / mtu);
}

constexpr bool is_atomic(const OpcodeInfo& info) {
  return info.operation == Operation::kCompareSwap || info.operation == Operation::kFetchAdd;
}

}  // namespace

uint32_t Channel::span_of(const Packet& packet) const {
  if (packet.info().operation != Operation::kReadRequest) return 1;
  const uint32_t length = std::min(packet.view.reth().dma_length, 0x80000000u);
  return packets_of(length, mtu_ != 0 ? mtu_ : kLargestMtu);
}

/// As long as the path MTU is not known, a READ may take more PSNs than `span_of` says.
uint32_t Channel::longest_span_of(const Packet& packet) const {
  if (mtu_ != 0 || packet.info().operation != Operation::kReadRequest) return span_of(packet);
  return packets_of(std::min(packet.view.reth().dma_length, 0x80000000u), kSmallestMtu);
}

void Channel::learn_mtu(uint32_t payload_bytes) {
  if (mtu_ != 0 || !is_mtu(payload_bytes)) return;
  mtu_ = payload_bytes;
  for (Read& read : reads_) {
    if (read.span_known) continue;
    read.span = packets_of(read.length, mtu_);
    read.span_known = read.span_late = true;
    if (Sent* const sent = log_.find(read.psn)) sent->span = read.span;
    if (last_.is_set() && Psn(last_.psn) == read.psn) last_.span = read.span;
    if (tip_span_unknown_ && &read == &reads_.back()) next_ = position_ = read.end();
  }
  tip_span_unknown_ = false;
}

/// As long as the path MTU is not known, a READ takes anything up to the next PSN that is seen: packets may be missing
/// in between, so this proves nothing.
void Channel::resolve_tip(Psn psn) {
  if (!tip_span_unknown_ || distance(next_, psn) < 0) return;
  tip_span_unknown_ = false;
  next_ = position_ = psn;
}

const Channel::Read* Channel::find_read(Psn psn) const {
  for (size_t i = read_hint_; i < reads_.size() && i < read_hint_ + 2; i++) {
    if (reads_[i].contains(psn)) return &reads_[read_hint_ = i];
  }
  for (size_t i = reads_.size(); i-- > 0;) {
    if (reads_[i].contains(psn)) return &reads_[read_hint_ = i];
  }
  return nullptr;
}

/// The packet that stands right in front of `psn`, when it was seen.
const Sent* Channel::before(Psn psn) const {
  if (last_.is_set() && last_.end() == psn) return &last_;
  if (const Sent* const sent = log_.find(psn - 1); sent != nullptr && sent->end() == psn) return sent;
  const Read* const read = find_read(psn - 1);
  const Sent* const sent = read != nullptr ? log_.find(read->psn) : nullptr;
  return sent != nullptr && sent->end() == psn ? sent : nullptr;
}

Sent Channel::describe(const Packet& packet, const Sent* before) const {
  const OpcodeInfo& info = packet.info();
  Sent sent;
  sent.psn = val(packet.psn());
  sent.span = span_of(packet);
  sent.opcode = packet.opcode();
  sent.payload_bytes = packet.view.payload_bytes;
  sent.has_crc = packet.whole;
  if (packet.whole) sent.payload_crc = crc32_update(kCrcInit, packet.view.payload, packet.view.payload_bytes);
  if (info.has(kHasReth)) sent.dma_length = packet.view.reth().dma_length;
  if (info.is_first()) {
    sent.message_known = true;
    sent.first_psn = sent.psn;
  } else if (before != nullptr && before->message_known && before->is_open()) {
    sent.message_known = true;
    sent.first_psn = before->first_psn;
  }
  const uint32_t ended = info.is_last() ? 1 : 0;
  sent.messages = before != nullptr ? before->messages + ended : ended;
  sent.epoch = before != nullptr ? before->epoch : epoch_;
  return sent;
}

bool Channel::same_request(const Packet& packet, const Sent& sent) const {
  if (packet.opcode() != sent.opcode || packet.view.payload_bytes != sent.payload_bytes) return false;
  if (packet.info().has(kHasReth) && packet.view.reth().dma_length != sent.dma_length) return false;
  if (!packet.whole || !sent.has_crc) return true;
  return crc32_update(kCrcInit, packet.view.payload, packet.view.payload_bytes) == sent.payload_crc;
}

bool Channel::is_over_gap(Psn psn) const {
  return std::any_of(gaps_.begin(), gaps_.end(), [psn](const Gap& gap) { return distance(gap.begin, psn) > 0; });
}

void Channel::store(const Packet& packet, bool is_new) {
  const Psn psn = packet.psn();
  const Sent* const previous = before(psn);
  if (previous == nullptr) {
    epoch_++;
    // From a known first PSN on, messages are counted from zero like the responder counts them.
    if (beginning_known_ && psn == first_ && epoch_ == 1) {
      msn_epoch_ = 1;
      msn_offset_ = 0;
    }
  }
  Sent sent = describe(packet, previous);
  sent.repeated = !is_new && log_.find(psn) != nullptr;
  sent.over_gap = is_over_gap(psn);
  if (previous != nullptr) check_sequence(packet, *previous);
  log_.put(sent, acked_);
  check_lengths(packet, sent);
  last_ = sent;
  const OpcodeInfo& info = packet.info();
  const bool is_read = info.operation == Operation::kReadRequest;
  if (is_read || is_atomic(info)) {
    const bool span_known = !is_read || mtu_ != 0 || packet.view.reth().dma_length <= kSmallestMtu;
    add_read(packet, sent.span, span_known, is_new);
  }
  if (is_new) next_ = sent.end();
  position_ = sent.end();
}

void Channel::check_sequence(const Packet& packet, const Sent& before) {
  const OpcodeInfo& info = packet.info();
  const bool open = before.is_open();
  const bool follows = open ? !info.is_first() && info.operation == before.info().operation : info.is_first();
  if (follows) return;
  add(Rule::kOpcodeSequence, packet.frame,
      sentence("%s with PSN %u after %s; expected %s", opcode_name(packet.opcode()), val(packet.psn()),
               opcode_name(before.opcode),
               open ? "the Middle or Last of that message" : "a First or Only: no message is open"));
}

void Channel::check_lengths(const Packet& packet, const Sent& sent) {
  const OpcodeInfo& info = packet.info();
  if (!info.has(kHasPayload)) return;
  const char* name = opcode_name(sent.opcode);
  const uint32_t bytes = sent.payload_bytes;
  const uint32_t mtu = mtu_ != 0 ? mtu_ : kLargestMtu;
  if (!info.is_last()) {
    if (!is_mtu(bytes) || (mtu_ != 0 && bytes != mtu_)) {
      add(Rule::kMtuLength, packet.frame,
          sentence("%s of %u bytes; expected exactly one path MTU%s", name, bytes,
                   mtu_ != 0 ? sentence(", %u", mtu_).c_str() : ""));
    }
    learn_mtu(bytes);
    return;
  }
  if (bytes > mtu) {
    add(Rule::kMtuLength, packet.frame, sentence("%s of %u bytes; expected at most %u", name, bytes, mtu));
  } else if (!info.is_first() && bytes == 0) {
    add(Rule::kMtuLength, packet.frame, sentence("%s without payload; expected at least a byte", name));
  }
  if (info.operation != Operation::kWrite || !sent.message_known) return;
  uint64_t total = bytes;
  uint32_t asked = sent.dma_length;
  if (!info.is_first()) {
    const Sent* const first = log_.find(Psn(sent.first_psn));
    if (first == nullptr || first->info().operation != Operation::kWrite) return;
    total += uint64_t{first->payload_bytes} * static_cast<uint32_t>(distance(Psn(sent.first_psn), packet.psn()));
    asked = first->dma_length;
  }
  if (total == asked) return;
  add(Rule::kWriteLength, packet.frame,
      sentence("WRITE ends after %llu bytes; expected %u, its RETH length", static_cast<unsigned long long>(total),
               asked));
}

void Channel::add_read(const Packet& packet, uint32_t span, bool span_known, bool is_new) {
  Read read;
  read.psn = packet.psn();
  read.span = span;
  read.span_known = span_known;
  read.origin_known = is_new && (beginning_known_ || read.psn != first_);
  if (!read.origin_known) read.add_retry(read.psn, read.end());
  read.repeats_before = statistics_.retransmitted + statistics_.late;
  read.atomic = is_atomic(packet.info());
  if (read.atomic) {
    const AtomicEth atomic = packet.view.atomic_eth();
    read.va = atomic.va;
    read.rkey = atomic.rkey;
  } else {
    const Reth reth = packet.view.reth();
    read.va = reth.va;
    read.rkey = reth.rkey;
    read.length = std::min(reth.dma_length, 0x80000000u);
  }
  if (is_new && read_limit_ != UINT32_MAX) {
    const auto open =
        std::count_if(reads_.begin(), reads_.end(), [](const Read& r) { return !r.done() && r.hole_frame == 0; });
    if (static_cast<uint32_t>(open) >= read_limit_) {
      add(Rule::kReadOutstanding, packet.frame,
          sentence("%s while %u READs or atomics wait for their responses; expected at most %u outstanding",
                   opcode_name(packet.opcode()), static_cast<unsigned>(open), read_limit_));
    }
  }
  const auto after =
      std::find_if(reads_.begin(), reads_.end(), [&read](const Read& r) { return distance(read.psn, r.psn) > 0; });
  open_reads_ = std::min(open_reads_, static_cast<size_t>(after - reads_.begin()));
  reads_.insert(after, read);
  if (is_new) tip_span_unknown_ = !span_known;
  retire_reads();
}

void Channel::retire_reads() {
  if (reads_.size() <= kMaxReads) return;
  const size_t count = kMaxReads / 2;
  for (size_t i = 0; i < count; i++) judge(reads_[i]);
  reads_.erase(reads_.begin(), reads_.begin() + static_cast<std::ptrdiff_t>(count));
  read_hint_ = 0;
  open_reads_ -= std::min(open_reads_, count);
}

/// A request at or within the PSNs of an earlier READ or atomic.
Channel::Verdict Channel::on_read_range(const Packet& packet, Read& read) {
  const OpcodeInfo& info = packet.info();
  const bool repeats = read.atomic ? is_atomic(info) : info.operation == Operation::kReadRequest;
  const bool over = distance(read.end(), acked_) >= 0 || fatal_frame_ != 0;
  if (!repeats) {
    if (over) return Verdict::kRestarted;
    const bool inside = packet.psn() != read.psn;
    add(inside ? Rule::kPsnReadRange : Rule::kRetransmitDiffers, packet.frame,
        sentence("%s with PSN %u, which belongs to the %s of PSN %u to %u; expected PSN %u or later",
                 opcode_name(packet.opcode()), val(packet.psn()), read.atomic ? "atomic" : "READ", val(read.psn),
                 val(read.end() - 1), val(read.end())));
    return Verdict::kTaken;
  }
  check_read_retry(packet, read);
  statistics_.retransmitted++;
  if (distance(position_, packet.psn()) > 0 && distance(acked_, packet.psn()) > 0) behind_losses_ = true;
  if (distance(packet.psn(), position_) > 0) go_back(packet);
  satisfy_refusals(packet, static_cast<uint32_t>(distance(packet.psn(), read.end())));
  on_sent_again(packet, read.end(), true);
  read.add_retry(packet.psn(), packet.psn() + span_of(packet));
  if (read.hole_frame != 0) read.asked_again = true;
  if (Sent* const sent = log_.find(read.psn)) {
    sent->repeated = true;
    sent->over_gap = is_over_gap(packet.psn());
    last_ = *sent;
  }
  position_ = read.end();
  return Verdict::kTaken;
}

void Channel::check_read_retry(const Packet& packet, const Read& read) {
  const auto skipped = static_cast<uint32_t>(distance(read.psn, packet.psn()));
  uint64_t va = 0;
  uint64_t expected_va = read.va;
  uint32_t length = 0;
  uint32_t expected_length = 0;
  uint32_t rkey = 0;
  if (read.atomic) {
    va = packet.view.atomic_eth().va;
    rkey = packet.view.atomic_eth().rkey;
  } else {
    va = packet.view.reth().va;
    rkey = packet.view.reth().rkey;
    length = packet.view.reth().dma_length;
    if (skipped != 0 && mtu_ == 0) return;
    expected_va += uint64_t{skipped} * mtu_;
    expected_length = read.length - skipped * mtu_;
  }
  // A READ may be repeated for less than what is left, never for anything outside of it.
  if (va == expected_va && length <= expected_length && rkey == read.rkey) return;
  add(Rule::kReadRetryRange, packet.frame,
      sentence("%s again at PSN %u for %u bytes at 0x%llx with rkey 0x%x; expected %u bytes at 0x%llx with rkey 0x%x",
               opcode_name(packet.opcode()), val(packet.psn()), length, static_cast<unsigned long long>(va), rkey,
               expected_length, static_cast<unsigned long long>(expected_va), read.rkey));
}

/// Nothing more will be seen of this READ or atomic.
void Channel::judge(const Read& read) {
  if (read.done() || !read.span_known || read.hole_frame == 0 || read.asked_again || fatal_frame_ != 0) return;
  // With selective repeat those are not sent again.
  if (read.span_late && selective()) return;
  if (packets_ - read.hole_count < kFollowers) return;  // the requester had no time to ask again
  const Psn missing = read.psn + read.answered;
  add_response(read.atomic ? Rule::kAtomicMissing : Rule::kReadResponseMissing, read.hole_frame,
               sentence("response beyond PSN %u, which was never answered nor asked for again; expected the %s "
                        "response with that PSN before",
                        val(missing), read.atomic ? "atomic" : "READ"));
}

}  // namespace uroce::lint
