// Recognises packets whose headers are those of an earlier one, except for the PSN: most packets of a connection are.
//
// What parse_frame would find out is known then, and so is the beginning of the iCRC. Only headers are remembered,
// never what they meant to a queue pair: whether there is one with that number and whether it takes such a packet is
// asked of each packet. A packet with any other bit in any header is a stranger, and is parsed.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "packet/icrc.h"
#include "packet/network_headers.h"
#include "packet/packet.h"
#include "uroce/port.h"

namespace uroce {

class KnownHeaders {
 public:
  /// Without a VLAN and without IP options. Between them only the tail of the BTH differs.
  static constexpr uint32_t kHead4Bytes = kEthernetBytes + kIpv4Bytes + kUdpBytes + Bth::kHeadBytes;
  static constexpr uint32_t kHead6Bytes = kEthernetBytes + kIpv6Bytes + kUdpBytes + Bth::kHeadBytes;

  /// Packets with such headers.
  struct Known {
    PacketView view;  // as `view_of` left it
    uint32_t crc;     // the state of the iCRC after the head of the BTH
    uint32_t slot;    // of the queue pair in its table, which may have another one by now
    uint32_t own;     // AddressTable::version, at which the destination was ours
  };

  /// nullptr: the frame has no known headers. Valid until `note` is called.
  Known* find(const RxFrame& frame) {
    const uint8_t* const p = frame.headers != nullptr ? frame.headers : frame.data;
    const uint32_t bytes = header_bytes(p, frame.bytes);
    if (bytes == 0) return nullptr;
    Entry& entry = entry_of(p, bytes);
    if (entry.header_bytes != bytes || frame.bytes < entry.frame_bytes || !same(p, entry.bytes.data(), bytes))
      return nullptr;
    return &entry.known;
  }

  /// The packet in a frame whose headers are `known`; valid until the next call with the same.
  static const PacketView& view_of(const RxFrame& frame, Known& known) {
    const uint8_t* const p = frame.headers != nullptr ? frame.headers : frame.data;
    PacketView& view = known.view;
    view.l2 = p;
    view.l3 = p + kEthernetBytes;
    view.bth_bytes = p + (view.ipv6 ? kHead6Bytes : kHead4Bytes) - Bth::kHeadBytes;
    view.ext = view.bth_bytes + Bth::kBytes;
    view.payload = frame.data + (view.ext + view.info->header_bytes - p);
    view.bth.decode_tail(view.bth_bytes);
    return view;
  }

  /// A packet that was found good, which may be one of `view_of`: remembers its headers, if such came twice in a row at
  /// their place. False: it did not. Headers that are never alike, as signed ones over IPv4, are only compared.
  bool note(const PacketView& packet, uint32_t slot, uint32_t own) {
    const auto bytes = static_cast<uint32_t>(packet.bth_bytes + Bth::kHeadBytes - packet.l2);
    if (bytes != (packet.ipv6 ? kHead6Bytes : kHead4Bytes)) return false;
    Entry& entry = entry_of(packet.l2, bytes);
    const Seen seen{load_be64(packet.bth_bytes), load_be64(packet.l3)};
    if (entry.seen != seen) {
      entry.seen = seen;
      return false;
    }
    std::memcpy(entry.bytes.data(), packet.l2, bytes);
    entry.header_bytes = bytes;
    entry.frame_bytes = kEthernetBytes + packet.l3_bytes;
    entry.known = {packet, icrc_to_bth_head(packet.l3, packet.ipv6), slot, own};
    return true;
  }

 private:
  static constexpr uint32_t kEntryBits = 6;

  struct Seen {
    uint64_t bth_head = 0;
    uint64_t ip = 0;  // its first eight bytes: length, marks, and what may count
    bool operator==(const Seen&) const = default;
  };
  struct Entry {
    std::array<uint8_t, kHead6Bytes> bytes;
    uint32_t header_bytes = 0;  // 0: none
    uint32_t frame_bytes = 0;   // to the end of the iCRC
    Seen seen;                  // the latest of this place that was not known
    Known known;
  };

  /// Of headers that may be known; 0: others.
  static uint32_t header_bytes(const uint8_t* p, uint32_t frame_bytes) {
    if (frame_bytes < kHead4Bytes) return 0;
    const uint16_t ethertype = load_be16(p + kEthernetBytes - 2);
    if (ethertype == kEtherIpv4) return kHead4Bytes;
    return ethertype == kEtherIpv6 && frame_bytes >= kHead6Bytes ? kHead6Bytes : 0;
  }
  Entry& entry_of(const uint8_t* p, uint32_t bytes) {
    const uint64_t head = load_be64(p + bytes - Bth::kHeadBytes);
    const uint64_t mixed = (head ^ head >> 48) * 0x9E3779B97F4A7C15u;
    return entries_[mixed >> (64 - kEntryBits)];
  }
  /// `bytes` is one of two numbers.
  static bool same(const uint8_t* a, const uint8_t* b, uint32_t bytes) {
    return same<0, kHead4Bytes>(a, b) && (bytes == kHead4Bytes || same<kHead4Bytes - 12, kHead6Bytes>(a, b));
  }
  /// In registers that overlap at the end.
  template <uint32_t kFrom, uint32_t kTo>
  static bool same(const uint8_t* a, const uint8_t* b) {
    Register bits = load(a + kTo - sizeof(Register)) ^ load(b + kTo - sizeof(Register));
    for (uint32_t i = kFrom; i + sizeof(Register) <= kTo; i += sizeof(Register)) bits |= load(a + i) ^ load(b + i);
    return (bits[0] | bits[1]) == 0;
  }
  using Register = uint64_t __attribute__((vector_size(16)));
  static Register load(const uint8_t* p) {
    Register v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }

  std::array<Entry, 1u << kEntryBits> entries_;
};

}  // namespace uroce
