#include "uroce_ping/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace uroce::ping {
namespace {

using testing::ElementsAreArray;

std::vector<uint8_t> encoded(const Message& message) {
  std::vector<uint8_t> datagram(kMessageBytes, 0xee);  // as an earlier one left it
  encode(message, datagram);
  return datagram;
}

TEST(PingMessage, Bytes) {
  const std::vector<uint8_t> ping = {'u', 'r', 'o', 'c', 'e', 'p', 'n', 'g', 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0};
  EXPECT_THAT(encoded({.sequence = 0x01020304}), ElementsAreArray(ping));
  const std::vector<uint8_t> answer = {'u', 'r', 'o', 'c', 'e', 'p', 'n', 'g', 1,    0x6a,
                                       0,   0,   1,   2,   3,   4,   0,   0,   0x10, 0};
  const Message sent{.answer = true, .traffic_class = 0x6a, .sequence = 0x01020304, .length = 4096};
  EXPECT_THAT(encoded(sent), ElementsAreArray(answer));
  const auto read = decode(answer);
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->answer);
  EXPECT_EQ(read->traffic_class, 0x6a);
  EXPECT_EQ(read->sequence, 0x01020304u);
  EXPECT_EQ(read->length, 4096u);
  EXPECT_FALSE(decode(ping)->answer);
}

TEST(PingMessage, WhatIsNoneIsNotTakenForOne) {
  std::vector<uint8_t> bytes = encoded({.sequence = 1});
  bytes.push_back(0);
  EXPECT_TRUE(decode(bytes));  // datagrams may be longer
  EXPECT_FALSE(decode(std::span(bytes).first(kMessageBytes - 1)));
  EXPECT_FALSE(decode({}));
  for (size_t i = 0; i < 8; i++) {
    bytes[i] ^= 1;
    EXPECT_FALSE(decode(bytes)) << i;
    bytes[i] ^= 1;
  }
  bytes[8] = 2;
  EXPECT_FALSE(decode(bytes));
}

/// An IPv4 header with checksum, of 192.0.2.1 to 192.0.2.2, behind 20 bytes that a device left as they were.
std::array<uint8_t, kGrhBytes> ipv4(uint8_t traffic_class, uint16_t checksum, uint8_t before) {
  std::array<uint8_t, kGrhBytes> grh;
  grh.fill(before);
  const uint8_t header[] = {
      0x45, traffic_class, 0x00, 0x58, 0, 0, 0x40, 0, 0x40, 0x11, uint8_t(checksum >> 8), uint8_t(checksum), 192, 0, 2,
      1,    192,           0,    2,    2};
  std::copy(std::begin(header), std::end(header), grh.begin() + 20);
  return grh;
}

TEST(PingMessage, TrafficClassOfIpv4) {
  // Checksums by hand: 45TT + 0058 + 0000 + 4000 + 4011 + c000 + 0201 + c000 + 0202, folded and turned round.
  EXPECT_EQ(traffic_class_of(ipv4(0x00, 0xb691, 0)), 0x00);
  EXPECT_EQ(traffic_class_of(ipv4(0x6a, 0xb627, 0)), 0x6a);
  EXPECT_EQ(traffic_class_of(ipv4(0x6b, 0xb626, 0x66)), 0x6b);  // what is before it may look like IPv6
}

TEST(PingMessage, TrafficClassOfIpv6) {
  std::array<uint8_t, kGrhBytes> grh{};
  grh[0] = 0x66;
  grh[1] = 0xaf;
  EXPECT_EQ(traffic_class_of(grh), 0x6a);
  // An address whose bytes look like an IPv4 header, but for its checksum.
  auto misleading = ipv4(0x10, 0x1234, 0);
  misleading[0] = 0x60;
  misleading[1] = 0x20;
  EXPECT_EQ(traffic_class_of(misleading), 0x02);
}

}  // namespace
}  // namespace uroce::ping
