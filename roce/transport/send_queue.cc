#include "transport/send_queue.h"

#include <algorithm>

#include "transport/address_handle.h"

#include "base/guarded_memory.h"
#include "packet/headers.h"

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
    case WrOpcode::kFlush:
      return WcOpcode::kFlush;
    case WrOpcode::kAtomicWrite:
      return WcOpcode::kAtomicWrite;
    default:
      return WcOpcode::kSend;
  }
}

namespace {

/// How many elements and bytes each slot has.
uint32_t sge_stride(const QpCapabilities& cap, uint32_t device_work) {
  return std::max(cap.max_send_sge, device_work != 0 ? SendQueue::kDeviceSges : 0);
}
uint32_t inline_stride(const QpCapabilities& cap, uint32_t device_work) {
  return std::max(cap.max_inline_data, device_work != 0 ? SendQueue::kDeviceInline : 0);
}

}  // namespace

size_t SendQueue::bytes_for(const QpCapabilities& cap, uint32_t device_work) {
  const size_t slots = Ring<SendWqe>::slots_for(cap.max_send_wr + device_work);
  return UntouchedBlock::bytes_for<SendWqe>(slots) +
         UntouchedBlock::bytes_for<Sge>(slots * sge_stride(cap, device_work)) +
         UntouchedBlock::bytes_for<uint8_t>(slots * inline_stride(cap, device_work));
}

SendQueue::SendQueue(const QpCapabilities& cap, void* memory, uint32_t device_work)
    : memory_(bytes_for(cap, device_work), memory),
      ring_(cap.max_send_wr + device_work, memory_),
      slots_(cap.max_send_wr),
      max_sge_(cap.max_send_sge),
      max_inline_(cap.max_inline_data),
      device_work_max_(device_work),
      sge_stride_(sge_stride(cap, device_work)),
      inline_stride_(inline_stride(cap, device_work)),
      sges_(memory_, size_t{ring_.slots()} * sge_stride_),
      inline_data_(memory_, size_t{ring_.slots()} * inline_stride_) {}

bool operation_allowed(WrOpcode opcode, QpType type) {
  if (type == QpType::kXrcRecv) return false;  // it has no send queue
  if (type == QpType::kRawPacket) return opcode == WrOpcode::kSend;
  switch (opcode) {
    case WrOpcode::kSend:
    case WrOpcode::kSendWithImm:
      return true;
    case WrOpcode::kRdmaWrite:
    case WrOpcode::kRdmaWriteWithImm:
    case WrOpcode::kLocalInv:
    case WrOpcode::kBindMw:
      return type != QpType::kUd;
    case WrOpcode::kFlush:
    case WrOpcode::kAtomicWrite:
      return type == QpType::kRc;
    default:
      return is_reliable(type);
  }
}

namespace {

constexpr uint32_t kPsnsInFlightMax = 1u << 23;

uint32_t packets_for(uint64_t bytes, uint32_t mtu) {
  return bytes == 0 ? 1 : static_cast<uint32_t>((bytes + mtu - 1) / mtu);
}

/// As SendWqe::bind has it.
void set_bind(SendWqe& wqe, const MwBind& bind) {
  wqe.rkey = bind.mw_rkey;
  wqe.imm_or_rkey = bind.new_rkey;
  wqe.remote_srqn = bind.mr_lkey;
  wqe.remote_addr = bind.addr;
  wqe.compare_add = bind.length;
  wqe.swap = bind.access;
}

}  // namespace

PostResult SendQueue::check(const SendWr& wr, QpType type, uint32_t mtu, uint32_t max_sge) const {
  if (!operation_allowed(wr.opcode, type)) return PostResult::kBadOpcode;
  if (wr.num_sge > max_sge) return PostResult::kTooManySges;
  uint64_t total = 0;
  for (uint32_t i = 0; i < wr.num_sge; i++) total += wr.sges[i].length;
  if (is_atomic(wr.opcode) && total != 8) return PostResult::kTooLong;
  if (is_placement(wr.opcode) && wr.num_sge != 0) return PostResult::kTooManySges;
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

void SendQueue::push(const SendWr& wr, QpType type, uint32_t mtu) {
  queue(wr, type, wr.flags & static_cast<uint8_t>(~kPostedByDevice), mtu);
  slots_.take();
}

void SendQueue::push_device(const SendWr& wr, uint32_t mtu) {
  queue(wr, QpType::kRc, wr.flags | kPostedByDevice, mtu);
  device_work_++;
}

void SendQueue::queue(const SendWr& wr, QpType type, uint8_t flags, uint32_t mtu) {
  const uint32_t slot = ring_.slot(ring_.tail());
  SendWqe& wqe = ring_.next_slot();
  // Field by field, and no more than the operation needs: a slot is longer than most messages.
  wqe.opcode = wr.opcode;
  wqe.wr_id = wr.wr_id;
  wqe.flags = flags;
  wqe.started = wqe.done = false;
  uint32_t length = 0;
  for (uint32_t i = 0; i < wr.num_sge; i++) length += wr.sges[i].length;
  wqe.length = length;
  if (type == QpType::kUd) {
    wqe.ah = wr.ah;
    wqe.remote_qpn = wr.remote_qpn & 0xffffff;  // as a packet has it: programs leave what they like in the byte above
    wqe.remote_qkey = wr.remote_qkey;
  } else {
    wqe.remote_addr = wr.remote_addr;
    wqe.rkey = wr.rkey;
    wqe.remote_srqn = wr.remote_srqn;
  }
  wqe.imm_or_rkey = wr.imm_or_rkey;
  wqe.compare_add = wr.compare_add;
  wqe.swap = wr.swap;
  if (wr.opcode == WrOpcode::kBindMw) set_bind(wqe, wr.bind);
  if (wr.opcode == WrOpcode::kFlush) {
    wqe.imm_or_rkey = Feth{wr.flush.placement, static_cast<uint8_t>(wr.flush.level)}.word();
    wqe.compare_add = wr.flush.length;
  }
  wqe.inlined = is_inline(wr.opcode, wr.flags);
  if (wqe.inlined) {
    wqe.inline_data = inline_data_of(slot);
    wqe.num_sge = 0;
  } else {
    Sge* sges = &sges_[size_t{slot} * sge_stride_];
    for (uint32_t i = 0; i < wr.num_sge; i++) sges[i] = wr.sges[i];
    wqe.sges = sges;
    wqe.num_sge = static_cast<uint8_t>(wr.num_sge);
  }
  wqe.packets = wqe.is_local() ? 0 : length <= mtu ? 1 : packets_for(length, mtu);
  ring_.push();
}

}  // namespace uroce
