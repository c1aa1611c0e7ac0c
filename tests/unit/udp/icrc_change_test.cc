// The iCRC after a change, without reading what did not change; and the change, by what it did to the iCRC.
#include "pmd/udp/icrc_change.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <vector>

namespace uroce::udp {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes message(size_t bytes) {
  Bytes made(bytes);
  for (size_t i = 0; i < bytes; i++) made[i] = static_cast<uint8_t>(i * 37 + (i >> 8) * 11);
  return made;
}

uint32_t crc_of(const Bytes& bytes) {
  return static_cast<uint32_t>(crc32(0, bytes.data(), static_cast<uInt>(bytes.size())));
}

/// `following` bytes come behind the two that differ.
uint32_t change_by_zlib(size_t following, uint16_t difference) {
  Bytes bytes = message(following + 12);
  const uint32_t before = crc_of(bytes);
  bytes[10] = static_cast<uint8_t>(bytes[10] ^ difference >> 8);
  bytes[11] = static_cast<uint8_t>(bytes[11] ^ difference);
  return before ^ crc_of(bytes);
}

TEST(IcrcChange, IsWhatZlibSaysForEveryLength) {
  for (size_t following : {0, 1, 3, 4, 8, 31, 64, 1023, 4096, 4150, 4606, 4607, 4608, 4609, 9216, 20000}) {
    const uint8_t difference[] = {0x12, 0x34};
    EXPECT_EQ(icrc_change(difference, static_cast<uint32_t>(following)), change_by_zlib(following, 0x1234))
        << following;
  }
}

TEST(IcrcChange, ADifferenceOfNothingChangesNothing) {
  const uint8_t none[18] = {};
  EXPECT_EQ(icrc_change(none, 4096), 0u);
}

TEST(IcrcChange, TellsEveryIdentification) {
  for (uint32_t id = 0; id < 0x10000; id++) {
    const uint8_t difference[] = {static_cast<uint8_t>(id >> 8), static_cast<uint8_t>(id)};
    ASSERT_EQ(find_change(icrc_change(difference, 1052), 1052), static_cast<uint16_t>(id));
  }
}

TEST(IcrcChange, TellsItForEveryLength) {
  for (size_t following : {0, 1, 40, 255, 4096, 4603, 4604, 4605, 4606, 4607, 4608, 9000}) {
    EXPECT_EQ(find_change(change_by_zlib(following, 0xBEEF), static_cast<uint32_t>(following)), 0xBEEF) << following;
  }
}

/// A changed bit anywhere else is not taken for an identification.
TEST(IcrcChange, DamageIsNoIdentification) {
  const size_t bytes = 300;
  const uint32_t before = crc_of(message(bytes));
  for (size_t bit = 0; bit < 8 * bytes; bit++) {
    Bytes damaged = message(bytes);
    damaged[bit / 8] = static_cast<uint8_t>(damaged[bit / 8] ^ 1u << bit % 8);
    const bool in_field = bit / 8 == 4 || bit / 8 == 5;
    EXPECT_EQ(find_change(before ^ crc_of(damaged), bytes - 6).has_value(), in_field) << bit;
  }
}

}  // namespace
}  // namespace uroce::udp
