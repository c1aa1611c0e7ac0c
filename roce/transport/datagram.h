// The services without acknowledgement: unreliable connection (UC) and unreliable datagram (UD).
//
// A work request completes when its last packet is handed to the port. A receiver drops what does not fit, counts it,
// and resynchronises with the next message.
#pragma once

#include <cstdint>

#include "packet/packet.h"
#include "transport/inbound_message.h"
#include "transport/key_guard.h"
#include "transport/outcome.h"
#include "transport/qp_context.h"
#include "transport/receive_slot.h"
#include "transport/send_queue.h"
#include "uroce/port.h"
#include "uroce/psn.h"

namespace uroce {

/// The sending side of UC and UD.
class UnackedSender {
 public:
  UnackedSender(QpContext& context, SendQueue& queue) : context_(context), queue_(queue) {}

  void start();
  bool wants_transmit() const;
  PollResult poll_transmit(TxFrame& frame, Instant now);
  void flush(Instant now);
  bool drained() const { return packet_ == 0; }

 private:
  Outcome complete_head(Cause cause, Instant now);

  QpContext& context_;
  SendQueue& queue_;
  Psn next_psn_;
  uint32_t packet_ = 0;  // the next packet of the work request at the head
};

class UcReceiver {
 public:
  UcReceiver(QpContext& context, ReceiveQueue& own) : context_(context), receive_(context, own) {}

  void start();
  void reset() { receive_.drop(); }
  Outcome on_request(const PacketView& packet, Instant now);
  void flush(Instant now);

 private:
  bool check_sequence(const PacketView& packet);
  bool check_length(const PacketView& packet);
  bool begin(const PacketView& packet, Instant now);
  bool begin_write(const PacketView& packet, Instant now);
  Outcome store_send(const PacketView& packet, Instant now);
  bool store_write(const PacketView& packet);
  Outcome finish(const PacketView& packet, Instant now);
  bool drop_message(uint64_t& counter);

  QpContext& context_;
  ReceiveSlot receive_;
  KeyGuard keys_;
  InboundMessage message_;
  Psn epsn_;
};

class UdReceiver {
 public:
  UdReceiver(QpContext& context, ReceiveQueue& own) : context_(context), receive_(context, own) {}

  static void start() {}
  Outcome on_request(const PacketView& packet, Instant now);
  void flush(Instant now) { receive_.flush(now); }
  void reset() { receive_.drop(); }

 private:
  QpContext& context_;
  ReceiveSlot receive_;
};

}  // namespace uroce
