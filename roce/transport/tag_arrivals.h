// Which receive a message to a shared receive queue with tags gets: the tagged one that it matches, or an ordinary one.
// A message that is to be fetched (rendezvous.h) gets its receive, too, and only its headers come here.
//
// Decided once, by the first packet, whose headers are all that is looked at.
#pragma once

#include "packet/packet.h"
#include "packet/tag_header.h"
#include "transport/qp_context.h"
#include "transport/receive_slot.h"
#include "transport/refusal.h"
#include "transport/send_queue.h"

namespace uroce {

class TagArrivals {
 public:
  /// All belong to the QP and outlive this object.
  TagArrivals(QpContext& context, ReceiveSlot& slot, SendQueue& sends)
      : context_(context), slot_(slot), sends_(sends) {}

  bool in_use() const { return context_.srq != nullptr && context_.srq->tags() != nullptr; }

  struct Begun {
    bool not_ready = false;        // there is no receive, or no room for the work: the peer is to try again later
    const Refusal* why = nullptr;  // the message is refused
    uint32_t skip = 0;             // bytes of the packet that go to no receive
  };
  /// The first packet of a SEND. Takes the receive that the message fills, unless it cannot now or is refused; a
  /// message that is refused because of its tagged receive has taken that one.
  Begun begin(const PacketView& packet);
  /// The message is complete, and its completion was made. Fetches the data if the message asked for that.
  void end();

 private:
  Begun begin_ordinary(ReceiveMark mark);
  Begun begin_rendezvous(const PacketView& packet);

  QpContext& context_;
  ReceiveSlot& slot_;
  SendQueue& sends_;
  TaggedHeaders headers_;  // of the message under way
};

}  // namespace uroce
