#include "transport/send_queue.h"
#include "transport/address_handle.h"

#include "base/guarded_memory.h"

namespace uroce {

WcOpcode completion_opcode(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::kRdmaWrite:
    case WrOpcode::kRdmaWriteWithImm:
      return WcOpcode::kRdmaWrite;
    case WrOpcode::kRdmaRead:
      return WcOpcode::kRdmaRead;
    case WrOpcode::kCompareSwap:
      return WcOpcode::kCompSwap;
    case WrOpcode::kFetchAdd:
      return WcOpcode::kFetchAdd;
    case WrOpcode::kLocalInv:
      return WcOpcode::kLocalInv;
    case WrOpcode::kBindMw:
      return WcOpcode::kBindMw;
    default:
      return WcOpcode::kSend;
  }
}

size_t SendQueue::bytes_for(const QpCapabilities& cap) {
  const size_t slots = Ring<SendWqe>::slots_for(cap.max_send_wr);
  return UntouchedBlock::bytes_for<SendWqe>(slots) + UntouchedBlock::bytes_for<Sge>(slots * cap.max_send_sge) +
         UntouchedBlock::bytes_for<uint8_t>(slots * cap.max_inline_data);
}

SendQueue::SendQueue(const QpCapabilities& cap, void* memory)
    : memory_(bytes_for(cap), memory),
      ring_(cap.max_send_wr, memory_),
      slots_(cap.max_send_wr),
      max_sge_(cap.max_send_sge),
      max_inline_(cap.max_inline_data),
      sges_(memory_, size_t{ring_.slots()} * max_sge_),
      inline_data_(memory_, size_t{ring_.slots()} * max_inline_) {}

bool operation_allowed(WrOpcode opcode, QpType type) {
  switch (opcode) {
    case WrOpcode::kSend:
    case WrOpcode::kSendWithImm:
      return true;
    case WrOpcode::kRdmaWrite:
    case WrOpcode::kRdmaWriteWithImm:
    case WrOpcode::kLocalInv:
    case WrOpcode::kBindMw:
      return type != QpType::kUd;
    default:
      return type == QpType::kRc;
  }
}

namespace {

constexpr uint32_t kPsnsInFlightMax = 1u << 23;

uint32_t packets_for(uint64_t bytes, uint32_t mtu) {
  return bytes == 0 ? 1 : static_cast<uint32_t>((bytes + mtu - 1) / mtu);
}

}  // namespace

PostResult SendQueue::check(const SendWr& wr, QpType type, uint32_t mtu) const {
  if (!operation_allowed(wr.opcode, type)) return PostResult::kBadOpcode;
  if (wr.num_sge > max_sge_) return PostResult::kTooManySges;
  uint64_t total = 0;
  for (uint32_t i = 0; i < wr.num_sge; i++) total += wr.sges[i].length;
  if (is_atomic(wr.opcode) && total != 8) return PostResult::kTooLong;
  if (total > kMaxMessageBytes || (type == QpType::kUd && total > mtu)) return PostResult::kTooLong;
  if (type == QpType::kUd && wr.ah == nullptr) return PostResult::kBadAddressHandle;
  if (is_inline(wr.opcode, wr.flags) && total > max_inline_) return PostResult::kInlineTooLong;
  // All responses of a READ are in flight at once, and half of the PSN circle counts as the past.
  if (wr.opcode == WrOpcode::kRdmaRead && packets_for(total, mtu) >= kPsnsInFlightMax) return PostResult::kTooLong;
  return PostResult::kOk;
}

bool SendQueue::take_inline_data(const SendWr& wr, uint32_t ahead) {
  if (!is_inline(wr.opcode, wr.flags)) return true;
  uint8_t* at = inline_data_of(ring_.slot(ring_.tail() + ahead));
  for (uint32_t i = 0; i < wr.num_sge; i++) {
    const Sge& sge = wr.sges[i];
    if (sge.length == 0) continue;
    if (!try_copy(at, reinterpret_cast<const void*>(sge.addr), sge.length)) return false;
    at += sge.length;
  }
  return true;
}

void SendQueue::push(const SendWr& wr, uint32_t mtu) {
  const uint32_t slot = ring_.slot(ring_.tail());
  SendWqe& wqe = ring_.next_slot();
  wqe = SendWqe{};
  wqe.opcode = wr.opcode;
  wqe.wr_id = wr.wr_id;
  wqe.flags = wr.flags;
  for (uint32_t i = 0; i < wr.num_sge; i++) wqe.length += wr.sges[i].length;
  wqe.imm_or_rkey = wr.imm_or_rkey;
  wqe.remote_addr = wr.remote_addr;
  wqe.rkey = wr.rkey;
  wqe.remote_qpn = wr.remote_qpn;
  wqe.remote_qkey = wr.remote_qkey;
  wqe.compare_add = wr.compare_add;
  wqe.swap = wr.swap;
  wqe.ah = wr.ah;
  wqe.bind = wr.bind;
  if (is_inline(wr.opcode, wr.flags)) {
    wqe.inline_data = inline_data_of(slot);
  } else {
    Sge* sges = &sges_[size_t{slot} * max_sge_];
    for (uint32_t i = 0; i < wr.num_sge; i++) sges[i] = wr.sges[i];
    wqe.sges = sges;
    wqe.num_sge = wr.num_sge;
  }
  if (!wqe.is_local()) wqe.packets = packets_for(wqe.length, mtu);
  ring_.push();
  slots_.take();
}

}  // namespace uroce
