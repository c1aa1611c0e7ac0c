#include "replay/freedoms.h"

namespace uroce::replay {

namespace {

constexpr FreedomInfo kFreedoms[] = {
    {Freedom::kTime, "time", "both", false,
     "When a packet leaves is not compared. As requester, a timer of ours runs out when the recorded requester sends "
     "again, and a NAK is handed in when the recorded requester goes back."},
    {Freedom::kLinkLayer, "link-layer", "both", false, "MAC addresses, VLAN tags and padding of the frame."},
    {Freedom::kIpFields, "ip-fields", "both", false,
     "IP identification, DF, TTL or hop limit, TOS or traffic class, flow label, header and UDP checksums."},
    {Freedom::kUdpSourcePort, "udp-source-port", "both", false, "The UDP source port: it only spreads flows."},
    {Freedom::kMigReq, "mig-req", "both", true,
     "BTH MigReq: path migration does not exist in RoCEv2; cards set the bit, software does not."},
    {Freedom::kAckReq, "ack-req", "requester", true,
     "BTH AckReq: which packets ask for an acknowledgement is the requester's choice."},
    {Freedom::kAckCoalescing, "ack-coalescing", "responder", true,
     "More or fewer ACKs, as long as one that comes later acknowledges as much: the last one agrees."},
    {Freedom::kCredits, "credits", "responder", true, "The credit count of an ACK, and giving none at all."},
    {Freedom::kLostRequest, "lost-request", "responder", true,
     "A request packet that nothing answers and that is sent again is taken as lost on the way; it is not handed in."},
    {Freedom::kLostAnswer, "lost-answer", "responder", true,
     "An answer that the capture lacks, to a request that is sent again later: it was lost before the capture."},
    {Freedom::kNakAfterRnr, "nak-after-rnr", "responder", true,
     "A NAK 'PSN sequence error' behind an RNR NAK with the same PSN: Linux' soft RoCE sends one, and a requester that "
     "waits ignores it."},
    {Freedom::kLongSendNak, "long-send-nak", "responder", true,
     "A SEND that is longer than the receive: NAK 'invalid request' (ours) or 'remote operational error'."},
    {Freedom::kReadAgainShape, "read-again-shape", "responder", true,
     "When a READ is asked for again from its middle on: the responses begin with FIRST or ONLY (ours), or go on with "
     "the "
     "MIDDLE and LAST of the first time. Their bytes are compared."},
};

}  // namespace

std::span<const FreedomInfo> freedoms() { return kFreedoms; }

}  // namespace uroce::replay
