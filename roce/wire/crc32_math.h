// Polynomial arithmetic behind the CRC kernels, all of it at compile time.
//
// Bytes are polynomials over GF(2) in reflected order: the first bit of the message is the highest power and lies in
// the least significant bit. P = x^32 + x^26 + x^23 + x^22 + x^16 + x^12 + x^11 + x^10 + x^8 + x^7 + x^5 + x^4 + x^2 +
// x + 1. A state s after a message of n bits is (s * x^n + message * x^32) mod P, with s reflected like the message; so
// a state is simply added to the first four bytes of what follows, and leading zero bytes change nothing.
#pragma once

#include <array>
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

}  // namespace uroce::crc
