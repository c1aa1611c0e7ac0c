// The services without acknowledgement: unreliable connection (UC) and unreliable datagram (UD).
//
// A work request completes when its last packet is handed to the port. A receiver drops what does not fit, counts it,
// and resynchronises with the next message.
#pragma once

#include <cstdint>

#include "base/psn.h"
#include "transport/key_guard.h"
#include "transport/qp_context.h"
#include "transport/receive_slot.h"
#include "transport/send_queue.h"
#include "transport/tx_frame.h"
#include "wire/packet.h"

namespace uroce {

/// The sending side of UC and UD.
class UnackedSender {
 public:
  UnackedSender(QpContext& context, SendQueue& queue) : context_(context), ring_(queue.ring()), slots_(queue.slots()) {}

  void start();
  bool wants_transmit() const;
  bool poll_transmit(TxFrame& frame, Instant now);
  void flush(Instant now);
  bool drained() const { return packet_ == 0; }

 private:
  void complete_head(Cause cause, Instant now);
  bool run_local(SendWqe& wqe);

  QpContext& context_;
  Ring<SendWqe>& ring_;
  WorkQueueSlots& slots_;
  Psn next_psn_;
  uint32_t packet_ = 0;  // of the head
};

class UcReceiver {
 public:
  UcReceiver(QpContext& context, ReceiveQueue& own) : context_(context), receive_(context, own) {}

  void start();
  void reset() { receive_.drop(); }
  void on_request(const PacketView& packet, Instant now);
  void flush(Instant now);

 private:
  bool begin(const PacketView& packet, Instant now);
  bool begin_write(const PacketView& packet, Instant now);
  bool place(const PacketView& packet, Instant now);
  void finish(const PacketView& packet, Instant now);
  bool check_length(const PacketView& packet) const;
  void drop_message(uint64_t& counter);

  QpContext& context_;
  ReceiveSlot receive_;
  KeyGuard keys_;
  Psn epsn_;
  bool in_message_ = false;
  Operation operation_ = Operation::kSend;
  uint64_t write_va_ = 0;
  uint32_t write_rkey_ = 0;
  uint32_t write_remaining_ = 0;
  uint32_t write_length_ = 0;
};

class UdReceiver {
 public:
  UdReceiver(QpContext& context, ReceiveQueue& own) : context_(context), receive_(context, own) {}

  void on_request(const PacketView& packet, Instant now);
  void flush(Instant now) { receive_.flush(now); }
  void reset() { receive_.drop(); }

 private:
  QpContext& context_;
  ReceiveSlot receive_;
};

}  // namespace uroce
