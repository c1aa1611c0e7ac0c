#include "replay/tolerances.h"

namespace uroce::replay {

namespace {

constexpr ToleranceInfo kTolerances[] = {
    {Tolerance::kTime, false, "time", "both",
     "When a packet leaves is not compared, but for the wait that an RNR NAK asks for. As requester, a timer of ours "
     "runs "
     "out when the recorded requester sends again, and a NAK is handed in when the recorded requester goes back."},
    {Tolerance::kLinkLayer, false, "link-layer", "both",
     "Padding of the frame, and the priority in its VLAN tag. MAC addresses and VLAN are free, but stay those of the "
     "side's first packet; of datagrams they are free."},
    {Tolerance::kIpFields, false, "ip-fields", "both",
     "IP identification, DF, ECN, and whether there is a UDP checksum: one that is there is right. DSCP, TTL or hop "
     "limit "
     "and flow label are those of the side's first packet and stay so; of datagrams they are free."},
    {Tolerance::kUdpSourcePort, false, "udp-source-port", "both",
     "The UDP source port, as long as it stays the same: it only spreads flows. Of datagrams it is free."},
    {Tolerance::kMigReq, true, "mig-req", "both",
     "BTH MigReq, as long as it stays the same: path migration does not exist in RoCEv2; cards set the bit, software "
     "does not."},
    {Tolerance::kAckReq, true, "ack-req", "requester",
     "BTH AckReq of RC: which packets ask for an acknowledgement is the requester's choice."},
    {Tolerance::kAckCoalescing, true, "ack-coalescing", "responder",
     "More or fewer ACKs, as long as one that comes later acknowledges as much, and none came before that acknowledges "
     "more: the last one agrees."},
    {Tolerance::kCredits, true, "credits", "responder",
     "The credit count of an ACK, and giving none at all; but not both in turn."},
    {Tolerance::kLostRequest, true, "lost-request", "responder",
     "A request packet that nothing answers, that is sent again, and that no later answer proves to have arrived, is "
     "taken as lost on the way; it is not handed in. What follows it until it is sent again is handed in."},
    {Tolerance::kLostAnswer, true, "lost-answer", "responder",
     "An answer that the capture lacks, to a request that is sent again later: it was lost before the capture."},
    {Tolerance::kNakAfterRnr, true, "nak-after-rnr", "responder",
     "One NAK 'PSN sequence error' behind an RNR NAK with the same PSN, when a request came too early: Linux' soft "
     "RoCE "
     "sends it, and a requester that waits ignores it."},
    {Tolerance::kLongSendNak, true, "long-send-nak", "responder",
     "A SEND that is longer than the receive: NAK 'invalid request' (ours) or 'remote operational error'."},
    {Tolerance::kReadAgainShape, true, "read-again-shape", "responder",
     "When a READ is asked for again from its middle on: the responses begin with FIRST or ONLY (ours), or go on with "
     "the "
     "same MIDDLE and LAST as the first time. Their bytes are compared."},
    {Tolerance::kClosed, true, "closed", "responder",
     "The last answers, to requests that came behind a DREQ or less than 1 ms in front of it: the recorded responder "
     "was "
     "gone."},
    {Tolerance::kCmDrawn, false, "cm-drawn", "both",
     "Of connection management: communication IDs, transaction IDs and starting PSNs, which each side draws by itself. "
     "They are mapped: an answer has to name those that it answers."},
    {Tolerance::kCmRepetition, true, "cm-repetition", "both",
     "A message of connection management that comes again: each side has its own times for that. It is the same as "
     "before; and what answers one that came again."},
};

}  // namespace

std::span<const ToleranceInfo> tolerances() { return kTolerances; }

}  // namespace uroce::replay
