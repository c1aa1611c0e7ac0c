#include "lint/content_judge.h"

#include "packet/crc32.h"

namespace uroce::lint {
namespace {

bool is_same_request(const Packet& packet, const Sent& sent) {
  return packet.opcode() == sent.opcode && packet.view.payload_bytes == sent.payload_bytes &&
         header_crc_of(packet) == sent.header_crc;
}

bool is_same_content(const Packet& packet, const Sent& sent) {
  if (!packet.whole || !sent.has_crc) return true;
  return crc32_update(kCrcInit, packet.view.payload, packet.view.payload_bytes) == sent.payload_crc;
}

}  // namespace

void ContentJudge::check_opcode(const Packet& packet, const Sent& before) {
  const OpcodeInfo& info = packet.info();
  const bool open = before.is_open();
  const bool follows = open ? !info.is_first() && info.operation == before.info().operation : info.is_first();
  if (follows) return;
  report_.blame_requester(
      Rule::kOpcodeSequence, packet.frame,
      sentence("%s with PSN %u after %s; expected %s", opcode_name(packet.opcode()), val(packet.psn()),
               opcode_name(before.opcode),
               open ? "the Middle or Last of that message" : "a First or Only: no message is open"));
}

void ContentJudge::check_lengths(const Packet& packet, const Sent& sent) {
  const OpcodeInfo& info = packet.info();
  if (!info.has(kHasPayload)) return;
  if (!info.is_last()) return check_full(packet);
  const char* name = opcode_name(sent.opcode);
  const uint32_t bytes = sent.payload_bytes;
  const uint32_t mtu = seen_.sent.mtu() != 0 ? seen_.sent.mtu() : kLargestMtu;
  if (bytes > mtu) {
    report_.blame_requester(Rule::kMtuLength, packet.frame,
                            sentence("%s of %u bytes; expected at most %u", name, bytes, mtu));
  } else if (!info.is_first() && bytes == 0) {
    report_.blame_requester(Rule::kMtuLength, packet.frame,
                            sentence("%s without payload; expected at least a byte", name));
  }
  if (info.operation == Operation::kWrite && sent.message_known) check_message_length(packet, sent);
}

/// Checks the length of a packet that others of its message follow.
void ContentJudge::check_full(const Packet& packet) {
  const uint32_t bytes = packet.view.payload_bytes;
  const uint32_t mtu = seen_.sent.mtu();
  if (is_mtu(bytes) && (mtu == 0 || bytes == mtu)) return;
  report_.blame_requester(Rule::kMtuLength, packet.frame,
                          sentence("%s of %u bytes; expected exactly one path MTU%s", opcode_name(packet.opcode()),
                                   bytes, mtu != 0 ? sentence(", %u", mtu).c_str() : ""));
}

/// Checks the length of a WRITE at its last packet: the RETH said how long all packets are together.
void ContentJudge::check_message_length(const Packet& packet, const Sent& last) {
  uint64_t total = last.payload_bytes;
  uint32_t asked = last.dma_length;
  if (!packet.info().is_first()) {
    const Sent* const first = seen_.sent.find(Psn(last.first_psn));
    if (first == nullptr || first->info().operation != Operation::kWrite) return;
    total += uint64_t{first->payload_bytes} * static_cast<uint32_t>(distance(Psn(last.first_psn), packet.psn()));
    asked = first->dma_length;
  }
  if (total == asked) return;
  report_.blame_requester(
      Rule::kWriteLength, packet.frame,
      sentence("WRITE ends after %llu bytes; expected %u, its RETH length", long_val(total), asked));
}

void ContentJudge::blame_difference(const Packet& packet, const Sent& sent) {
  const char* const name = opcode_name(packet.opcode());
  const uint32_t bytes = packet.view.payload_bytes;
  std::string text = sentence("%s of %u bytes with PSN %u, which was %s of %u bytes before; expected the same", name,
                              bytes, val(packet.psn()), opcode_name(sent.opcode), sent.payload_bytes);
  if (packet.opcode() == sent.opcode && bytes == sent.payload_bytes)
    text =
        sentence("%s with PSN %u has not the headers that it had before; expected the same", name, val(packet.psn()));
  report_.blame_requester(Rule::kRetransmitDiffers, packet.frame, std::move(text));
}

Verdict ContentJudge::check_repeated(const Packet& packet, const Sent& sent, bool settled) {
  const bool same_request = is_same_request(packet, sent);
  if (same_request && is_same_content(packet, sent)) return Verdict::kTaken;
  if (settled) return Verdict::kRestarted;
  if (same_request) {
    report_.blame_requester(
        Rule::kRetransmitContent, packet.frame,
        sentence("%s of %u bytes with PSN %u has not the bytes that it had before; expected the same",
                 opcode_name(packet.opcode()), packet.view.payload_bytes, val(packet.psn())));
  } else {
    blame_difference(packet, sent);
  }
  return Verdict::kTaken;
}

}  // namespace uroce::lint
