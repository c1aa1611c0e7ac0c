#include "made_packet.h"

#include "transport/send_queue.h"

namespace uroce::test {

MadePacket::MadePacket(const PacketSpec& spec) : payload_(spec.payload_bytes, spec.content) {
  for (const SackRange& range : spec.ranges) {
    payload_.resize(payload_.size() + SackRange::kBytes);
    range.encode(payload_.data() + payload_.size() - SackRange::kBytes);
  }
  PacketView& view = packet_.view;
  view.info = &opcode_info(spec.opcode);
  view.bth.opcode = spec.opcode;
  view.bth.psn = Psn(spec.psn);
  view.ext = headers_.data();
  if (view.info->has(kHasReth)) spec.reth.encode(headers_.data());
  if (lint::is_atomic(*view.info)) spec.atomic.encode(headers_.data());
  if (view.info->has(kHasAeth)) spec.aeth.encode(headers_.data());
  if (view.info->operation == Operation::kAtomicAcknowledge) {
    AtomicAckEth{spec.original}.encode(headers_.data() + Aeth::kBytes);
  }
  view.payload = payload_.data();
  view.payload_bytes = static_cast<uint32_t>(payload_.size());
  packet_.frame = spec.frame;
  packet_.time = spec.time;
  packet_.has_time = true;
  packet_.has_addresses = packet_.has_bth = true;
  packet_.direction = spec.direction;
}

lint::Sent Court::send(const lint::Packet& packet) {
  const Psn psn = packet.psn();
  if (!seen.numbers.started()) seen.numbers.start(psn, lint::Numbers::Beginning::kAnywhere);
  const lint::Sent* const before = seen.sent.before(psn);
  if (before == nullptr) seen.sent.begin_run();
  const lint::Sent sent = seen.sent.describe(packet, before);
  seen.sent.log(sent, seen.numbers.acked);
  seen.sent.set_last(sent);
  if (distance(seen.numbers.next, sent.end()) > 0) seen.numbers.next = sent.end();
  seen.numbers.position = sent.end();
  seen.statistics.requests++;
  return sent;
}

void Court::send(uint32_t first, uint32_t count, uint8_t opcode) {
  for (uint32_t i = 0; i < count; i++) send(*MadePacket({.opcode = opcode, .psn = first + i, .payload_bytes = 256}));
}

lint::Read& Court::ask(uint32_t psn, uint32_t span, bool atomic) {
  lint::Read read;
  read.psn = Psn(psn);
  read.span = span;
  read.kind = atomic ? lint::Read::Kind::kAtomic : lint::Read::Kind::kRead;
  seen.sent.reads().insert(read);
  if (!seen.numbers.started()) seen.numbers.start(Psn(psn), lint::Numbers::Beginning::kAnywhere);
  if (distance(seen.numbers.next, read.end()) > 0) seen.numbers.next = read.end();
  seen.numbers.position = read.end();
  return *seen.sent.find_read(Psn(psn));
}

std::string Court::found() {
  std::string text;
  for (; told_ < findings.kept().size(); told_++) {
    const lint::Finding& finding = findings.kept()[told_];
    if (!text.empty()) text += ' ';
    if (finding.flow == kResponses) text += '<';
    text += std::string(lint::rule_info(finding.rule).id) + "@" + std::to_string(finding.frame);
  }
  return text;
}

}  // namespace uroce::test
