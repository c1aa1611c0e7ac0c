// Polynomial arithmetic behind the CRC kernels, all of it at compile time.
//
// Bytes are polynomials over GF(2) in reflected order: the first bit of the message is the highest power and lies in
// the least significant bit. P = x^32 + x^26 + x^23 + x^22 + x^16 + x^12 + x^11 + x^10 + x^8 + x^7 + x^5 + x^4 + x^2 +
// x + 1. A state s after a message of n bits is (s * x^n + message * x^32) mod P, with s reflected like the message; so
// a state is simply added to the first four bytes of what follows, and leading zero bytes change nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace uroce::crc {

inline constexpr uint32_t kReflectedPoly = 0xEDB88320u;  // P without x^32: bit i is the coefficient of x^(31-i)

/// x^n mod P, reflected: bit i is the coefficient of x^(31-i).
constexpr uint32_t x_power(unsigned n) {
  uint32_t v = 0x80000000u;  // x^0
  for (unsigned i = 0; i < n; i++) v = (v >> 1) ^ ((v & 1) != 0 ? kReflectedPoly : 0);
  return v;
}

/// table[k][b]: the state after byte b and k zero bytes, from state 0.
using SliceTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr SliceTables make_slice_tables() {
  SliceTables tables{};
  for (uint32_t b = 0; b < 256; b++) {
    uint32_t v = b;
    for (unsigned i = 0; i < 8; i++) v = (v >> 1) ^ ((v & 1) != 0 ? kReflectedPoly : 0);
    tables[0][b] = v;
  }
  for (unsigned k = 1; k < tables.size(); k++) {
    for (uint32_t b = 0; b < 256; b++) {
      const uint32_t v = tables[k - 1][b];
      tables[k][b] = (v >> 8) ^ tables[0][v & 0xff];
    }
  }
  return tables;
}

// Folding with carry-less multiplication.
//
// A 128-bit register R of 16 message bytes stands for the polynomial in which bit k is the coefficient of x^(127-k):
// the low half, H, holds the first eight bytes, so R = H * x^64 + L. A product of two 64-bit registers has 127 bits;
// how it lines up depends on how the constant is stored. `constant(n)` stores x^n mod P so that bit i is the
// coefficient of x^(32-i), which makes bit k of a product with H or L the coefficient of x^(95-k).
//
// Folding a register over D bits of later message (R * x^D = H * x^(D+64) + L * x^D) needs the product where bit k is
// the coefficient of x^(127-k), that is divided by x^32: hence constant(D + 64 - 32) for H, constant(D - 32) for L.
//
// At the end, the state is the sum over all blocks of R * x^D * x^32 mod P, with D the number of bits after the block.
// As H * constant(D + 96) + L * constant(D + 32) every block becomes a polynomial B below x^96, and all of them are
// added. No block waits for another: a short message costs one multiplication deep, whatever its length.
//
// B (bit k is the coefficient of x^(95-k)) is reduced after Barrett. With B = Bh * x^32 + Bl, the quotient
// floor(Bh * x^32 / P) is floor(Bh * mu / x^63), mu = floor(x^95 / P), exactly, since both errors lie below x^0. Stored
// with bit i as the coefficient of x^(63-i), the product's low half is that quotient in the same form. Its product with
// P (stored like `constant`) has the coefficients of x^31..x^0 in bits 64..95, where B has Bl: their sum is the state.

constexpr uint64_t constant(unsigned n) { return uint64_t{x_power(n)} << 1; }

/// P itself, stored like `constant`.
inline constexpr uint64_t kPolyConstant = (uint64_t{kReflectedPoly} << 1) | 1;

/// floor(x^95 / P), bit i the coefficient of x^(63-i): long division from the highest power down.
constexpr uint64_t make_mu() {
  uint64_t mu = 0;
  uint32_t remainder = 1;  // x^95 is shifted in; plain order, bit i the coefficient of x^i
  constexpr uint32_t kPlainPoly = 0x04C11DB7u;
  for (int power = 94; power >= 0; power--) {
    const bool carry = (remainder & 0x80000000u) != 0;
    remainder <<= 1;
    if (carry) {
      remainder ^= kPlainPoly;
      mu |= uint64_t{1} << (63 - power);
    }
  }
  return mu;
}

struct alignas(16) ConstantPair {
  uint64_t low;
  uint64_t high;
};

constexpr ConstantPair fold_constants(unsigned bits) { return {constant(bits + 32), constant(bits - 32)}; }

inline constexpr ConstantPair kBarrett = {make_mu(), kPolyConstant};

/// End constants of the last kEndBlocks blocks of a message, in message order: `end_constants(n)` points at those of
/// the block that n blocks follow; what comes after it in memory belongs to the blocks after it.
inline constexpr unsigned kEndBlocks = 40;

struct alignas(64) EndTable {
  ConstantPair block[kEndBlocks];
};

constexpr EndTable make_end_table() {
  EndTable table{};
  for (unsigned n = 0; n < kEndBlocks; n++) {
    table.block[kEndBlocks - 1 - n] = {constant(128 * n + 96), constant(128 * n + 32)};
  }
  return table;
}

inline constexpr EndTable kEndTable = make_end_table();

constexpr const ConstantPair* end_constants(size_t following) { return &kEndTable.block[kEndBlocks - 1 - following]; }

/// The headers that every iCRC begins with: IP, UDP and BTH, 40 bytes for IPv4 and 60 for IPv6, as four blocks with
/// zero bytes behind them. `ones` are the bits that routers may change; `state` is the CRC state after the eight bytes
/// of ones that come before the headers.
struct alignas(64) HeaderTable {
  ConstantPair block[4];
  uint8_t ones[64];
  uint8_t state[16];
  uint32_t bytes;
};

constexpr uint32_t state_of_ones(unsigned bytes) {
  uint32_t v = 0xFFFFFFFFu;
  for (unsigned i = 0; i < 8 * bytes; i++) v = (v >> 1) ^ ((~v & 1) != 0 ? kReflectedPoly : 0);
  return v;
}

constexpr HeaderTable make_header_table(bool ipv6) {
  constexpr unsigned kUdpBytes = 8;
  constexpr unsigned kBthBytes = 12;
  HeaderTable t{};
  const unsigned ip_bytes = ipv6 ? 40 : 20;
  t.bytes = ip_bytes + kUdpBytes + kBthBytes;
  for (unsigned i = 0; i < 4 && 16 * i < t.bytes; i++) {
    // The last block's end may lie behind the message: negative D. Its zero half may then have any constant.
    const int after = static_cast<int>(8 * t.bytes) - static_cast<int>(128 * (i + 1));
    t.block[i].low = constant(static_cast<unsigned>(after + 96));
    t.block[i].high = after + 32 >= 0 ? constant(static_cast<unsigned>(after + 32)) : 0;
  }
  if (ipv6) {
    t.ones[0] = 0x0f;                          // traffic class, and
    t.ones[1] = t.ones[2] = t.ones[3] = 0xff;  // flow label
    t.ones[7] = 0xff;                          // hop limit
  } else {
    t.ones[1] = 0xff;                // TOS
    t.ones[8] = 0xff;                // TTL
    t.ones[10] = t.ones[11] = 0xff;  // header checksum
  }
  t.ones[ip_bytes + 6] = t.ones[ip_bytes + 7] = 0xff;  // UDP checksum
  t.ones[ip_bytes + kUdpBytes + 4] = 0xff;             // BTH resv8a
  for (unsigned i = 0; i < 4; i++) t.state[i] = static_cast<uint8_t>(state_of_ones(8) >> (8 * i));
  return t;
}

inline constexpr HeaderTable kIpv4Header = make_header_table(false);
inline constexpr HeaderTable kIpv6Header = make_header_table(true);

/// Byte shuffles for h = 0..15. The 16 bytes at `kShuffle + h` (an unaligned load) move bytes 0..h-1 to the end of the
/// register and clear the rest; those at `kShuffle + 16 + h` move bytes h..15 to its beginning and clear the rest.
inline constexpr uint8_t kShuffle[48] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,  //
    0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,    //
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80};

}  // namespace uroce::crc
