#include "replay/freedoms.h"

namespace uroce::replay {

namespace {

constexpr FreedomInfo kFreedoms[] = {
    {Freedom::kTime, false, "time", "both",
     "When a packet leaves is not compared. As requester, a timer of ours runs out when the recorded requester sends "
     "again, and a NAK is handed in when the recorded requester goes back."},
    {Freedom::kLinkLayer, false, "link-layer", "both", "MAC addresses, VLAN tags and padding of the frame."},
    {Freedom::kIpFields, false, "ip-fields", "both",
     "IP identification, DF, TTL or hop limit, TOS or traffic class, flow label, header and UDP checksums."},
    {Freedom::kUdpSourcePort, false, "udp-source-port", "both", "The UDP source port: it only spreads flows."},
    {Freedom::kMigReq, true, "mig-req", "both",
     "BTH MigReq: path migration does not exist in RoCEv2; cards set the bit, software does not."},
    {Freedom::kAckReq, true, "ack-req", "requester",
     "BTH AckReq: which packets ask for an acknowledgement is the requester's choice."},
    {Freedom::kAckCoalescing, true, "ack-coalescing", "responder",
     "More or fewer ACKs, as long as one that comes later acknowledges as much: the last one agrees."},
    {Freedom::kCredits, true, "credits", "responder", "The credit count of an ACK, and giving none at all."},
    {Freedom::kLostRequest, true, "lost-request", "responder",
     "A request packet that nothing answers and that is sent again is taken as lost on the way; it is not handed in."},
    {Freedom::kLostAnswer, true, "lost-answer", "responder",
     "An answer that the capture lacks, to a request that is sent again later: it was lost before the capture."},
    {Freedom::kNakAfterRnr, true, "nak-after-rnr", "responder",
     "A NAK 'PSN sequence error' behind an RNR NAK with the same PSN: Linux' soft RoCE sends one, and a requester that "
     "waits ignores it."},
    {Freedom::kLongSendNak, true, "long-send-nak", "responder",
     "A SEND that is longer than the receive: NAK 'invalid request' (ours) or 'remote operational error'."},
    {Freedom::kReadAgainShape, true, "read-again-shape", "responder",
     "When a READ is asked for again from its middle on: the responses begin with FIRST or ONLY (ours), or go on with "
     "the "
     "MIDDLE and LAST of the first time. Their bytes are compared."},
};

}  // namespace

std::span<const FreedomInfo> freedoms() { return kFreedoms; }

}  // namespace uroce::replay
