#include "base/big_endian.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace uroce {
namespace {

constexpr std::array<uint8_t, 10> kBytes = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x10, 0x32};

TEST(BigEndian, LoadsAtAnyAlignment) {
  EXPECT_EQ(load_be16(kBytes.data()), 0x0123);
  EXPECT_EQ(load_be16(kBytes.data() + 1), 0x2345);
  EXPECT_EQ(load_be24(kBytes.data() + 1), 0x234567u);
  EXPECT_EQ(load_be32(kBytes.data() + 1), 0x23456789u);
  EXPECT_EQ(load_be64(kBytes.data()), 0x0123456789abcdefu);
  EXPECT_EQ(load_be64(kBytes.data() + 1), 0x23456789abcdef10u);
}

TEST(BigEndian, StoresExactlyItsWidth) {
  const auto stored = [](auto&& store) {
    std::array<uint8_t, 10> room;
    room.fill(0xee);
    store(room.data() + 1);
    return room;
  };
  using Room = std::array<uint8_t, 10>;
  EXPECT_EQ(stored([](uint8_t* p) { store_be16(p, 0x0102); }),
            (Room{0xee, 1, 2, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee}));
  EXPECT_EQ(stored([](uint8_t* p) { store_be24(p, 0xff010203); }),
            (Room{0xee, 1, 2, 3, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee}));
  EXPECT_EQ(stored([](uint8_t* p) { store_be32(p, 0x01020304); }),
            (Room{0xee, 1, 2, 3, 4, 0xee, 0xee, 0xee, 0xee, 0xee}));
  EXPECT_EQ(stored([](uint8_t* p) { store_be64(p, 0x0102030405060708); }), (Room{0xee, 1, 2, 3, 4, 5, 6, 7, 8, 0xee}));
}

}  // namespace
}  // namespace uroce
