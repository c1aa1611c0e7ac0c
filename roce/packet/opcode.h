// The BTH opcode table.
//
// An opcode's upper three bits name the transport service, its lower five the operation. `opcode_info(op)` says for
// every one of the 256 values which extension headers follow the BTH, in order, and where in a message the packet may
// stand. Values are those of the InfiniBand specification's BTH OpCode table; 0x81 is RoCEv2's CNP. 0xC0 is uroce's
// own, from the range that the specification leaves to manufacturers: an ACK that also says what arrived out of order
// (sack.h).
#pragma once

#include <array>
#include <cstdint>

#include "uroce/types.h"

namespace uroce {

enum class Service : uint8_t { kRc = 0, kUc = 1, kRd = 2, kUd = 3, kCnp = 4, kXrc = 5 };

/// The service of the packets that a QP exchanges with its peer; raw packets have none.
constexpr Service service_of(QpType type) {
  return type == QpType::kRc   ? Service::kRc
         : type == QpType::kUc ? Service::kUc
         : type == QpType::kUd ? Service::kUd
                               : Service::kXrc;
}

/// What the packet does, without its place in the message.
enum class Operation : uint8_t {
  kReserved,  // not an opcode: the packet is dropped
  kSend,
  kWrite,
  kReadRequest,
  kReadResponse,
  kAcknowledge,
  kAtomicAcknowledge,
  kCompareSwap,
  kFetchAdd,
  kCnp,
  kSelectiveAck,  // uroce's own
  kFlush,
  kAtomicWrite,
};

/// Extension headers and traits, as bits.
enum OpcodeBits : uint16_t {
  kHasReth = 1 << 0,
  kHasAeth = 1 << 1,
  kHasAtomicEth = 1 << 2,
  kHasAtomicAckEth = 1 << 3,
  kHasImm = 1 << 4,
  kHasIeth = 1 << 5,
  kHasDeth = 1 << 6,
  kHasXrceth = 1 << 7,
  kHasPayload = 1 << 8,  // may carry payload
  kFirst = 1 << 9,       // begins a message
  kLast = 1 << 10,       // ends a message
  kHasFeth = 1 << 11,
};

struct OpcodeInfo {
  Operation operation = Operation::kReserved;
  Service service = Service::kRc;
  uint16_t bits = 0;
  uint8_t header_bytes = 0;  // extension headers after the BTH

  constexpr bool has(uint16_t any_of) const { return (bits & any_of) != 0; }
  constexpr bool is_first() const { return has(kFirst); }
  constexpr bool is_last() const { return has(kLast); }
  constexpr bool is_only() const { return (bits & (kFirst | kLast)) == (kFirst | kLast); }
  /// True for packets that a responder sends, which go to the requester side of the QP.
  constexpr bool is_response() const {
    constexpr uint32_t kResponses = 1u << static_cast<uint32_t>(Operation::kReadResponse) |
                                    1u << static_cast<uint32_t>(Operation::kAcknowledge) |
                                    1u << static_cast<uint32_t>(Operation::kAtomicAcknowledge) |
                                    1u << static_cast<uint32_t>(Operation::kSelectiveAck);
    return (kResponses >> static_cast<uint32_t>(operation) & 1) != 0;
  }
};

// The operation: the lower five bits of an opcode.
enum OpcodeLow : uint8_t {
  kOpSendFirst = 0x00,
  kOpSendMiddle = 0x01,
  kOpSendLast = 0x02,
  kOpSendLastImm = 0x03,
  kOpSendOnly = 0x04,
  kOpSendOnlyImm = 0x05,
  kOpWriteFirst = 0x06,
  kOpWriteMiddle = 0x07,
  kOpWriteLast = 0x08,
  kOpWriteLastImm = 0x09,
  kOpWriteOnly = 0x0a,
  kOpWriteOnlyImm = 0x0b,
  kOpReadRequest = 0x0c,
  kOpReadResponseFirst = 0x0d,
  kOpReadResponseMiddle = 0x0e,
  kOpReadResponseLast = 0x0f,
  kOpReadResponseOnly = 0x10,
  kOpAcknowledge = 0x11,
  kOpAtomicAcknowledge = 0x12,
  kOpCompareSwap = 0x13,
  kOpFetchAdd = 0x14,
  kOpSendLastInv = 0x16,
  kOpSendOnlyInv = 0x17,
  kOpFlush = 0x1c,
  kOpAtomicWrite = 0x1d,
};

inline constexpr uint8_t kOpcodeCnp = 0x81;
inline constexpr uint8_t kOpcodeSack = 0xC0;

constexpr uint8_t make_opcode(Service service, uint8_t low) {
  return static_cast<uint8_t>((static_cast<uint8_t>(service) << 5) | low);
}

namespace detail {

constexpr uint8_t extension_bytes(uint16_t bits) {
  unsigned n = 0;
  if (bits & kHasReth) n += 16;
  if (bits & kHasAeth) n += 4;
  if (bits & kHasAtomicEth) n += 28;
  if (bits & kHasAtomicAckEth) n += 8;
  if (bits & kHasImm) n += 4;
  if (bits & kHasIeth) n += 4;
  if (bits & kHasDeth) n += 8;
  if (bits & kHasXrceth) n += 4;
  if (bits & kHasFeth) n += 4;
  return static_cast<uint8_t>(n);
}

struct LowEntry {
  uint8_t low;
  Operation operation;
  uint16_t bits;
};

inline constexpr LowEntry kReliable[] = {
    {kOpSendFirst, Operation::kSend, kHasPayload | kFirst},
    {kOpSendMiddle, Operation::kSend, kHasPayload},
    {kOpSendLast, Operation::kSend, kHasPayload | kLast},
    {kOpSendLastImm, Operation::kSend, kHasImm | kHasPayload | kLast},
    {kOpSendOnly, Operation::kSend, kHasPayload | kFirst | kLast},
    {kOpSendOnlyImm, Operation::kSend, kHasImm | kHasPayload | kFirst | kLast},
    {kOpWriteFirst, Operation::kWrite, kHasReth | kHasPayload | kFirst},
    {kOpWriteMiddle, Operation::kWrite, kHasPayload},
    {kOpWriteLast, Operation::kWrite, kHasPayload | kLast},
    {kOpWriteLastImm, Operation::kWrite, kHasImm | kHasPayload | kLast},
    {kOpWriteOnly, Operation::kWrite, kHasReth | kHasPayload | kFirst | kLast},
    {kOpWriteOnlyImm, Operation::kWrite, kHasReth | kHasImm | kHasPayload | kFirst | kLast},
    {kOpReadRequest, Operation::kReadRequest, kHasReth | kFirst | kLast},
    {kOpReadResponseFirst, Operation::kReadResponse, kHasAeth | kHasPayload | kFirst},
    {kOpReadResponseMiddle, Operation::kReadResponse, kHasPayload},
    {kOpReadResponseLast, Operation::kReadResponse, kHasAeth | kHasPayload | kLast},
    {kOpReadResponseOnly, Operation::kReadResponse, kHasAeth | kHasPayload | kFirst | kLast},
    {kOpAcknowledge, Operation::kAcknowledge, kHasAeth | kFirst | kLast},
    {kOpAtomicAcknowledge, Operation::kAtomicAcknowledge, kHasAeth | kHasAtomicAckEth | kFirst | kLast},
    {kOpCompareSwap, Operation::kCompareSwap, kHasAtomicEth | kFirst | kLast},
    {kOpFetchAdd, Operation::kFetchAdd, kHasAtomicEth | kFirst | kLast},
    {kOpSendLastInv, Operation::kSend, kHasIeth | kHasPayload | kLast},
    {kOpSendOnlyInv, Operation::kSend, kHasIeth | kHasPayload | kFirst | kLast},
};

// Added to RC later, by the annex on memory placement extensions.
inline constexpr LowEntry kPlacement[] = {
    {kOpFlush, Operation::kFlush, kHasFeth | kHasReth | kFirst | kLast},
    {kOpAtomicWrite, Operation::kAtomicWrite, kHasReth | kHasPayload | kFirst | kLast},
};

constexpr std::array<OpcodeInfo, 256> make_opcode_table() {
  std::array<OpcodeInfo, 256> table{};
  const auto set = [&table](Service service, const LowEntry& e, uint16_t extra) {
    const auto bits = static_cast<uint16_t>(e.bits | extra);
    table[make_opcode(service, e.low)] = {e.operation, service, bits, extension_bytes(bits)};
  };
  for (const LowEntry& e : kReliable) {
    set(Service::kRc, e, 0);
    if (e.low <= kOpWriteOnlyImm) set(Service::kUc, e, 0);
    // In XRC only requests name a shared receive queue; responses are as in RC.
    const bool request = e.low <= kOpReadRequest || e.low >= kOpCompareSwap;
    set(Service::kXrc, e, request ? kHasXrceth : 0);
    if (e.low == kOpSendOnly || e.low == kOpSendOnlyImm) set(Service::kUd, e, kHasDeth);
  }
  for (const LowEntry& e : kPlacement) set(Service::kRc, e, 0);
  table[kOpcodeCnp] = {Operation::kCnp, Service::kCnp, kFirst | kLast, 16};
  constexpr uint16_t kSackBits = kHasAeth | kHasPayload | kFirst | kLast;
  table[kOpcodeSack] = {Operation::kSelectiveAck, Service::kRc, kSackBits, extension_bytes(kSackBits)};
  return table;
}

}  // namespace detail

inline constexpr std::array<OpcodeInfo, 256> kOpcodeTable = detail::make_opcode_table();

constexpr const OpcodeInfo& opcode_info(uint8_t opcode) { return kOpcodeTable[opcode]; }

/// For example "RC_SEND_ONLY", "UD_SEND_ONLY_IMM", "CNP" or "SACK"; "RESERVED" for opcodes that are not in the table.
const char* opcode_name(uint8_t opcode);

}  // namespace uroce
