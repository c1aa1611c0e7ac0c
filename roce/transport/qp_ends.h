// The two ends of a queue pair: requester and responder of RC and XRC, and their counterparts for UC, UD and raw
// packets. Apart from qp.h, so that users of queue pairs are not compiled with all of the protocol.
#pragma once

#include "transport/datagram.h"
#include "transport/raw_packet.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "transport/shown_queue_pair.h"

namespace uroce {

struct QpEnds {
  QpEnds(QpContext& context, SendQueue& send_queue, ReceiveQueue& receive_queue)
      : requester(context, send_queue),
        responder(context, receive_queue, send_queue),
        sender(context, send_queue),
        uc_receiver(context, receive_queue),
        ud_receiver(context, receive_queue),
        raw_receiver(context, receive_queue) {}

  Requester requester;
  Responder responder;
  UnackedSender sender;
  UcReceiver uc_receiver;
  UdReceiver ud_receiver;
  RawReceiver raw_receiver;
  QueuePairShow show;
};

}  // namespace uroce
