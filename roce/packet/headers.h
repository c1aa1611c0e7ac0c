// The transport headers, as plain values with `decode` and `encode`.
//
// `decode(p)` reads exactly kBytes bytes at p, of any alignment, and cannot fail: whether the bytes are there was
// proven by `parse_frame` (packet.h). `encode(p)` writes exactly kBytes bytes. Field names are the InfiniBand
// specification's. All integers are in host order here; `imm` is the exception, see ImmDt.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/big_endian.h"
#include "uroce/psn.h"

namespace uroce {

inline constexpr uint16_t kRoceUdpPort = 4791;
inline constexpr uint32_t kIcrcBytes = 4;
inline constexpr uint16_t kDefaultPkey = 0xFFFF;
inline constexpr uint32_t kMulticastQpn = 0xFFFFFF;  // whom a multicast packet is for, in place of a queue pair

/// Base transport header. `resv6a` carries FECN (bit 7) and BECN (bit 6) in RoCEv2.
struct Bth {
  static constexpr uint32_t kBytes = 12;
  uint8_t opcode = 0;
  bool solicited = false;
  bool mig_req = false;
  uint8_t pad_count = 0;  // 0..3
  uint8_t tver = 0;       // 0..15; only 0 is valid
  uint16_t pkey = kDefaultPkey;
  uint8_t resv8a = 0;
  uint32_t dest_qp = 0;  // 24 bits
  bool ack_req = false;
  uint8_t resv7 = 0;
  Psn psn{};

  static Bth decode(const uint8_t* p) {
    const uint32_t w0 = load_be32(p);
    const uint32_t w1 = load_be32(p + 4);
    const uint32_t w2 = load_be32(p + 8);
    Bth h;
    h.opcode = static_cast<uint8_t>(w0 >> 24);
    h.solicited = (w0 & 0x00800000) != 0;
    h.mig_req = (w0 & 0x00400000) != 0;
    h.pad_count = (w0 >> 20) & 3;
    h.tver = (w0 >> 16) & 0x0f;
    h.pkey = static_cast<uint16_t>(w0);
    h.resv8a = static_cast<uint8_t>(w1 >> 24);
    h.dest_qp = w1 & 0xFFFFFF;
    h.ack_req = (w2 & 0x80000000) != 0;
    h.resv7 = (w2 >> 24) & 0x7f;
    h.psn = Psn(w2);
    return h;
  }

  void encode(uint8_t* p) const {
    store_be64(p, head());
    store_be32(p + kHeadBytes, tail());
  }

  // In two parts: of the packets of a connection, most have the same head.
  static constexpr uint32_t kHeadBytes = 8;
  uint64_t head() const {
    const uint32_t flags = (solicited ? 0x80u : 0) | (mig_req ? 0x40u : 0) | ((pad_count & 3u) << 4) | (tver & 0x0fu);
    return (uint64_t{opcode} << 56) | (uint64_t{flags} << 48) | (uint64_t{pkey} << 32) | (uint64_t{resv8a} << 24) |
           (dest_qp & 0xFFFFFF);
  }
  uint32_t tail() const { return (ack_req ? 0x80000000u : 0) | ((resv7 & 0x7fu) << 24) | psn.value(); }
  void decode_tail(const uint8_t* p) {
    const uint32_t word = load_be32(p + kHeadBytes);
    ack_req = (word & 0x80000000) != 0;
    resv7 = (word >> 24) & 0x7f;
    psn = Psn(word);
  }
};

/// RDMA extended transport header.
struct Reth {
  static constexpr uint32_t kBytes = 16;
  uint64_t va = 0;
  uint32_t rkey = 0;
  uint32_t dma_length = 0;

  static Reth decode(const uint8_t* p) { return {load_be64(p), load_be32(p + 8), load_be32(p + 12)}; }
  void encode(uint8_t* p) const {
    store_be64(p, va);
    store_be32(p + 8, rkey);
    store_be32(p + 12, dma_length);
  }
};

/// ACK extended transport header: syndrome and message sequence number.
struct Aeth {
  static constexpr uint32_t kBytes = 4;
  uint8_t syndrome = 0;
  uint32_t msn = 0;  // 24 bits

  static Aeth decode(const uint8_t* p) { return {p[0], load_be32(p) & 0xFFFFFF}; }
  void encode(uint8_t* p) const { store_be32(p, (uint32_t{syndrome} << 24) | (msn & 0xFFFFFF)); }
};

/// The kind of an AETH: bits 6..5 of its syndrome.
enum class AethKind : uint8_t { kAck = 0, kRnrNak = 1, kReserved = 2, kNak = 3 };

constexpr AethKind aeth_kind(uint8_t syndrome) { return static_cast<AethKind>((syndrome >> 5) & 3); }
/// Bits 4..0: credit count of an ACK, timer of an RNR NAK, code of a NAK.
constexpr uint8_t aeth_value(uint8_t syndrome) { return syndrome & 0x1f; }
constexpr uint8_t make_syndrome(AethKind kind, uint8_t value) {
  return static_cast<uint8_t>((static_cast<uint8_t>(kind) << 5) | (value & 0x1f));
}
/// An ACK's credit field that means "no credit limit given".
inline constexpr uint8_t kCreditsInvalid = 0x1f;

enum class NakCode : uint8_t {
  kPsnSequenceError = 0,
  kInvalidRequest = 1,
  kRemoteAccessError = 2,
  kRemoteOperationalError = 3,
  kInvalidRdRequest = 4,
};

struct AtomicEth {
  static constexpr uint32_t kBytes = 28;
  uint64_t va = 0;
  uint32_t rkey = 0;
  uint64_t swap_add = 0;
  uint64_t compare = 0;
  bool operator==(const AtomicEth&) const = default;

  static AtomicEth decode(const uint8_t* p) {
    return {load_be64(p), load_be32(p + 8), load_be64(p + 12), load_be64(p + 20)};
  }
  void encode(uint8_t* p) const {
    store_be64(p, va);
    store_be32(p + 8, rkey);
    store_be64(p + 12, swap_add);
    store_be64(p + 20, compare);
  }
};

struct AtomicAckEth {
  static constexpr uint32_t kBytes = 8;
  uint64_t original = 0;

  static AtomicAckEth decode(const uint8_t* p) { return {load_be64(p)}; }
  void encode(uint8_t* p) const { store_be64(p, original); }
};

/// The payload of an ATOMIC WRITE, which lies behind a RETH that names as many.
inline constexpr uint32_t kAtomicWriteBytes = 8;

/// Immediate data: four bytes that nobody interprets. `imm` holds them as they lie on the wire (memcpy, no swap),
/// which is how verbs programs see `imm_data`.
struct ImmDt {
  static constexpr uint32_t kBytes = 4;
  uint32_t imm = 0;

  static ImmDt decode(const uint8_t* p) {
    ImmDt h;
    std::memcpy(&h.imm, p, sizeof h.imm);
    return h;
  }
  void encode(uint8_t* p) const { std::memcpy(p, &imm, sizeof imm); }
};

/// Invalidate extended transport header.
struct Ieth {
  static constexpr uint32_t kBytes = 4;
  uint32_t rkey = 0;

  static Ieth decode(const uint8_t* p) { return {load_be32(p)}; }
  void encode(uint8_t* p) const { store_be32(p, rkey); }
};

/// FLUSH extended transport header, in front of the RETH.
struct Feth {
  static constexpr uint32_t kBytes = 4;
  uint8_t placement = 0;    // 4 bits: FlushPlacement
  uint8_t selectivity = 0;  // 2 bits: FlushLevel
  bool operator==(const Feth&) const = default;

  static Feth from(uint32_t word) { return {static_cast<uint8_t>(word & 0x0f), static_cast<uint8_t>((word >> 4) & 3)}; }
  uint32_t word() const { return ((selectivity & 3u) << 4) | (placement & 0x0fu); }
  static Feth decode(const uint8_t* p) { return from(load_be32(p)); }
  void encode(uint8_t* p) const { store_be32(p, word()); }
};

/// Datagram extended transport header.
struct Deth {
  static constexpr uint32_t kBytes = 8;
  uint32_t qkey = 0;
  uint32_t src_qp = 0;  // 24 bits

  static Deth decode(const uint8_t* p) { return {load_be32(p), load_be32(p + 4) & 0xFFFFFF}; }
  void encode(uint8_t* p) const {
    store_be32(p, qkey);
    store_be32(p + 4, src_qp & 0xFFFFFF);
  }
};

/// XRC extended transport header: the shared receive queue that a request is for.
struct Xrceth {
  static constexpr uint32_t kBytes = 4;
  uint32_t srqn = 0;  // 24 bits

  static Xrceth decode(const uint8_t* p) { return {load_be32(p) & 0xFFFFFF}; }
  void encode(uint8_t* p) const { store_be32(p, srqn & 0xFFFFFF); }
};

}  // namespace uroce
