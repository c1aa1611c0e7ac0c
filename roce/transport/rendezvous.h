// A message that the receiver's device fetches: a READ into the receive whose tag matched, and a notice to the sender
// that its memory is free again.
//
// Both are work requests of the device in the queue pair's own send queue, behind what the program posted before. They
// have slots of their own there, so that they take none of the program's, and no completions: the READ ends the tagged
// receive, and the notice is not reported unless it fails. The notice waits for the READ (fence), and so do requests
// behind it: messages are fetched one after the other.
#pragma once

#include <cstdint>

#include "transport/outcome.h"
#include "uroce/time.h"
#include "uroce/work_request.h"

namespace uroce {

class SendQueue;
struct QpContext;
struct QpInit;
struct RendezvousHeader;
struct TaggedHeaders;
struct TaggedReceive;

/// How many messages may wait in one queue pair to be fetched. The sender of another one gets an RNR NAK.
inline constexpr uint32_t kRendezvousMax = 16;

/// How many slots for the device's work the send queue of such a queue pair has.
uint32_t device_work_of(const QpInit& init);

/// Whether one more can be fetched now. Not before RTS, when this side may not send yet.
bool rendezvous_fits(const QpContext& context, const SendQueue& queue);
/// Why the message cannot be fetched into this receive; kNone when it can.
Cause check_rendezvous(const QpContext& context, const SendQueue& queue, const TaggedReceive& receive,
                       const RendezvousHeader& header);
/// Queues READ and notice. Both checks were passed.
void start_rendezvous(const QpContext& context, SendQueue& queue, const TaggedReceive& receive,
                      const TaggedHeaders& headers);
/// Work of the device at the head of the queue has ended for this cause.
Outcome report_device_work(QpContext& context, SendQueue& queue, Cause cause, Instant now);
/// The queue is about to be cleared: receives that READs were to fill are forgotten.
void forget_rendezvous(const QpContext& context, SendQueue& queue);

}  // namespace uroce
