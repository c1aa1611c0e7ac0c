#include "oracle/operation_drawer.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace uroce::oracle {

namespace {

constexpr uint32_t kMaxInline = 256;

}  // namespace

uint32_t OperationDrawer::draw_length() {
  const uint32_t mtu = c_.side.qp->mtu();
  uint32_t length = 0;
  const uint32_t kind = c_.random.below(100);
  if (kind < 40) {
    length = c_.random.below(300);
  } else if (kind < 75) {
    length = mtu * c_.random.below(6) + c_.random.below(3) - 1;  // k * mtu - 1 .. + 1
    if (length > (1u << 30)) length = 0;
  } else if (kind < 95) {
    length = c_.random.below(16 * 1024);
  } else {
    length = c_.random.below(c_.options.max_bytes + 1);
  }
  if (c_.options.small_bytes != 0) length %= c_.options.small_bytes + 1;
  return std::min(length, c_.options.max_bytes);
}

WrOpcode OperationDrawer::draw_opcode() {
  const uint32_t n = c_.random.below(100);
  if (n < 18) return WrOpcode::kSend;
  if (n < 26) return WrOpcode::kSendWithImm;
  if (n < 32) return WrOpcode::kSendWithInv;
  if (n < 52) return WrOpcode::kRdmaWrite;
  if (n < 60) return WrOpcode::kRdmaWriteWithImm;
  if (n < 78) return WrOpcode::kRdmaRead;
  if (n < 84) return WrOpcode::kCompareSwap;
  if (n < 87) return WrOpcode::kAtomicWrite;
  if (n < 93) return WrOpcode::kFetchAdd;
  if (n < 95) return WrOpcode::kFlush;
  return n < 99 ? WrOpcode::kBindMw : WrOpcode::kLocalInv;
}

/// Pieces of the source that make up a message.
std::vector<Span> OperationDrawer::draw_source(uint32_t bytes) {
  ensure(bytes <= c_.share.source.size, "the source holds the longest message");
  std::vector<Span> pieces;
  const uint32_t count = 1 + (c_.random.below(2) != 0 ? c_.random.below(4) : 0);
  for (uint32_t left = bytes, i = 1; i <= count; i++) {
    const uint32_t length = i == count ? left : c_.random.below(left + 1);
    pieces.push_back({c_.random.below(c_.share.source.size - length + 1), length});
    left -= length;
  }
  return pieces;
}

/// False: there is no room for what it brings.
bool OperationDrawer::draw_landing(PostedOp& op) {
  if (!c_.landing.take(op.landing, op.bytes, c_.random)) return false;
  for (const Span& piece : op.landing.pieces) sges_.push_back(c_.landing.sge(piece));
  return true;
}

/// An earlier READ may be carried out, or repeated, after this one: fence it off if it would see a difference.
void OperationDrawer::overlap_fence(SendWr& wr, uint32_t offset, uint32_t bytes) {
  if (c_.sends.reads(offset, bytes)) wr.flags |= kSendFence;
}

/// Somewhere in the peer's memory, through its region or, if one is bound that fits, its window. Returns where.
uint32_t OperationDrawer::choose_remote(SendWr& wr, uint32_t bytes) {
  const TargetMemory& target = c_.peer->target;
  const MemoryWindow& window = c_.peer->window;
  uint32_t offset = 0;
  if (window.admits(bytes) && c_.random.below(3) == 0) {
    offset = window.offset() + c_.random.below(window.bytes() - bytes + 1);
    wr.rkey = window.key();
  } else {
    offset = c_.random.below(target.size() - bytes + 1);
    wr.rkey = target.key();
  }
  wr.remote_addr = target.addr(offset);
  // Nobody looks at the key of nothing.
  if (bytes == 0) wr.rkey = c_.random.next_u32();
  return offset;
}

void OperationDrawer::note_before(PostedOp& op, uint32_t offset, uint32_t bytes) {
  if (!c_.options.may_fail()) return;
  op.changed_offset = offset;
  op.before = c_.peer->target.expected(offset, bytes);
}

void OperationDrawer::note_after(PostedOp& op) {
  if (!c_.options.may_fail()) return;
  op.after = c_.peer->target.expected(op.changed_offset, static_cast<uint32_t>(op.before.size()));
}

bool OperationDrawer::prepare_send(SendWr& wr, PostedOp& op) {
  ExpectedMessage message{WcOpcode::kRecv, 0, op.bytes, 0, {}, op.wr_id};
  if (wr.opcode == WrOpcode::kSendWithInv) {
    if (!c_.peer->window.bound()) {
      wr.opcode = op.opcode = WrOpcode::kSend;
    } else {
      wr.flags |= kSendFence;  // READs through the window must be over
      c_.peer->window.begin_invalidate();
      message.flags = kWcWithInv;
      message.imm_or_rkey = wr.imm_or_rkey = c_.peer->window.key();
    }
  }
  if (wr.opcode == WrOpcode::kSendWithImm) {
    message.flags = kWcWithImm;
    message.imm_or_rkey = wr.imm_or_rkey = c_.random.next_u32();
  }
  message.pieces = source_ = draw_source(op.bytes);
  c_.peer->messages.expect(std::move(message));
  return true;
}

bool OperationDrawer::prepare_write(SendWr& wr, PostedOp& op) {
  const uint32_t offset = choose_remote(wr, op.bytes);
  overlap_fence(wr, offset, op.bytes);
  source_ = draw_source(op.bytes);
  note_before(op, offset, op.bytes);
  uint32_t at = offset;
  for (const Span& piece : source_) {
    c_.peer->target.expect(at, c_.share.source.data() + piece.offset, piece.bytes);
    at += piece.bytes;
  }
  note_after(op);
  if (wr.opcode == WrOpcode::kRdmaWriteWithImm) {
    wr.imm_or_rkey = c_.random.next_u32();
    c_.peer->messages.expect({WcOpcode::kRecvRdmaWithImm, kWcWithImm, op.bytes, wr.imm_or_rkey, {}, op.wr_id});
  }
  return true;
}

bool OperationDrawer::prepare_read(SendWr& wr, PostedOp& op) {
  if (!draw_landing(op)) return false;
  op.remote_offset = choose_remote(wr, op.bytes);
  op.expected = c_.peer->target.expected(op.remote_offset, op.bytes);
  return true;
}

bool OperationDrawer::prepare_atomic(SendWr& wr, PostedOp& op) {
  op.bytes = 8;
  if (!draw_landing(op)) return false;
  if (wr.opcode == WrOpcode::kFetchAdd && c_.random.below(2) == 0) {
    SharedCounter& counter = c_.peer->share.counter;
    op.shared_counter = true;
    counter.note_add();
    wr.remote_addr = counter.addr();
    wr.rkey = counter.key();
    wr.compare_add = 1;
    return true;
  }
  // Registered memory is aligned to eight bytes: operator new[] gives sixteen.
  TargetMemory& target = c_.peer->target;
  const uint32_t offset = 8 * c_.random.below(kAtomicWords);
  overlap_fence(wr, offset, 8);
  wr.remote_addr = target.addr(offset);
  wr.rkey = target.key();
  note_before(op, offset, 8);
  op.expected = target.expected(offset, 8);
  uint64_t word;
  std::memcpy(&word, op.expected.data(), 8);
  if (wr.opcode == WrOpcode::kFetchAdd) {
    wr.compare_add = c_.random.next_u64();
    word += wr.compare_add;
  } else {
    wr.compare_add = c_.random.below(2) == 0 ? word : c_.random.next_u64();
    wr.swap = c_.random.next_u64();
    if (wr.compare_add == word) word = wr.swap;
  }
  target.expect(offset, &word, 8);
  note_after(op);
  return true;
}

/// Neither brings anything: what an ATOMIC_WRITE changes is seen in the peer's memory, and a FLUSH changes nothing.
bool OperationDrawer::prepare_placement(SendWr& wr, PostedOp& op) {
  TargetMemory& target = c_.peer->target;
  wr.rkey = target.key();
  if (wr.opcode == WrOpcode::kFlush) {
    wr.flush.level = static_cast<FlushLevel>(c_.random.below(2));
    wr.flush.length = std::min(op.bytes, target.size());
    wr.remote_addr = target.addr(0);
    op.bytes = 0;
    return true;
  }
  op.bytes = 0;
  const uint32_t offset = 8 * c_.random.below(kAtomicWords);
  overlap_fence(wr, offset, 8);
  wr.remote_addr = target.addr(offset);
  wr.swap = c_.random.next_u64();
  note_before(op, offset, 8);
  target.expect(offset, &wr.swap, 8);
  note_after(op);
  return true;
}

/// Our own window, for the peer to use: bound, and sometimes invalidated here again.
bool OperationDrawer::prepare_bind(SendWr& wr, PostedOp& op) {
  op.bytes = 0;
  wr.flags |= kSendSignaled;
  if (wr.opcode == WrOpcode::kLocalInv) {
    if (!c_.window.bound() || !c_.peer->sends.all_done()) return false;
    c_.window.begin_release();
    wr.imm_or_rkey = c_.window.key();
    return true;
  }
  if (!c_.window.unbound()) return false;
  wr.bind = c_.window.begin_bind(c_.target, c_.random);
  return true;
}

bool OperationDrawer::prepare(SendWr& wr, PostedOp& op) {
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
    case WrOpcode::kFlush:
    case WrOpcode::kAtomicWrite:
      return prepare_placement(wr, op);
    default:
      return prepare_bind(wr, op);
  }
}

/// Inline, or by reference; nothing may be sent as no element or as empty ones.
void OperationDrawer::add_source(SendWr& wr, uint32_t bytes) {
  if (source_.empty()) return;
  if (bytes <= kMaxInline && c_.random.below(2) == 0) {
    wr.flags |= kSendInline;
    inline_bytes_.clear();
    for (const Span& piece : source_) {
      const uint8_t* from = c_.share.source.data() + piece.offset;
      inline_bytes_.insert(inline_bytes_.end(), from, from + piece.bytes);
    }
    ensure(inline_bytes_.size() == bytes, "the pieces of a message make up its length");
    sges_.push_back({reinterpret_cast<uint64_t>(inline_bytes_.data()), bytes, 0});
  } else if (bytes != 0 || c_.random.below(2) == 0) {
    for (const Span& piece : source_) sges_.push_back(c_.share.source.sge(piece.offset, piece.bytes));
  }
}

bool OperationDrawer::submit(SendWr& wr, PostedOp&& op) {
  add_source(wr, op.bytes);
  wr.sges = sges_.data();
  wr.num_sge = static_cast<uint32_t>(sges_.size());
  const PostResult result = c_.side.engine().post_send(*c_.side.qp, wr, c_.side.host->now());
  std::fill(inline_bytes_.begin(), inline_bytes_.end(), uint8_t{0xEE});
  if (result != PostResult::kOk) {
    c_.verdict.fail("post_send refused opcode %d, %u bytes: %d", static_cast<int>(wr.opcode), op.bytes,
                    static_cast<int>(result));
    return false;
  }
  if (c_.sends.empty()) c_.note_progress();
  c_.sends.push(std::move(op));
  return true;
}

bool OperationDrawer::post_one() {
  SendWr wr;
  PostedOp op{};
  source_.clear();
  sges_.clear();
  wr.opcode = op.opcode = draw_opcode();
  wr.wr_id = op.wr_id = c_.sends.next_wr_id();
  op.bytes = draw_length();
  if (c_.random.below(20) == 0) wr.flags |= kSendFence;
  if (c_.random.below(4) == 0) wr.flags |= kSendSolicited;
  const bool last = c_.sends.ops_left() == 1;
  if (last || c_.sends.unsignalled() >= 15 || c_.random.below(10) < 6) wr.flags |= kSendSignaled;
  if (!prepare(wr, op)) return false;
  op.signalled = (wr.flags & kSendSignaled) != 0;
  return submit(wr, std::move(op));
}

void OperationDrawer::post_some() {
  if (c_.stopped || c_.broken) return;
  uint32_t count = c_.random.below(12);
  while (count-- > 0 && c_.sends.ops_left() > 0 && c_.sends.pending() < kQueueDepth && !c_.verdict.failed()) {
    if (!post_one() && c_.random.below(2) == 0) break;
  }
}

}  // namespace uroce::oracle
