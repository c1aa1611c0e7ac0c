// Planted faults: each is put into a real capture, alone, and must be found under its own rule id; the capture as it
// was must not have it.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "base/big_endian.h"
#include "edited_capture.h"
#include "roce_frame.h"

namespace uroce {
namespace {

using test::EditedCapture;
using test::EditedFrame;

struct Fault {
  const char* rule;
  const char* capture;
  const char* what;
  void (*plant)(EditedCapture&);
};

/// A CNP from the responder of rc-send and rc-send-multi to the requester's QP.
std::vector<uint8_t> cnp(EditedFrame& response, uint8_t becn, uint32_t psn) {
  Route path;
  path.src_ip = IpAddress::v4(load_be32(response.ip() + 12));
  path.dst_ip = IpAddress::v4(load_be32(response.ip() + 16));
  Bth bth;
  bth.opcode = kOpcodeCnp;
  bth.resv8a = becn;
  bth.dest_qp = load_be24(response.bth() + 5);
  bth.psn = Psn(psn);
  test::Bytes body;
  test::append(body, bth);
  body.resize(body.size() + 16);
  return test::frame_of(path, body);
}

/// The MAD of a datagram to QP 1.
uint8_t* mad(EditedFrame& frame) { return frame.ext() + 8; }
uint8_t* cm_message(EditedFrame& frame) { return mad(frame) + 24; }

void become_rej(EditedFrame& frame, uint8_t answered, uint16_t reason) {
  store_be16(mad(frame) + 16, 0x12);
  std::memset(cm_message(frame) + 8, 0, 224);
  cm_message(frame)[8] = static_cast<uint8_t>(answered << 6);
  store_be16(cm_message(frame) + 10, reason);
}

/// All packets with the destination of packet `like` get another QP.
void another_qp(EditedCapture& capture, size_t like) {
  const uint32_t qpn = load_be24(capture.at(like).bth() + 5);
  const uint32_t from = load_be32(capture.at(like).ip() + 12);
  for (size_t i = 1; i <= capture.size(); i++) {
    if (load_be24(capture.at(i).bth() + 5) != qpn || load_be32(capture.at(i).ip() + 12) != from) continue;
    capture.edit(i, [](EditedFrame& f) { f.set_dest_qp(0x1234); });
  }
}

/// The first request of cm-rping, which the client sends, is refused and sent again once; the REP agrees to `agreed`
/// retries.
void one_rnr_retry(EditedCapture& capture, uint8_t agreed) {
  capture.edit(2, [agreed](EditedFrame& f) { cm_message(f)[27] = static_cast<uint8_t>(agreed << 5); });
  const uint32_t psn = capture.at(4).psn();
  size_t ack = 5;
  while (capture.at(ack).psn() != psn || capture.at(ack).bth()[0] != 0x11) ack++;
  capture.repeat(4, 4);
  capture.repeat(ack + 1, 4);
  capture.edit(5, [](EditedFrame& f) { f.set_syndrome(0x21), f.set_msn(0); });
}

void mark_ecn(EditedFrame& frame) {
  frame.ip()[1] |= 3;
  frame.fix_ip_checksum();
}

#define PLANT [](EditedCapture & c)
#define EDIT(number, ...) c.edit(number, [](EditedFrame& f) { __VA_ARGS__; })

// clang-format off
const Fault kFaults[] = {
    // One frame.
    {"icrc", "rc-send", "bad iCRC", PLANT { c.spoil(2, [](EditedFrame& f) { f.bytes.back() ^= 1; }); }},
    {"icrc", "rc-ipv6", "bad iCRC over IPv6", PLANT { c.spoil(2, [](EditedFrame& f) { f.bth()[20] ^= 0x10; }); }},
    {"ip-header", "rc-send", "IPv4 checksum", PLANT { c.spoil(2, [](EditedFrame& f) { f.ip()[10] ^= 1; }); }},
    {"ip-length", "rc-send", "IP length beyond the frame", PLANT { c.spoil(2, [](EditedFrame& f) {
      store_be16(f.ip() + 2, static_cast<uint16_t>(f.bytes.size())); f.fix_ip_checksum(); }); }},
    {"ip-fragment", "rc-send", "more fragments", PLANT { c.spoil(2, [](EditedFrame& f) { f.ip()[6] |= 0x20; f.fix_ip_checksum(); }); }},
    {"udp-length", "rc-send", "UDP length four short", PLANT { c.spoil(2, [](EditedFrame& f) { f.udp()[5] -= 4; }); }},
    {"udp-checksum", "rc-send", "UDP checksum", PLANT { c.spoil(2, [](EditedFrame& f) { f.udp()[6] = 0x12; }); }},
    {"udp-port", "rc-send", "port 4792", PLANT { EDIT(2, f.udp()[3]++); }},
    {"udp-source-port", "rc-send", "source port changes", PLANT { EDIT(2, f.udp()[1] ^= 1); }},
    {"header-short", "rc-read", "half a RETH", PLANT { EDIT(2, f.resize_payload(0, 8)); }},
    {"header-short", "rc-read", "half a BTH", PLANT { c.spoil(2, [](EditedFrame& f) { f.bytes.resize(f.ext_at() - 4); f.fix_ip(); }); }},
    {"opcode-reserved", "rc-send", "opcode 0x1f", PLANT { EDIT(2, f.set_opcode(0x1f)); }},
    {"bth-version", "rc-send", "transport version 1", PLANT { EDIT(2, f.bth()[1] |= 1); }},
    {"bth-reserved", "rc-send", "reserved bits", PLANT { EDIT(2, f.bth()[8] |= 1); }},
    {"eth-reserved", "ud-send", "reserved byte of the DETH", PLANT { EDIT(1, f.ext()[4] = 1); }},
    {"pkey-zero", "rc-send", "P_Key 0x8000", PLANT { EDIT(2, f.set_pkey(0x8000)); }},
    {"pkey-changed", "rc-send-multi", "P_Key in one packet", PLANT { EDIT(7, f.set_pkey(0x9234)); }},
    {"pad-count", "rc-send-multi", "padding on a Middle", PLANT { EDIT(7, f.bth()[1] |= 0x10); }},
    {"pad-count", "rc-send", "payload of 63 bytes, no padding", PLANT { EDIT(2, f.resize_payload(0, 63)); }},
    {"pad-count", "rc-send-zero", "padding where nothing is", PLANT { EDIT(1, f.bth()[1] |= 0x30); }},
    {"pad-bytes", "rc-send-pad", "padding not zero", PLANT { EDIT(1, *(f.bytes.end() - 5) = 7); }},
    {"payload-unexpected", "rc-send", "ACK with payload", PLANT { EDIT(5, f.resize_payload(4, 4)); }},
    {"reth-length", "rc-write", "RETH length 0xffffffff", PLANT { EDIT(3, store_be32(f.ext() + 12, 0xffffffff)); }},
    {"reth-range", "rc-read", "address near 2^64", PLANT { EDIT(2, store_be64(f.ext(), ~uint64_t{7})); }},
    {"atomic-alignment", "rc-atomic-fadd", "address + 4", PLANT { EDIT(2, f.ext()[7] += 4); }},
    {"aeth-syndrome", "rc-send", "reserved kind", PLANT { EDIT(5, f.set_syndrome(0x5f)); }},
    {"aeth-syndrome", "rc-send", "NAK code 7", PLANT { EDIT(5, f.set_syndrome(0x67)); }},
    {"aeth-syndrome", "rc-read", "READ response with a NAK", PLANT { EDIT(5, f.set_syndrome(0x62)); }},
    {"dest-qp", "rc-send", "QP 0", PLANT { EDIT(2, f.set_dest_qp(0)); }},
    // Datagrams, management, congestion.
    {"ud-source", "ud-send", "source QP 0", PLANT { EDIT(2, store_be24(f.ext() + 5, 0)); }},
    {"ud-length", "ud-send", "4100 bytes", PLANT { EDIT(4, f.resize_payload(8, 4100)); }},
    {"gsi-qkey", "cm-rping", "another Q_Key", PLANT { EDIT(1, store_be32(f.ext(), 0x11111111)); }},
    {"mad-length", "cm-rping", "252 bytes", PLANT { EDIT(3, f.resize_payload(8, 252)); }},
    {"mad-header", "cm-rping", "base version 2", PLANT { EDIT(3, f.ext()[8] = 2); }},
    {"mad-header", "cm-rping", "CM class version 1", PLANT { EDIT(3, f.ext()[10] = 1); }},
    {"cm-attribute", "cm-rping", "attribute 0x30", PLANT { EDIT(3, store_be16(f.ext() + 24, 0x30)); }},
    {"cm-field", "cm-rping", "REQ with QPN 1", PLANT { EDIT(1, store_be24(f.ext() + 8 + 24 + 32, 1)); }},
    {"cm-field", "cm-rping", "REQ with path MTU code 9", PLANT { EDIT(1, f.ext()[8 + 24 + 50] = 0x97); }},
    {"cm-id", "cm-rping", "REP for another id", PLANT { EDIT(2, f.ext()[8 + 24 + 4] ^= 1); }},
    {"cm-id", "cm-rping", "RTU with another id", PLANT { EDIT(3, f.ext()[8 + 24 + 4] ^= 1); }},
    {"gsi-qp", "cm-rping", "REQ from another QP", PLANT { EDIT(1, store_be24(f.ext() + 5, 17)); }},
    {"gsi-qp", "cm-rping", "REP to another QP", PLANT { EDIT(2, f.set_dest_qp(17)); }},
    {"mad-header", "cm-rping", "method Get", PLANT { EDIT(3, mad(f)[3] = 1); }},
    {"mad-header", "cm-rping", "a status", PLANT { EDIT(3, mad(f)[5] = 4); }},
    {"mad-header", "cm-rping", "reserved bytes", PLANT { EDIT(3, mad(f)[18] = 1); }},
    {"cm-field", "cm-rping", "REP with QPN 0", PLANT { EDIT(2, store_be24(cm_message(f) + 12, 0)); }},
    {"cm-field", "cm-rping", "address header of IP version 5", PLANT { EDIT(1, cm_message(f)[141] = 0x50); }},
    {"cm-field", "cm-udaddy", "address header of version 1", PLANT { EDIT(1, cm_message(f)[16] = 0x10); }},
    {"cm-field", "cm-rping", "REJ with reason 0", PLANT { EDIT(2, become_rej(f, 0, 0)); }},
    {"cm-field", "cm-rping", "REJ with reason 36", PLANT { EDIT(2, become_rej(f, 0, 36)); }},
    {"cm-field", "cm-rping", "REJ for message 3", PLANT { EDIT(2, become_rej(f, 3, 28)); }},
    {"cm-reserved", "cm-rping", "bits of a REQ", PLANT { EDIT(1, cm_message(f)[26] = 1); }},
    {"cm-reserved", "cm-rping", "bits beside the flow label", PLANT { EDIT(1, cm_message(f)[90] |= 1); }},
    {"cm-reserved", "cm-rping", "bits of a REP", PLANT { EDIT(2, cm_message(f)[27] |= 1); }},
    {"cm-reserved", "cm-rping", "bits of a DREQ", PLANT { EDIT(40, cm_message(f)[11] = 1); }},
    {"cm-address", "cm-rping", "another source GID", PLANT { EDIT(1, cm_message(f)[56 + 15] ^= 1); }},
    {"cm-address", "cm-rping-ipv6", "another destination GID", PLANT { EDIT(1, cm_message(f)[72 + 15] ^= 1); }},
    {"cm-transaction", "cm-rping", "REP", PLANT { EDIT(2, mad(f)[15] ^= 1); }},
    {"cm-transaction", "cm-rping", "RTU", PLANT { EDIT(3, mad(f)[15] ^= 1); }},
    {"cm-transaction", "cm-rping", "DREP", PLANT { EDIT(41, mad(f)[15] ^= 1); }},
    {"cm-transaction", "cm-udaddy", "SIDR_REP", PLANT { EDIT(2, mad(f)[15] ^= 1); }},
    {"cm-repeat-differs", "cm-rping", "REQ with another timeout", PLANT { c.repeat(1, 1); EDIT(2, cm_message(f)[95] ^= 8); }},
    {"cm-repeat-differs", "cm-rping", "REP with another PSN", PLANT { c.repeat(2, 2); EDIT(3, cm_message(f)[22] ^= 1); }},
    {"cm-repeat-differs", "cm-rping", "RTU with other private data", PLANT { c.repeat(3, 3); EDIT(4, cm_message(f)[9] ^= 1); }},
    {"cm-repeat-differs", "cm-rping", "DREQ with other private data", PLANT { c.repeat(40, 40); EDIT(41, cm_message(f)[20] ^= 1); }},
    {"cm-repeat-differs", "cm-udaddy", "SIDR_REQ for another service", PLANT { c.repeat(1, 1); EDIT(2, cm_message(f)[15] ^= 1); }},
    {"cm-unasked", "cm-rping", "RTU without REP", PLANT { c.remove(2); }},
    {"cm-unasked", "cm-rping", "DREP without DREQ", PLANT { c.remove(40); }},
    {"cm-unasked", "cm-rping", "DREQ without REP", PLANT { c.remove(3); c.remove(2); }},
    {"cm-unasked", "cm-rping", "APR without LAP", PLANT { c.repeat(41, 4); EDIT(5, store_be16(mad(f) + 16, 0x1a)); }},
    {"cm-unasked", "cm-rping", "MRA for a REP that is none", PLANT {
      c.repeat(3, 1); EDIT(2, store_be16(mad(f) + 16, 0x11); cm_message(f)[8] = 0x40); c.remove(3); }},
    {"cm-unasked", "cm-udaddy", "SIDR_REP out of nowhere", PLANT {
      EDIT(2, cm_message(f)[0] ^= 1); c.at(2).time = c.at(1).time + milliseconds(1300 * 1000); }},
    {"cm-unasked", "cm-rping", "REP out of nowhere", PLANT { c.repeat(2, 41);
      EDIT(42, cm_message(f)[0] ^= 1; cm_message(f)[4] ^= 1; mad(f)[15] ^= 1); c.at(42).time = c.at(1).time + milliseconds(1300 * 1000); }},
    {"cm-order", "cm-rping", "REP after a REJ", PLANT { c.repeat(2, 1); EDIT(2, become_rej(f, 0, 28)); }},
    {"cm-order", "cm-rping", "RTU after a REJ", PLANT { c.repeat(3, 2); EDIT(3, become_rej(f, 1, 28)); }},
    {"cm-order", "cm-rping", "RTU from the side that accepts", PLANT { c.repeat(2, 2); EDIT(3, store_be16(mad(f) + 16, 0x14)); }},
    {"cm-order", "cm-rping", "REP from the side that connects", PLANT { EDIT(3, store_be16(mad(f) + 16, 0x13); cm_message(f)[14] = 9); }},
    {"cm-order", "cm-rping", "MRA for a REQ of its own", PLANT { EDIT(3, store_be16(mad(f) + 16, 0x11); cm_message(f)[8] = 0); }},
    {"cm-order", "cm-rping", "DREQ before the REP", PLANT { c.repeat(2, 1); EDIT(2, store_be16(mad(f) + 16, 0x15)); }},
    {"cm-dreq-qp", "cm-rping", "another QPN", PLANT { EDIT(40, cm_message(f)[10] ^= 1); }},
    {"cm-early-data", "cm-rping", "the server sends before the RTU", PLANT { c.repeat(6, 2); }},
    {"cm-early-data", "cm-rping", "the client sends before the REP", PLANT { c.repeat(4, 1); }},
    {"cm-data-qp", "cm-rping", "the client's packets to another QP", PLANT { another_qp(c, 4); }},
    {"cm-path-mtu", "cm-rping", "REQ with path MTU 256", PLANT { EDIT(1, cm_message(f)[50] = 0x17); EDIT(4, f.resize_payload(0, 260)); }},
    {"cm-rnr-retry", "cm-rping", "one more than none", PLANT { one_rnr_retry(c, 0); }},
    {"cm-start-psn", "cm-rping", "requester starts three late", PLANT { EDIT(2, store_be24(f.ext() + 8 + 24 + 20, 14903882)); }},
    {"cm-start-psn", "cm-rping", "requester starts three early", PLANT { EDIT(2, store_be24(f.ext() + 8 + 24 + 20, 14903888)); }},
    {"cm-start-psn", "cm-rping", "requester starts anywhere", PLANT { EDIT(2, store_be24(f.ext() + 8 + 24 + 20, 77)); }},
    {"read-outstanding", "cm-rping", "no READ was agreed", PLANT { EDIT(1, f.ext()[8 + 24 + 35] = 0); }},
    {"cnp-form", "rc-send", "BECN clear", PLANT { c.insert_after(5, cnp(c.at(5), 0, 0)); }},
    {"cnp-form", "rc-send", "a PSN", PLANT { c.insert_after(5, cnp(c.at(5), 0x40, 9)); }},
    {"cnp-without-ecn", "rc-send", "no mark in sight", PLANT { c.insert_after(5, cnp(c.at(5), 0x40, 0)); }},
    {"cnp-pacing", "rc-send", "two CNPs for one mark", PLANT {
      mark_ecn(c.at(2)); c.insert_after(5, cnp(c.at(5), 0x40, 0)); c.insert_after(6, cnp(c.at(5), 0x40, 0)); }},
    // The requester.
    {"service-mixed", "rc-send-multi", "UC in the middle of RC", PLANT { EDIT(7, f.set_opcode(0x21)); }},
    {"opcode-sequence", "rc-send-multi", "Middle instead of First", PLANT { EDIT(6, f.set_opcode(0x01)); }},
    {"opcode-sequence", "rc-send-multi", "First instead of Middle", PLANT { EDIT(3, f.set_opcode(0x00)); }},
    {"opcode-sequence", "rc-write-multi", "SEND Middle in a WRITE", PLANT { EDIT(3, f.set_opcode(0x01)); }},
    {"opcode-sequence", "uc-send", "UC Middle instead of First", PLANT { EDIT(7, f.set_opcode(0x21)); }},
    {"mtu-length", "rc-send-multi", "short Middle", PLANT { EDIT(3, f.resize_payload(0, 1020)); }},
    {"mtu-length", "rc-send-multi", "empty Last", PLANT { EDIT(5, f.resize_payload(0, 0)); }},
    {"mtu-length", "rc-write-multi", "Last above the MTU", PLANT { EDIT(6, f.resize_payload(0, 1028)); }},
    {"write-length", "rc-write-multi", "RETH says four bytes less", PLANT { EDIT(1, store_be32(f.ext() + 12, 5996)); }},
    {"write-length", "rc-write", "Only with four bytes more", PLANT { EDIT(3, f.resize_payload(16, 68)); }},
    {"write-length", "uc-write", "UC too", PLANT { EDIT(3, store_be32(f.ext() + 12, 5996)); }},
    {"psn-gap", "rc-send-multi", "packet never sent", PLANT { c.remove(3); }},
    {"psn-gap", "rc-send-multi", "wrong PSN, seven ahead", PLANT { EDIT(3, f.set_psn(f.psn() + 7)); }},
    {"psn-gap", "rc-send-multi", "wrong PSN, far away", PLANT { EDIT(3, f.set_psn(f.psn() + 1000000)); }},
    {"psn-gap", "rc-psn-wrap", "packet never sent at the wrap", PLANT { c.remove(2); }},
    {"psn-read-range", "rc-mix", "atomic inside a READ", PLANT { EDIT(11, f.set_psn(f.psn() - 1)); }},
    {"request-order", "rc-send-multi", "Middles in the wrong order, no NAK", PLANT { std::swap(c.at(3).bytes, c.at(4).bytes); }},
    {"request-order", "rc-send-multi", "Last before Middle, no NAK", PLANT { std::swap(c.at(4).bytes, c.at(5).bytes); }},
    {"request-order", "rc-send", "messages in the wrong order, no NAK", PLANT { std::swap(c.at(2).bytes, c.at(3).bytes); }},
    {"request-order", "rc-read", "READs in the wrong order, no NAK", PLANT { std::swap(c.at(2).bytes, c.at(3).bytes); }},
    {"solicited", "rc-send-multi", "First", PLANT { EDIT(1, f.bth()[1] |= 0x80); }},
    {"solicited", "rc-send-multi", "Middle", PLANT { EDIT(7, f.bth()[1] |= 0x80); }},
    {"solicited", "rc-write", "plain WRITE", PLANT { EDIT(3, f.bth()[1] |= 0x80); }},
    {"solicited", "uc-send", "Middle of UC", PLANT { EDIT(5, f.bth()[1] |= 0x80); }},
    {"solicited", "rc-send", "ACK", PLANT { EDIT(5, f.bth()[1] |= 0x80); }},
    {"uc-loss", "uc-send", "no Last", PLANT { c.remove(6); }},
    {"uc-loss", "uc-write", "no Middle", PLANT { c.remove(5); }},
    {"opcode-sequence", "uc-send", "a message without Last", PLANT {
      c.remove(6); EDIT(6, f.set_psn(f.psn() - 1)); EDIT(7, f.set_psn(f.psn() - 1)); EDIT(8, f.set_psn(f.psn() - 1)); }},
    {"uc-psn-back", "uc-send", "UC sends again", PLANT { c.repeat(5, 6); }},
    {"retransmit-start", "rc-loss-send-middle", "starts one late", PLANT { c.remove(8); }},
    {"retransmit-start", "rc-loss-send-middle", "starts one early", PLANT { c.repeat(2, 7); }},
    {"retransmit-start", "rc-loss-write-middle", "starts one message late", PLANT { c.remove(14); }},
    {"retransmit-content", "rc-loss-send-middle", "another payload", PLANT { EDIT(9, f.ext()[5] ^= 1); }},
    {"retransmit-differs", "rc-loss-send-middle", "another opcode", PLANT { EDIT(9, f.set_opcode(0x07)); }},
    {"read-retry-range", "rc-loss-read-last", "another address", PLANT { EDIT(10, f.ext()[7] += 8); }},
    {"read-retry-range", "rc-loss-read-last", "more than what is left", PLANT { EDIT(10, store_be32(f.ext() + 12, 884)); }},
    {"rnr-early", "rc-rnr-exhaust", "20 us instead of 60", PLANT { c.at(3).time = c.at(2).time + microseconds(20); }},
    {"rnr-early", "rc-rnr", "0.5 ms instead of 0.64", PLANT { c.at(5).time = c.at(3).time + microseconds(500); }},
    // The responder.
    {"ack-unsent", "rc-mix", "ACK for the future", PLANT { EDIT(9, f.set_psn(f.psn() + 20)); }},
    {"ack-unsent", "rc-send", "ACK for what was far before", PLANT { EDIT(6, f.set_psn(f.psn() - 1000000)); }},
    {"response-qp", "rc-send", "the last ACK to another QP", PLANT { EDIT(6, f.set_dest_qp(0x1234)); }},
    {"response-qp", "rc-send", "the first ACK to another QP", PLANT { EDIT(4, f.set_dest_qp(0x1234)); }},
    {"response-qp", "rc-send-multi", "an ACK to another QP", PLANT { EDIT(12, f.set_dest_qp(0x1234)); }},
    {"response-qp", "rc-read-multi", "a READ response to another QP", PLANT { EDIT(12, f.set_dest_qp(0x1234)); }},
    {"ack-back", "rc-mix", "ACK goes back", PLANT { EDIT(24, f.set_psn(f.psn() - 10)); }},
    {"ack-back", "rc-send", "ACKs in the wrong order", PLANT { std::swap(c.at(4).bytes, c.at(5).bytes); }},
    {"ack-for-read", "rc-read", "ACK instead of data", PLANT { EDIT(5, f.set_opcode(0x11); f.resize_payload(4, 0)); }},
    {"msn", "rc-send", "MSN seven", PLANT { EDIT(5, f.set_msn(7)); }},
    {"msn", "rc-send", "MSN stays", PLANT { EDIT(6, f.set_msn(2)); }},
    {"msn", "rc-mix", "MSN of a READ response", PLANT { EDIT(10, f.set_msn(1000)); }},
    {"nak-psn", "rc-send", "NAK instead of the last ACK", PLANT { EDIT(6, f.set_syndrome(0x60)); }},
    {"nak-psn", "rc-loss-send-middle", "names the one after", PLANT { EDIT(7, f.set_psn(f.psn() + 1)); c.remove(3); }},
    {"nak-repeated", "rc-loss-send-middle", "NAK twice", PLANT { c.repeat(7, 7); }},
    {"nak-repeated", "rc-rnr-exhaust", "RNR NAK twice", PLANT { c.repeat(2, 2); }},
    {"nak-acked", "rc-send", "NAK after the ACK", PLANT { EDIT(6, f.set_syndrome(0x60); f.set_psn(f.psn() - 2)); }},
    {"nak-acked", "rc-send", "fatal NAK after the ACK", PLANT { EDIT(6, f.set_syndrome(0x61); f.set_psn(f.psn() - 2)); }},
    {"nak-unanswered", "rc-send-multi", "wrong syndrome: NAK instead of ACK", PLANT { EDIT(11, f.set_syndrome(0x60)); }},
    {"nak-unanswered", "rc-send", "wrong syndrome: RNR NAK instead of ACK", PLANT { EDIT(4, f.set_syndrome(0x2c); f.set_msn(0)); }},
    {"nak-after-rnr", "rc-send", "sequence NAK in the RNR wait", PLANT {
      EDIT(4, f.set_syndrome(0x2c); f.set_msn(0)); EDIT(5, f.set_syndrome(0x60); f.set_msn(0); f.set_psn(f.psn() - 1)); }},
    {"after-fatal-nak", "rc-send", "ACK after a fatal NAK", PLANT { EDIT(4, f.set_syndrome(0x62); f.set_msn(0)); }},
    {"read-response-unasked", "rc-read", "a response twice", PLANT { c.repeat(5, 5); }},
    {"read-response-unasked", "rc-read-multi", "a Middle twice", PLANT { c.repeat(6, 6); }},
    {"read-response-unasked", "rc-read-multi", "a Last twice", PLANT { c.repeat(9, 9); }},
    {"read-response-unasked", "rc-read-multi", "a Middle of the second READ twice", PLANT { c.repeat(12, 14); }},
    {"read-response-order", "rc-read-multi", "Last before Middle", PLANT { std::swap(c.at(14).bytes, c.at(15).bytes); }},
    {"read-response-order", "rc-read-multi", "Last before Middle, in the first READ", PLANT { std::swap(c.at(8).bytes, c.at(9).bytes); }},
    {"read-response-order", "rc-read-multi", "Middles in the wrong order", PLANT { std::swap(c.at(12).bytes, c.at(13).bytes); }},
    {"read-response-order", "rc-read", "the second READ answered last", PLANT { std::swap(c.at(5).bytes, c.at(6).bytes); }},
    {"read-response-unasked", "rc-mix", "READ response for a WRITE", PLANT { EDIT(12, f.set_psn(f.psn() - 3)); }},
    {"read-response-opcode", "rc-read-multi", "First instead of Last", PLANT { EDIT(9, f.set_opcode(0x0d); f.resize_payload(4, 1024)); }},
    {"read-response-length", "rc-read-multi", "Last of four bytes less", PLANT { EDIT(9, f.resize_payload(4, 876)); }},
    {"read-response-length", "rc-read-multi", "short Middle", PLANT { EDIT(6, f.resize_payload(0, 512)); }},
    {"read-response-missing", "rc-read-multi", "one response is missing", PLANT { c.remove(6); }},
    {"read-response-missing", "rc-mix", "all responses are missing", PLANT { c.remove(13); c.remove(12); c.remove(10); }},
    {"atomic-response-unasked", "rc-atomic-fadd", "a response twice", PLANT { c.repeat(5, 5); }},
    {"atomic-response-unasked", "rc-mix", "atomic response for a WRITE", PLANT { EDIT(14, f.set_psn(f.psn() - 4)); }},
    {"atomic-replay", "host-peer-rc", "replay with another value", PLANT { EDIT(19, f.ext()[11]++); }},
    {"atomic-replay", "rc-atomic-fadd", "doubled with another value", PLANT { c.repeat(5, 5); EDIT(6, f.ext()[11]++); }},
    {"atomic-missing", "rc-mix", "no response", PLANT { c.remove(14); }},
};
// clang-format on

class PlantedFault : public testing::TestWithParam<size_t> {};

TEST_P(PlantedFault, IsFoundUnderItsRule) {
  const Fault& fault = kFaults[GetParam()];
  const auto rule = lint::rule_of(fault.rule);
  ASSERT_TRUE(rule) << fault.rule;
  EditedCapture capture(fault.capture);
  const lint::Linter before = test::lint_file(capture.file());
  ASSERT_EQ(before.findings().count(*rule), 0u) << test::findings_text(before);
  fault.plant(capture);
  const lint::Linter after = test::lint_file(capture.file());
  EXPECT_GE(after.findings().count(*rule), 1u) << fault.rule << ": " << fault.what << "\n"
                                               << test::findings_text(after);
}

INSTANTIATE_TEST_SUITE_P(Each, PlantedFault, testing::Range<size_t>(0, std::size(kFaults)), [](const auto& test) {
  std::string name = std::to_string(test.param) + "_" + kFaults[test.param].rule;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

/// As many retries as were agreed on are no fault.
TEST(PlantedFaults, RetriesWithinWhatWasAgreedAreNone) {
  EditedCapture capture("cm-rping");
  one_rnr_retry(capture, 1);
  EXPECT_EQ(test::lint_file(capture.file()).findings().count(lint::Rule::kCmRnrRetry), 0u);
}

TEST(PlantedFaults, CoverEveryRule) {
  std::set<std::string> covered;
  for (const Fault& fault : kFaults) covered.insert(fault.rule);
  covered.insert(std::begin(test::kSelectiveRules), std::end(test::kSelectiveRules));
  for (unsigned i = 0; i < lint::kRuleCount; i++) {
    const char* id = lint::rule_info(static_cast<lint::Rule>(i)).id;
    EXPECT_TRUE(covered.contains(id)) << id;
  }
}

}  // namespace
}  // namespace uroce
