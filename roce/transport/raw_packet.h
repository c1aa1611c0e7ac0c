// Raw packets: whole Ethernet frames, as the program writes them and reads them.
//
// A send is one frame, without its FCS. One that is shorter than Ethernet's minimum is padded with zeros, as by a NIC;
// one that is no frame, or longer than the port carries, ends in a local length error and stops the send queue. A
// received frame fills one receive, from its destination address on; one for which there is no receive is dropped and
// counted.
#pragma once

#include <cstdint>

#include "packet/packet.h"
#include "transport/outcome.h"
#include "transport/qp_context.h"
#include "transport/raw_frame.h"
#include "transport/receive_slot.h"
#include "transport/send_queue.h"
#include "uroce/port.h"
#include "uroce/time.h"

namespace uroce {

inline constexpr uint32_t kRawFrameMin = 14;      // the shortest that may be posted: an Ethernet header
inline constexpr uint32_t kEthernetPadding = 60;  // the shortest on the wire, without FCS

/// Fills `frame` with what was posted, at most `context.mtu` bytes. Returns a cause other than kNone when it cannot.
Cause encode_raw_frame(const QpContext& context, const SendWqe& wqe, TxFrame& frame);

class RawReceiver {
 public:
  RawReceiver(QpContext& context, ReceiveQueue& own) : context_(context), receive_(context, own) {}

  static void start() {}
  static Outcome on_request(const PacketView& /*packet*/, Instant /*now*/) {
    return Outcome::kGoesOn;
  }  // it has frames
  Outcome on_frame(const RawFrame& frame, Instant now);
  void flush(Instant now) { receive_.flush(now); }
  void reset() { receive_.drop(); }

 private:
  QpContext& context_;
  ReceiveSlot receive_;
};

}  // namespace uroce
