// The message that a peer is sending: which packet may come next, and which bytes of a WRITE are still to
// come.
//
// Checks each packet against the message, in the specification's terms. Keys, rights and memory are checked elsewhere.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "packet/packet.h"
#include "uroce/types.h"

namespace uroce {

class InboundMessage {
 public:
  /// Whether such a packet may come now: First or Only when no message is under way, Middle or Last of the same
  /// operation when one is.
  bool takes(const OpcodeInfo& info) const;
  /// Whether the packet has the length that its place demands: First and Middle are full, Only and Last no longer than
  /// that, and Last is not empty. `mtu` is the payload of a full packet in bytes.
  static bool length_fits(const PacketView& packet, uint32_t mtu);

  /// For First or Only of a WRITE. False when it announces more than the longest message, or a length that does not fit
  /// its own.
  [[nodiscard]] static bool write_length_fits(const PacketView& packet, uint32_t mtu);
  void begin_write(const Reth& reth);
  /// Whether a packet of the WRITE fits what is left of the announced length: no packet may exceed it, and the last
  /// must complete it.
  bool write_goes_on(const PacketView& packet) const;
  /// So many bytes of the WRITE were stored.
  void on_written(uint32_t bytes);
  uint64_t write_va() const { return write_va_; }  // address of the bytes that come next
  uint32_t write_rkey() const { return write_rkey_; }
  uint32_t write_length() const { return write_length_; }  // of the whole message

  /// The packet was carried out.
  void on_accepted(const OpcodeInfo& info);
  /// The message under way will not be continued.
  void abandon() { under_way_ = false; }

 private:
  bool under_way_ = false;
  Operation operation_ = Operation::kSend;  // of the message under way
  uint64_t write_va_ = 0;
  uint32_t write_rkey_ = 0;
  uint32_t write_remaining_ = 0;
  uint32_t write_length_ = 0;
};

// Called for every packet, hence inline.

inline bool InboundMessage::takes(const OpcodeInfo& info) const {
  if (!under_way_) return info.is_first();
  return !info.is_first() && info.operation == operation_;
}

inline bool InboundMessage::length_fits(const PacketView& packet, uint32_t mtu) {
  if (!packet.info->has(kHasPayload)) return true;
  const uint32_t bytes = packet.payload_bytes;
  if (!padding_fits(packet)) return false;
  if (!packet.info->is_last()) return bytes == mtu;
  return bytes <= mtu && (packet.info->is_first() || bytes != 0);
}

inline bool InboundMessage::write_length_fits(const PacketView& packet, uint32_t mtu) {
  const uint32_t announced = packet.reth().dma_length;
  if (announced > kMaxMessageBytes) return false;
  return packet.info->is_last() ? announced == packet.payload_bytes : announced > mtu;
}

inline void InboundMessage::begin_write(const Reth& reth) {
  write_va_ = reth.va;
  write_rkey_ = reth.rkey;
  write_remaining_ = write_length_ = reth.dma_length;
}

inline bool InboundMessage::write_goes_on(const PacketView& packet) const {
  const uint32_t bytes = packet.payload_bytes;
  return packet.info->is_last() ? bytes == write_remaining_ : bytes < write_remaining_;
}

inline void InboundMessage::on_written(uint32_t bytes) {
  ensure(bytes <= write_remaining_, "what is stored was announced");
  write_va_ += bytes;
  write_remaining_ -= bytes;
}

inline void InboundMessage::on_accepted(const OpcodeInfo& info) {
  ensure(under_way_ == !info.is_first(), "a packet goes on with the message under way");
  operation_ = info.operation;
  under_way_ = !info.is_last();
}

}  // namespace uroce
