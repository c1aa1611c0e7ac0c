// A QP's send queue: posted work requests, in order, until each ends. Its slots stay taken for longer
// (work_queue_slots.h).
#pragma once

#include <cstdint>
#include <span>

#include "base/ring.h"
#include "base/untouched_array.h"
#include "transport/work_queue_slots.h"
#include "uroce/limits.h"
#include "uroce/psn.h"
#include "uroce/qp_attributes.h"
#include "uroce/work_request.h"

namespace uroce {

inline bool is_atomic(WrOpcode opcode) { return opcode == WrOpcode::kCompareSwap || opcode == WrOpcode::kFetchAdd; }
inline bool is_placement(WrOpcode opcode) { return opcode == WrOpcode::kFlush || opcode == WrOpcode::kAtomicWrite; }
inline bool is_local(WrOpcode opcode) { return opcode == WrOpcode::kLocalInv || opcode == WrOpcode::kBindMw; }
/// True when the data is copied at the time of the post. READs, atomics, placement and local operations have no data to
/// copy.
inline bool is_inline(WrOpcode opcode, uint8_t flags) {
  return (flags & kSendInline) != 0 && opcode != WrOpcode::kRdmaRead && !is_atomic(opcode) && !is_placement(opcode) &&
         !is_local(opcode);
}
/// Whether a QP of that type has this operation.
bool operation_allowed(WrOpcode opcode, QpType type);

/// Beside SendFlags: the device posted the work request, not the program (rendezvous.h).
inline constexpr uint8_t kPostedByDevice = 0x80;

/// Operations that never meet in one request share its words, so that it is no more than one word longer than a cache
/// line. Of UD is what names the destination; of other services, the rest.
struct SendWqe {
  uint64_t wr_id = 0;
  union {
    uint64_t remote_addr = 0;
    const AddressHandle* ah;  // UD
  };
  uint64_t compare_add = 0;  // FLUSH: the length of its range. A bind: that of the window
  uint64_t swap = 0;         // a bind: the window's rights
  union {                    // in the queue's storage
    const Sge* sges = nullptr;
    uint8_t* inline_data;  // with `inlined`
  };
  uint32_t length = 0;
  uint32_t packets = 0;  // PSNs that it takes; 0 for local operations
  Psn first_psn;
  uint32_t ssn = 0;          // send sequence number: messages count from 1
  uint32_t imm_or_rkey = 0;  // FLUSH: its FETH. A bind: the window's new key
  union {
    uint32_t rkey = 0;    // a bind: the window
    uint32_t remote_qpn;  // UD
  };
  union {
    uint32_t remote_srqn = 0;  // XRC. A bind: the region's key
    uint32_t remote_qkey;      // UD
  };
  WrOpcode opcode = WrOpcode::kSend;
  uint8_t flags = 0;         // SendFlags, kPostedByDevice
  uint8_t num_sge = 0;       // 0 with `inlined`
  bool started : 1 = false;  // its PSNs are assigned
  bool done : 1 = false;     // local operations, and everything on UC and UD: only the completion is left
  bool inlined : 1 = false;  // the data was copied when it was posted

  bool is_read() const { return opcode == WrOpcode::kRdmaRead; }
  bool is_atomic() const { return uroce::is_atomic(opcode); }
  /// FLUSH and ATOMIC_WRITE: answered by a READ response without data.
  bool is_placement() const { return uroce::is_placement(opcode); }
  /// True when it needs a response of its own, that is, when a plain ACK does not complete it.
  bool needs_response() const { return is_read() || is_atomic() || is_placement(); }
  bool is_local() const { return uroce::is_local(opcode); }
  bool posted_by_device() const { return (flags & kPostedByDevice) != 0; }
  bool is_write() const { return opcode == WrOpcode::kRdmaWrite || opcode == WrOpcode::kRdmaWriteWithImm; }
  /// True when it consumes a receive at the peer, and so obeys credits.
  bool takes_receive() const {
    return opcode == WrOpcode::kSend || opcode == WrOpcode::kSendWithImm || opcode == WrOpcode::kSendWithInv ||
           opcode == WrOpcode::kRdmaWriteWithImm;
  }
  bool has(SendFlags flag) const { return (flags & flag) != 0; }
  Psn last_psn() const { return first_psn + (packets - 1); }
  std::span<const Sge> sge_span() const { return {sges, num_sge}; }
  /// Of kBindMw only.
  MwBind bind() const {
    return {.mw_rkey = rkey,
            .new_rkey = imm_or_rkey,
            .mr_lkey = remote_srqn,
            .addr = remote_addr,
            .length = compare_add,
            .access = static_cast<uint32_t>(swap)};
  }
};
static_assert(sizeof(SendWqe) == 72);
static_assert(kMaxSges <= UINT8_MAX);

WcOpcode completion_opcode(WrOpcode opcode);

class SendQueue {
 public:
  /// How much memory the queue takes.
  static size_t bytes_for(const QpCapabilities& cap, uint32_t device_work = 0);

  /// `memory`: `bytes_for` bytes of the caller's, which outlive the queue; nullptr: the queue allocates them.
  /// `device_work`: how many more work requests the device itself may have in the queue, with up to kDeviceSges
  /// elements or kDeviceInline bytes.
  explicit SendQueue(const QpCapabilities& cap, void* memory = nullptr, uint32_t device_work = 0);
  static constexpr uint32_t kDeviceSges = 4;
  static constexpr uint32_t kDeviceInline = 16;

  /// Everything that can be wrong with a work request, except the QP's state and the queue's room.
  PostResult check(const SendWr& wr, QpType type, uint32_t mtu) const { return check(wr, type, mtu, max_sge_); }
  /// How many more may be posted. Completions that the program has not polled keep their slots.
  uint32_t room() const { return slots_.free(); }
  /// Copies the inline data of a request that `check` accepted, that there is room for, and that will be queued behind
  /// `ahead` others. False when the program's memory is not there.
  [[nodiscard]] bool take_inline_data(const SendWr& wr, uint32_t ahead);
  /// Queues the request, with the inline data that was taken. Copies the scatter/gather elements.
  void push(const SendWr& wr, QpType type, uint32_t mtu);

  // Work of the device, on RC: as above.
  PostResult check_device(const SendWr& wr, uint32_t mtu) const { return check(wr, QpType::kRc, mtu, kDeviceSges); }
  uint32_t device_room() const { return device_work_max_ - device_work_; }
  void push_device(const SendWr& wr, uint32_t mtu);
  /// One of them has ended.
  void end_device() { device_work_--; }

  Ring<SendWqe>& ring() { return ring_; }
  const Ring<SendWqe>& ring() const { return ring_; }
  WorkQueueSlots& slots() { return slots_; }
  const WorkQueueSlots& slots() const { return slots_; }
  /// Forgets what is queued. No completion of these work requests may be left in a completion queue.
  void clear() {
    ring_.clear();
    slots_.reset();
    device_work_ = 0;
  }

 private:
  PostResult check(const SendWr& wr, QpType type, uint32_t mtu, uint32_t max_sge) const;
  void queue(const SendWr& wr, QpType type, uint8_t flags, uint32_t mtu);
  uint8_t* inline_data_of(uint32_t slot) { return &inline_data_[size_t{slot} * inline_stride_]; }

  UntouchedBlock memory_;  // of the ring and both arrays
  Ring<SendWqe> ring_;
  WorkQueueSlots slots_;
  uint32_t max_sge_;
  uint32_t max_inline_;
  uint32_t device_work_max_;
  uint32_t device_work_ = 0;
  uint32_t sge_stride_;  // of one slot
  uint32_t inline_stride_;
  UntouchedArray<Sge> sges_;
  UntouchedArray<uint8_t> inline_data_;
};

}  // namespace uroce
