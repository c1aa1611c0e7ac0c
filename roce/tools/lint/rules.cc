#include "lint/rules.h"

#include <array>

namespace uroce::lint {
namespace {

constexpr Severity kNote = Severity::kNote;
constexpr Severity kWarning = Severity::kWarning;
constexpr Severity kError = Severity::kError;

// In the order of `Rule`; rule_info checks the length.
// clang-format off
constexpr RuleInfo kRules[] = {
    {"ip-header", kError, "IP header is damaged", "an IPv4 header has no options here and its checksum holds"},
    {"ip-length", kError, "IP length does not fit the frame", "the IP length lies within the frame and covers its headers"},
    {"ip-fragment", kError, "fragmented datagram", "RoCEv2 packets are never fragmented"},
    {"udp-length", kError, "UDP and IP lengths disagree", "the UDP datagram fills the IP datagram"},
    {"udp-checksum", kWarning, "UDP checksum is wrong", "the checksum is zero or that of the datagram"},
    {"udp-port", kError, "RoCEv2 packet to another UDP port", "the destination port of RoCEv2 is 4791"},
    {"udp-source-port", kNote, "UDP source port changes", "the port feeds the path hash, so a QP keeps one port to stay in order"},
    {"header-short", kError, "packet is shorter than its headers", "BTH, the opcode's extension headers and the iCRC must fit"},
    {"opcode-reserved", kError, "reserved opcode", "a receiver drops an opcode that is not defined"},
    {"bth-version", kError, "BTH transport version is not 0", "version 0 is the only one"},
    {"bth-reserved", kWarning, "reserved BTH bits are set", "reserved bits are sent as zero; of resv8a RoCEv2 uses FECN and BECN only"},
    {"eth-reserved", kWarning, "reserved bits of an extension header are set", "reserved bits of DETH, XRCETH and FETH are sent as zero"},
    {"pkey-zero", kError, "P_Key with base 0", "a partition key of base 0 is invalid and never matches"},
    {"pad-count", kError, "pad count does not fit the payload", "payload and padding make whole words, and only the packet that ends a message is padded"},
    {"pad-bytes", kNote, "padding is not zero", "padding carries nothing"},
    {"payload-unexpected", kError, "payload after an opcode that carries none", "the opcode table gives this opcode no payload"},
    {"icrc", kError, "iCRC is wrong", "the iCRC covers everything that routers do not change"},
    {"reth-length", kError, "RETH length above 2^31", "a message is at most 2^31 bytes"},
    {"reth-range", kError, "RETH range wraps", "address plus length stays within 64 bits"},
    {"atomic-alignment", kError, "atomic at an unaligned address", "atomics work on eight aligned bytes"},
    {"aeth-syndrome", kError, "reserved AETH syndrome", "only the defined codes are sent, and a response with data carries an ACK"},
    {"dest-qp", kError, "destination QP cannot be", "connected services and CNPs go to a QP of their own, never to QP 0, QP 1 or the multicast number"},
    {"ud-source", kError, "UD source QP cannot be", "the source QP names the sender so that it can be answered"},
    {"ud-length", kError, "UD payload above 4096 bytes", "a datagram fits one packet of the largest path MTU"},
    {"gsi-qkey", kError, "QP 1 with another Q_Key", "the general services QP has the well-known Q_Key 0x80010000"},
    {"gsi-qp", kError, "MAD from or to another QP than QP 1", "management datagrams of RoCE go from QP 1 to QP 1"},
    {"mad-length", kError, "MAD is not 256 bytes", "management datagrams have exactly 256 bytes"},
    {"mad-header", kError, "MAD header is malformed", "base version 1 and a class version that goes with the class"},
    {"cm-attribute", kError, "unknown CM attribute", "connection management defines attributes 0x10 to 0x1c"},
    {"cm-field", kError, "CM message with an impossible value", "QPN, PSN, MTU and service type have defined values"},
    {"cm-reserved", kWarning, "CM message with reserved bits set", "reserved bits are sent as zero"},
    {"cm-address", kError, "REQ for another address", "the GIDs of a REQ are the IP addresses of its packet"},
    {"cm-id", kError, "CM message names the wrong communication id", "an answer carries the id that the other side chose"},
    {"cm-transaction", kError, "answer of another transaction", "an answer has the transaction ID of what it answers"},
    {"cm-repeat-differs", kError, "repeated CM message with other content", "a message that is sent again is the same"},
    {"cm-unasked", kError, "answer to what was not sent", "REP answers a REQ, RTU a REP, DREP a DREQ, SIDR_REP a SIDR_REQ, APR a LAP; what is connected had a REP"},
    {"cm-order", kError, "CM message that its sender cannot send now", "REQ and RTU come from the side that connects, REP from the other, and nobody goes on with what he refused"},
    {"cm-dreq-qp", kError, "DREQ names another QP", "a DREQ names the receiver's QP of this connection"},
    {"cm-start-psn", kError, "connection begins at another PSN", "the starting PSN is the one that the CM messages gave"},
    {"cm-early-data", kError, "data before the connection stands", "the side that connects sends after the REP, the other after the RTU or the first data"},
    {"cm-data-qp", kError, "data to another QP than was agreed", "requests go to the QP that REQ and REP named"},
    {"cm-path-mtu", kError, "packet above the agreed path MTU", "the REQ names the path MTU of both directions"},
    {"cm-rnr-retry", kWarning, "more retries after RNR NAKs than agreed", "REQ and REP say how often their receiver may try again, 7 meaning for ever"},
    {"cnp-form", kError, "CNP is malformed", "a CNP has BECN set, the solicited and acknowledge bits clear, PSN 0, sixteen zero bytes and no ECN mark"},
    {"cnp-pacing", kWarning, "CNP without a new ECN mark", "each CNP needs at least one packet marked since the one before"},
    {"cnp-without-ecn", kNote, "CNP, but no ECN mark in sight", "a CNP answers a marked packet; the mark may have been set behind the capture"},
    {"service-mixed", kError, "QP receives opcodes of another service", "a QP has one transport service"},
    {"pkey-changed", kError, "P_Key changes within a connection", "a QP has one partition key"},
    {"opcode-sequence", kError, "opcode does not follow the one before", "a message is First, Middles, Last of one operation, or an Only"},
    {"mtu-length", kError, "payload does not fit the path MTU", "First and Middle carry exactly one path MTU, Last and Only at most one, and a Last is not empty"},
    {"write-length", kError, "WRITE carries another length than its RETH", "the RETH's length is that of the whole message"},
    {"psn-gap", kError, "PSNs are missing", "every packet has the PSN after the one before; what was acknowledged must have been sent"},
    {"request-order", kError, "requests out of order, without a NAK", "a responder drops what overtakes a missing packet, so it comes again before it is acknowledged"},
    {"psn-read-range", kError, "PSN within a READ's response range", "a READ takes as many PSNs as it has response packets"},
    {"uc-psn-back", kError, "UC goes back", "UC never retransmits"},
    {"uc-loss", kWarning, "UC packets are missing", "UC never sends again: a message that lacks a packet is lost, in front of the capture or because it was never sent"},
    {"solicited", kError, "solicited event bit where no event is", "only the packet that ends a SEND, or a WRITE with immediate data, can ask for an event"},
    {"retransmit-start", kError, "retransmission starts at the wrong PSN", "go-back-N starts exactly at the PSN that the NAK named"},
    {"retransmit-differs", kError, "retransmission differs from the original", "a PSN stands for the same packet every time"},
    {"retransmit-content", kError, "retransmission with another payload", "until its completion a request owns its buffers: the program wrote to one too early, or the sender sends from the wrong place"},
    {"read-retry-range", kError, "repeated READ asks for something else", "a repeated READ keeps the map from PSN to address"},
    {"read-outstanding", kError, "more READs and atomics than agreed", "the CM messages gave the responder's resources"},
    {"rnr-early", kError, "retransmission before the RNR timer", "after an RNR NAK the requester waits at least the time it names"},
    {"ack-unsent", kError, "response to what was not sent", "a PSN is answered after it was sent"},
    {"response-qp", kError, "response goes to another QP", "a response goes to the QP that asked"},
    {"ack-back", kError, "ACK goes back", "an ACK is cumulative; even a duplicate is answered with the latest PSN, with or without READs and atomics at the end"},
    {"ack-for-read", kError, "plain ACK for a READ or atomic", "READ and atomic are answered by responses of their own"},
    {"msn", kError, "MSN is wrong", "the MSN counts the messages that the responder completed"},
    {"nak-psn", kError, "NAK names the wrong PSN", "a sequence NAK names the first missing PSN, after a later one arrived"},
    {"nak-repeated", kError, "second NAK outstanding", "after a NAK the responder is silent until the named PSN arrives"},
    {"nak-acked", kError, "NAK for what was acknowledged", "an acknowledged packet was executed and cannot be refused; bad duplicates are dropped"},
    {"nak-unanswered", kError, "NAKed packet acknowledged without being sent again", "what was refused must come again before it can be acknowledged"},
    {"nak-after-rnr", kWarning, "sequence NAK while an RNR wait runs", "after an RNR NAK the responder drops silently until the retry"},
    {"after-fatal-nak", kError, "response after a fatal NAK", "a fatal NAK takes the responder's QP to the error state"},
    {"read-response-unasked", kError, "READ response without a READ", "READ responses cover exactly what was asked"},
    {"read-response-opcode", kError, "READ response with the wrong opcode", "responses are First, Middles, Last, or Only, by their place in the range"},
    {"read-response-length", kError, "READ response of the wrong length", "each response but the last carries one path MTU, together they carry the RETH's length"},
    {"read-response-missing", kError, "READ responses are missing", "every PSN of a READ is answered, or the requester asks again"},
    {"read-response-order", kError, "READ responses out of order", "responses come in the order of their PSNs, as long as nothing is asked again"},
    {"atomic-response-unasked", kError, "atomic response without an atomic", "each atomic has one response, at its PSN"},
    {"atomic-replay", kError, "atomic answered with another value", "a repeated atomic is answered from the saved result, never executed again"},
    {"atomic-missing", kError, "atomic without a response", "an atomic is answered, or the requester asks again"},
    {"sack-form", kError, "SACK of the wrong length", "a selective ACK carries 1 to 16 ranges of 8 bytes"},
    {"sack-range", kError, "SACK with an impossible range", "each range lies behind the gap that begins after the SACK's PSN, and none touches another"},
    {"sack-order", kError, "SACK with ranges in the wrong order", "the range that changed last stands first"},
    {"sack-unsent", kError, "SACK for what was not sent", "what is held was sent before"},
    {"sack-unseen", kError, "SACK for what never came by", "what is held has arrived"},
    {"sack-unsigned", kError, "SACK without a signature", "who knows selective repeat signs every packet"},
    {"sack-stranger", kError, "SACK to a stranger", "a selective ACK is sent only to a peer that signed three packets in a row, and goes on signing"},
    {"retransmit-held", kError, "retransmission of what is held", "only what is missing is sent again, or everything from the oldest PSN on"},
};
// clang-format on
static_assert(sizeof kRules / sizeof kRules[0] == kRuleCount);

}  // namespace

const RuleInfo& rule_info(Rule rule) { return kRules[static_cast<unsigned>(rule)]; }

std::optional<Rule> rule_of(std::string_view id) {
  for (unsigned i = 0; i < kRuleCount; i++) {
    if (id == kRules[i].id) return static_cast<Rule>(i);
  }
  return std::nullopt;
}

const char* severity_name(Severity severity) {
  switch (severity) {
    case Severity::kNote:
      return "note";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "?";
}

}  // namespace uroce::lint
