#include "uroce/types.h"

namespace uroce {

namespace {

/// Text for the causes of the two kinds of queues that have their own.
const char* other_cause_text(Cause cause) {
  if (cause == Cause::kFrameTooShort) return "a raw packet is a whole Ethernet frame, and this is less than its header";
  if (cause == Cause::kNoReadDepth) {
    return "max_rd_atomic of this queue pair is 0 (initiator_depth with rdma_cm): it has room for no READ and no "
           "atomic";
  }
  if (cause == Cause::kTagHeader) {
    return "the tag matching header of the peer's message is cut short or unknown, or its rendezvous is too long";
  }
  if (cause == Cause::kTagOutOfStep) {
    return "unexpected messages came that the program has not counted yet: IBV_WR_TAG_SYNC comes first";
  }
  if (cause == Cause::kTagGone) return "the tagged receive is not there: a message took it, or the handle is wrong";
  return "?";
}

}  // namespace

const char* cause_text(Cause cause) {
  switch (cause) {
    case Cause::kNone:
      return "no error";
    case Cause::kFlushed:
      return "flushed: the QP is in error, or the program moved it there";
    case Cause::kTimeout:
      return "no answer from the peer after retry_cnt retransmissions: is it alive, and its QP ready?";
    case Cause::kPeerUnresolved:
      return "nobody answers ARP or neighbour discovery for the peer's address";
    case Cause::kSequenceRetries:
      return "the peer keeps asking for the same packet (NAK PSN sequence error): is the path losing it?";
    case Cause::kRnrRetries:
      return "the peer had no receive posted (RNR NAK) more than rnr_retry times";
    case Cause::kNakInvalidRequest:
      return "the peer refused the request as invalid (NAK): too long for its receive, not enabled on its QP, or "
             "malformed";
    case Cause::kNakRemoteAccess:
      return "the peer refused the rkey, range or right (NAK remote access error)";
    case Cause::kNakRemoteOperational:
      return "the peer could not carry out the request (NAK remote operational error)";
    case Cause::kBadReadResponse:
      return "the peer's READ or atomic response has the wrong length or kind";
    case Cause::kLocalKey:
      return "an lkey is unknown, of another PD, or lacks the right";
    case Cause::kLocalRange:
      return "a scatter/gather element lies outside its memory region";
    case Cause::kReceiveTooShort:
      return "the message is longer than the receive that it would fill";
    case Cause::kMessageTooLong:
      return "the message is longer than the port or the QP type carries";
    case Cause::kRemoteKey:
      return "the peer's rkey is unknown, of another PD, out of range or lacks the right";
    case Cause::kRemoteInvalidate:
      return "the peer's SEND with Invalidate names a key that cannot be invalidated";
    case Cause::kRequestNotEnabled:
      return "the peer asked for an operation that this QP's access flags do not allow";
    case Cause::kRequestMalformed:
      return "the peer's request breaks the rules for opcode order, length, padding or alignment";
    case Cause::kReadResources:
      return "the peer has more READs and atomics in flight than max_dest_rd_atomic";
    case Cause::kCqOverrun:
      return "the completion queue was full";
    case Cause::kBindRefused:
      return "memory window bind or invalidation with a bad key, region, range or right";
    case Cause::kKeyBudget:
      return "one wrong rkey after the other: somebody is guessing; until that stops, rkeys that are new to this QP "
             "are looked at once a second";
    case Cause::kMemoryGone:
      return "the memory of a region went away: the program unmapped or protected it, or cut the file behind it";
    case Cause::kXrcQueue:
      return "the peer's request names a shared receive queue that is not in this XRC domain; processes share no "
             "domain";
    default:
      return other_cause_text(cause);
  }
}

const char* wc_status_name(WcStatus status) {
  static constexpr const char* kNames[] = {"success",
                                           "local length error",
                                           "local QP operation error",
                                           "local EE context operation error",
                                           "local protection error",
                                           "work request flushed",
                                           "memory management error",
                                           "bad response",
                                           "local access error",
                                           "remote invalid request",
                                           "remote access error",
                                           "remote operation error",
                                           "transport retry counter exceeded",
                                           "RNR retry counter exceeded",
                                           "local RDD violation",
                                           "remote invalid RD request",
                                           "remote aborted",
                                           "invalid EE context number",
                                           "invalid EE context state",
                                           "fatal error",
                                           "response timeout",
                                           "general error",
                                           "tag matching error"};
  return kNames[static_cast<uint8_t>(status) % (sizeof kNames / sizeof kNames[0])];
}

const char* qp_state_name(QpState state) {
  static constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return kNames[static_cast<uint8_t>(state) % 7];
}

const char* qp_type_name(QpType type) {
  switch (type) {
    case QpType::kRc:
      return "RC";
    case QpType::kUc:
      return "UC";
    case QpType::kUd:
      return "UD";
    case QpType::kRawPacket:
      return "RAW_PACKET";
    case QpType::kXrcSend:
      return "XRC_SEND";
    case QpType::kXrcRecv:
      return "XRC_RECV";
  }
  return "?";
}

}  // namespace uroce
