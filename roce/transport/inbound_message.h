// The message that a peer is in the middle of: which packet may come next, and which bytes of a WRITE are still to
// come.
//
// Checks of one packet against the message, in the specification's terms; keys, rights and memory are not its business.
#pragma once

#include <cstdint>

#include "uroce/types.h"
#include "wire/packet.h"

namespace uroce {

class InboundMessage {
 public:
  /// May it come now? First or Only when no message is under way, Middle or Last of the same operation when one is.
  bool takes(const OpcodeInfo& info) const;
  /// First and Middle are full, Only and Last no longer than that, and Last is not empty. `mtu`: bytes of a full
  /// packet.
  static bool length_fits(const PacketView& packet, uint32_t mtu);

  /// First or Only of a WRITE. False: it announces more than there may be, or what does not go with its own length.
  [[nodiscard]] static bool write_length_fits(const PacketView& packet, uint32_t mtu);
  void begin_write(const Reth& reth);
  /// Middle and Last, too: no more than was announced, and at the end no less.
  bool write_goes_on(const PacketView& packet) const;
  /// So many bytes of the WRITE are in their place.
  void on_written(uint32_t bytes);
  uint64_t write_va() const { return write_va_; }  // of the bytes that come next
  uint32_t write_rkey() const { return write_rkey_; }
  uint32_t write_length() const { return write_length_; }  // of the whole message

  /// The packet was carried out.
  void on_accepted(const OpcodeInfo& info);
  /// What was under way will not go on.
  void abandon() { under_way_ = false; }

 private:
  bool under_way_ = false;
  Operation operation_ = Operation::kSend;  // of the message under way
  uint64_t write_va_ = 0;
  uint32_t write_rkey_ = 0;
  uint32_t write_remaining_ = 0;
  uint32_t write_length_ = 0;
};

// Asked for every packet, hence here.

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
  write_va_ += bytes;
  write_remaining_ -= bytes;
}

inline void InboundMessage::on_accepted(const OpcodeInfo& info) {
  operation_ = info.operation;
  under_way_ = !info.is_last();
}

}  // namespace uroce
