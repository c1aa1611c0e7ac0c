#include "pmd/udp/icrc_change.h"

#include <array>
#include <memory>

#include "packet/crc32.h"
#include "packet/crc32_math.h"

namespace uroce::udp {
namespace {

/// a * b mod P; both reflected, bit i is the coefficient of x^(31-i).
constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (int i = 0; i < 32; i++) {
    product ^= b & (0 - (a >> 31));
    a <<= 1;
    b = (b >> 1) ^ (crc::kReflectedPoly & (0 - (b & 1)));
  }
  return product;
}

/// a / x mod P.
constexpr uint32_t divide_by_x(uint32_t a) {
  return (a & 0x80000000u) != 0 ? ((a ^ crc::kReflectedPoly) << 1) | 1 : a << 1;
}

/// Powers of x for as many bytes as packets have; beyond, they are made out of several.
constexpr uint32_t kPowers = 4608;

struct Powers {
  Powers() {
    up[0] = down[0] = crc::x_power(0);
    for (uint32_t i = 1; i < kPowers; i++) {
      up[i] = up[i - 1];
      down[i] = down[i - 1];
      for (int bit = 0; bit < 8; bit++) {
        up[i] = (up[i] >> 1) ^ (crc::kReflectedPoly & (0 - (up[i] & 1)));
        down[i] = divide_by_x(down[i]);
      }
    }
  }
  std::array<uint32_t, kPowers> up;    // x^(8 i)
  std::array<uint32_t, kPowers> down;  // x^(-8 i)
};

const Powers& powers() {
  static const Powers all;
  return all;
}

uint32_t times_power(uint32_t value, const std::array<uint32_t, kPowers>& table, uint32_t bytes) {
  for (; bytes >= kPowers; bytes -= kPowers - 1) value = multiply(value, table[kPowers - 1]);
  return multiply(value, table[bytes]);
}

}  // namespace

uint32_t icrc_change(std::span<const uint8_t> difference, uint32_t following) {
  return times_power(crc32_update(0, difference.data(), difference.size()), powers().up, following);
}

std::optional<uint16_t> find_change(uint32_t change, uint32_t following) {
  // Two bytes d, behind which are n bytes, change the CRC by d * x^32 * x^(8n); d has no power beyond x^15.
  const uint32_t d = times_power(change, powers().down, following + 4);
  if ((d & 0xFFFF) != 0) return std::nullopt;
  return static_cast<uint16_t>((d >> 8 & 0xFF00) | d >> 24);
}

}  // namespace uroce::udp
