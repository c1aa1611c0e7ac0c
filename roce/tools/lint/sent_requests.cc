#include "lint/sent_requests.h"

#include <algorithm>

#include "packet/crc32.h"

namespace uroce::lint {

uint32_t header_crc_of(const Packet& packet) {
  const uint8_t solicited = packet.view.bth.solicited ? 1 : 0;
  return crc32_update(crc32_update(kCrcInit, &solicited, 1), packet.view.ext, packet.info().header_bytes);
}

bool SentRequests::span_is_known(const Packet& packet) const {
  return packet.info().operation != Operation::kReadRequest || mtu_ != 0 ||
         packet.view.reth().dma_length <= kSmallestMtu;
}

uint32_t SentRequests::span_of(const Packet& packet) const {
  if (packet.info().operation != Operation::kReadRequest) return 1;
  const uint32_t length = std::min(packet.view.reth().dma_length, 0x80000000u);
  return packets_of(length, mtu_ != 0 ? mtu_ : kLargestMtu);
}

uint32_t SentRequests::longest_span_of(const Packet& packet) const {
  if (mtu_ != 0 || packet.info().operation != Operation::kReadRequest) return span_of(packet);
  return packets_of(std::min(packet.view.reth().dma_length, 0x80000000u), kSmallestMtu);
}

std::optional<Psn> SentRequests::learn_mtu(uint32_t bytes) {
  if (mtu_ != 0 || !is_mtu(bytes)) return std::nullopt;
  mtu_ = bytes;
  std::optional<Psn> tip;
  for (Read& read : reads_.all()) {
    if (read.span_known()) continue;
    read.span = packets_of(read.asked.length, mtu_);
    read.span_state = Read::Span::kLate;
    if (Sent* const sent = log_.find(read.psn)) sent->span = read.span;
    if (last_.is_set() && Psn(last_.psn) == read.psn) last_.span = read.span;
    if (&read == &reads_.all().back()) tip = read.end();
  }
  return tip;
}

const Sent* SentRequests::before(Psn psn) const {
  if (last_.is_set() && last_.end() == psn) return &last_;
  if (const Sent* const sent = log_.find(psn - 1); sent != nullptr && sent->end() == psn) return sent;
  const Read* const read = reads_.find(psn - 1);
  const Sent* const sent = read != nullptr ? log_.find(read->psn) : nullptr;
  return sent != nullptr && sent->end() == psn ? sent : nullptr;
}

Sent SentRequests::describe(const Packet& packet, const Sent* before) const {
  const OpcodeInfo& info = packet.info();
  Sent sent;
  sent.psn = packet.psn().value();
  sent.span = span_of(packet);
  sent.opcode = packet.opcode();
  sent.payload_bytes = packet.view.payload_bytes;
  sent.header_crc = header_crc_of(packet);
  sent.has_crc = packet.whole;
  if (packet.whole) sent.payload_crc = crc32_update(kCrcInit, packet.view.payload, packet.view.payload_bytes);
  if (info.has(kHasReth)) sent.dma_length = packet.view.reth().dma_length;
  if (info.is_first()) {
    sent.message_known = true;
    sent.first_psn = sent.psn;
  } else if (before != nullptr && before->message_known && before->is_open()) {
    sent.message_known = true;
    sent.first_psn = before->first_psn;
  }
  const uint32_t ended = info.is_last() ? 1 : 0;
  sent.messages = before != nullptr ? before->messages + ended : ended;
  sent.epoch = before != nullptr ? before->epoch : epoch_;
  return sent;
}

}  // namespace uroce::lint
