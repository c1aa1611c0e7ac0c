// Draws operations and posts them.
#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "oracle/rc_end.h"

namespace uroce::oracle {

namespace {

constexpr uint32_t kMaxInline = 256;

}  // namespace

RcEnd::RcEnd(const sim::Side& side, Receiver& receiver, HostShare& share, const MixedOptions& options, uint64_t seed,
             uint64_t ops, Verdict& verdict)
    : side_(side),
      receiver_(receiver),
      share_(share),
      options_(options),
      random_(seed),
      verdict_(verdict),
      target_(side.buffer(kAtomicWords * 8 + 2 * options.max_bytes)),
      model_(target_.size),
      landing_(side, 3 * options.max_bytes + 4096),
      ops_left_(ops) {
  for (uint32_t i = 0; i < target_.size; i++) target_.data()[i] = static_cast<uint8_t>(random_.next_u32());
  std::memcpy(model_.data(), target_.data(), target_.size);
  window_key_ = side_.engine().memory().allocate_window(side_.pd, true);
  if (window_key_ == 0) verdict_.fail("no memory window");
}

uint32_t RcEnd::draw_length() {
  const uint32_t mtu = side_.qp->mtu();
  uint32_t length = 0;
  const uint32_t kind = random_.below(100);
  if (kind < 40) {
    length = random_.below(300);
  } else if (kind < 75) {
    length = mtu * random_.below(6) + random_.below(3) - 1;  // k * mtu - 1 .. + 1
    if (length > (1u << 30)) length = 0;
  } else if (kind < 95) {
    length = random_.below(16 * 1024);
  } else {
    length = random_.below(options_.max_bytes + 1);
  }
  if (options_.small_bytes != 0) length %= options_.small_bytes + 1;
  return std::min(length, options_.max_bytes);
}

WrOpcode RcEnd::draw_opcode() {
  const uint32_t n = random_.below(100);
  if (n < 18) return WrOpcode::kSend;
  if (n < 26) return WrOpcode::kSendWithImm;
  if (n < 32) return WrOpcode::kSendWithInv;
  if (n < 52) return WrOpcode::kRdmaWrite;
  if (n < 60) return WrOpcode::kRdmaWriteWithImm;
  if (n < 78) return WrOpcode::kRdmaRead;
  if (n < 86) return WrOpcode::kCompareSwap;
  if (n < 95) return WrOpcode::kFetchAdd;
  return n < 99 ? WrOpcode::kBindMw : WrOpcode::kLocalInv;
}

/// Pieces of the source that make up a message.
std::vector<Span> RcEnd::draw_source(uint32_t bytes) {
  std::vector<Span> pieces;
  const uint32_t count = 1 + (random_.below(2) != 0 ? random_.below(4) : 0);
  for (uint32_t left = bytes, i = 1; i <= count; i++) {
    const uint32_t length = i == count ? left : random_.below(left + 1);
    pieces.push_back({random_.below(share_.source.size - length + 1), length});
    left -= length;
  }
  return pieces;
}

/// False: there is no room for what it brings.
bool RcEnd::draw_landing(Pending& op) {
  if (!landing_.take(op.landing, op.bytes, random_)) return false;
  for (const Span& piece : op.landing.pieces) sges_.push_back(landing_.sge(piece));
  return true;
}

/// An earlier READ may be carried out, or repeated, after this one: fence it off if it would see a difference.
void RcEnd::overlap_fence(SendWr& wr, uint32_t offset, uint32_t bytes) {
  for (const Pending& op : pending_) {
    if (op.opcode != WrOpcode::kRdmaRead) continue;
    if (offset < op.remote_offset + op.bytes && op.remote_offset < offset + bytes) wr.flags |= kSendFence;
  }
}

/// Somewhere in the peer's memory, through its region or, if one is bound that fits, its window.
void RcEnd::choose_remote(SendWr& wr, uint32_t bytes, uint32_t& offset) {
  const bool window = peer_->window_ == Window::kBound && bytes <= peer_->window_bytes_ && random_.below(3) == 0;
  if (window) {
    offset = peer_->window_offset_ + random_.below(peer_->window_bytes_ - bytes + 1);
    wr.rkey = peer_->window_key_;
  } else {
    offset = random_.below(peer_->target_.size - bytes + 1);
    wr.rkey = peer_->target_.key;
  }
  wr.remote_addr = peer_->target_.addr(offset);
  // Nobody looks at the key of nothing.
  if (bytes == 0) wr.rkey = random_.next_u32();
}

void RcEnd::note_before(Pending& op, uint32_t offset, uint32_t bytes) {
  if (!options_.may_fail()) return;
  const auto from = peer_->model_.begin() + offset;
  op.changed_offset = offset;
  op.before.assign(from, from + bytes);
}

void RcEnd::note_after(Pending& op) {
  if (!options_.may_fail()) return;
  const auto from = peer_->model_.begin() + op.changed_offset;
  op.after.assign(from, from + static_cast<std::ptrdiff_t>(op.before.size()));
}

bool RcEnd::prepare_send(SendWr& wr, Pending& op) {
  Incoming message{WcOpcode::kRecv, 0, op.bytes, 0, {}, op.wr_id};
  if (wr.opcode == WrOpcode::kSendWithInv) {
    if (peer_->window_ != Window::kBound) {
      wr.opcode = op.opcode = WrOpcode::kSend;
    } else {
      wr.flags |= kSendFence;  // READs through the window must be over
      peer_->window_ = Window::kInvalidating;
      message.flags = kWcWithInv;
      message.imm_or_rkey = wr.imm_or_rkey = peer_->window_key_;
    }
  }
  if (wr.opcode == WrOpcode::kSendWithImm) {
    message.flags = kWcWithImm;
    message.imm_or_rkey = wr.imm_or_rkey = random_.next_u32();
  }
  message.pieces = source_ = draw_source(op.bytes);
  peer_->incoming_.push_back(std::move(message));
  return true;
}

bool RcEnd::prepare_write(SendWr& wr, Pending& op) {
  uint32_t offset = 0;
  choose_remote(wr, op.bytes, offset);
  overlap_fence(wr, offset, op.bytes);
  source_ = draw_source(op.bytes);
  note_before(op, offset, op.bytes);
  uint32_t at = offset;
  for (const Span& piece : source_) {
    std::memcpy(peer_->model_.data() + at, share_.source.data() + piece.offset, piece.bytes);
    at += piece.bytes;
  }
  note_after(op);
  if (wr.opcode == WrOpcode::kRdmaWriteWithImm) {
    wr.imm_or_rkey = random_.next_u32();
    peer_->incoming_.push_back({WcOpcode::kRecvRdmaWithImm, kWcWithImm, op.bytes, wr.imm_or_rkey, {}, op.wr_id});
  }
  return true;
}

bool RcEnd::prepare_read(SendWr& wr, Pending& op) {
  if (!draw_landing(op)) return false;
  choose_remote(wr, op.bytes, op.remote_offset);
  const auto from = peer_->model_.begin() + op.remote_offset;
  op.expected.assign(from, from + op.bytes);
  return true;
}

bool RcEnd::prepare_atomic(SendWr& wr, Pending& op) {
  op.bytes = 8;
  if (!draw_landing(op)) return false;
  if (wr.opcode == WrOpcode::kFetchAdd && random_.below(2) == 0) {
    op.shared_counter = true;
    peer_share()->counter_adds++;
    wr.remote_addr = peer_share()->counter.addr();
    wr.rkey = peer_share()->counter.key;
    wr.compare_add = 1;
    return true;
  }
  // Registered memory is aligned to eight bytes: operator new[] gives sixteen.
  const uint32_t offset = 8 * random_.below(kAtomicWords);
  overlap_fence(wr, offset, 8);
  wr.remote_addr = peer_->target_.addr(offset);
  wr.rkey = peer_->target_.key;
  note_before(op, offset, 8);
  uint64_t word;
  std::memcpy(&word, peer_->model_.data() + offset, 8);
  op.expected.assign(peer_->model_.begin() + offset, peer_->model_.begin() + offset + 8);
  if (wr.opcode == WrOpcode::kFetchAdd) {
    wr.compare_add = random_.next_u64();
    word += wr.compare_add;
  } else {
    wr.compare_add = random_.below(2) == 0 ? word : random_.next_u64();
    wr.swap = random_.next_u64();
    if (wr.compare_add == word) word = wr.swap;
  }
  std::memcpy(peer_->model_.data() + offset, &word, 8);
  note_after(op);
  return true;
}

/// Our own window, for the peer to use: bound, and sometimes invalidated here again.
bool RcEnd::prepare_bind(SendWr& wr, Pending& op) {
  op.bytes = 0;
  wr.flags |= kSendSignaled;
  if (wr.opcode == WrOpcode::kLocalInv) {
    if (window_ != Window::kBound || peer_->ops_left_ != 0 || !peer_->pending_.empty()) return false;
    window_ = Window::kReleasing;
    wr.imm_or_rkey = window_key_;
    return true;
  }
  if (window_ != Window::kUnbound) return false;
  window_ = Window::kBinding;
  window_bytes_ = 1 + random_.below(target_.size);
  window_offset_ = random_.below(target_.size - window_bytes_ + 1);
  const uint32_t new_key = (window_key_ & ~0xFFu) | ((window_key_ + 1) & 0xFF);
  wr.bind = {
      window_key_, new_key, target_.key, target_.addr(window_offset_), window_bytes_, kRemoteRead | kRemoteWrite};
  window_key_ = new_key;
  return true;
}

bool RcEnd::prepare(SendWr& wr, Pending& op) {
  switch (wr.opcode) {
    case WrOpcode::kSend:
    case WrOpcode::kSendWithImm:
    case WrOpcode::kSendWithInv:
      return prepare_send(wr, op);
    case WrOpcode::kRdmaWrite:
    case WrOpcode::kRdmaWriteWithImm:
      return prepare_write(wr, op);
    case WrOpcode::kRdmaRead:
      return prepare_read(wr, op);
    case WrOpcode::kCompareSwap:
    case WrOpcode::kFetchAdd:
      return prepare_atomic(wr, op);
    default:
      return prepare_bind(wr, op);
  }
}

bool RcEnd::submit(SendWr& wr, Pending&& op) {
  const bool carries = !source_.empty();
  if (carries && op.bytes <= kMaxInline && random_.below(2) == 0) {
    wr.flags |= kSendInline;
    inline_bytes_.clear();
    for (const Span& piece : source_) {
      const uint8_t* from = share_.source.data() + piece.offset;
      inline_bytes_.insert(inline_bytes_.end(), from, from + piece.bytes);
    }
    sges_.push_back({reinterpret_cast<uint64_t>(inline_bytes_.data()), op.bytes, 0});
  } else if (carries && (op.bytes != 0 || random_.below(2) == 0)) {
    for (const Span& piece : source_) sges_.push_back(share_.source.sge(piece.offset, piece.bytes));
  }
  wr.sges = sges_.data();
  wr.num_sge = static_cast<uint32_t>(sges_.size());
  const PostResult result = side_.engine().post_send(*side_.qp, wr, side_.host->now());
  std::fill(inline_bytes_.begin(), inline_bytes_.end(), uint8_t{0xEE});
  if (result != PostResult::kOk) {
    verdict_.fail("post_send refused opcode %d, %u bytes: %d", static_cast<int>(wr.opcode), op.bytes,
                  static_cast<int>(result));
    return false;
  }
  if (pending_.empty()) note_progress();
  posted_bytes_ += op.bytes;
  pending_.push_back(std::move(op));
  return true;
}

bool RcEnd::post_one() {
  SendWr wr;
  Pending op{};
  source_.clear();
  sges_.clear();
  wr.opcode = op.opcode = draw_opcode();
  wr.wr_id = op.wr_id = next_wr_id_;
  op.bytes = draw_length();
  if (random_.below(20) == 0) wr.flags |= kSendFence;
  if (random_.below(4) == 0) wr.flags |= kSendSolicited;
  const bool last = ops_left_ == 1;
  if (last || unsignalled_ >= 15 || random_.below(10) < 6) wr.flags |= kSendSignaled;
  if (!prepare(wr, op)) return false;
  op.signalled = (wr.flags & kSendSignaled) != 0;
  unsignalled_ = op.signalled ? 0 : unsignalled_ + 1;
  next_wr_id_++;
  ops_left_--;
  return submit(wr, std::move(op));
}

void RcEnd::post_some() {
  if (stopped_ || broken_) return;
  uint32_t count = random_.below(12);
  while (count-- > 0 && ops_left_ > 0 && pending_.size() < kQueueDepth && !verdict_.failed()) {
    if (!post_one() && random_.below(2) == 0) break;
  }
}

}  // namespace uroce::oracle
