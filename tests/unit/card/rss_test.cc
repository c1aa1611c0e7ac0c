// The Toeplitz hash against the rows of Microsoft's RSS verification suite, and the checksum unit against RFC 1071.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "pmd/card/checksum.h"
#include "pmd/card/copy.h"
#include "pmd/card/rss.h"

namespace mqnic::card {
namespace {

struct Row {
  std::vector<uint8_t> input;  // source address, destination address, source port, destination port
  uint32_t addresses, with_ports;
};

// Key 6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa.
const Row kVerificationSuite[] = {
    {{66, 9, 149, 187, 161, 142, 100, 80, 2794 >> 8, 2794 & 255, 1766 >> 8, 1766 & 255}, 0x323e8fc2, 0x51ccc178},
    {{199, 92, 111, 2, 65, 69, 140, 83, 14230 >> 8, 14230 & 255, 4739 >> 8, 4739 & 255}, 0xd718262a, 0xc626b0ea},
    {{24, 19, 198, 95, 12, 22, 207, 184, 12898 >> 8, 12898 & 255, 38024 >> 8, 38024 & 255}, 0xd2d0a5de, 0x5c2b394a},
    {{38, 27, 205, 30, 209, 142, 163, 6, 48228 >> 8, 48228 & 255, 2217 >> 8, 2217 & 255}, 0x82989176, 0xafc7327f},
    {{153, 39, 163, 191, 202, 188, 127, 2, 44251 >> 8, 44251 & 255, 1303 >> 8, 1303 & 255}, 0x5d1809c5, 0x10e828a2},
};

TEST(Toeplitz, VerificationSuite) {
  for (const Row& row : kVerificationSuite) {
    EXPECT_EQ(toeplitz(std::span(row.input).first(8)), row.addresses);
    EXPECT_EQ(toeplitz(row.input), row.with_ports);
  }
}

TEST(Toeplitz, OfFrames) {
  for (const Row& row : kVerificationSuite) {
    std::vector<uint8_t> frame(26, 0);
    frame[12] = 0x08;
    frame[14] = 0x45;
    frame.insert(frame.end(), row.input.begin(), row.input.end());
    for (const uint8_t protocol : std::vector<uint8_t>{6, 17, 50}) {
      frame[23] = protocol;
      const FrameHash hash = hash_frame(frame);
      EXPECT_EQ(hash.value, protocol == 50 ? row.addresses : row.with_ports);
      EXPECT_EQ(hash.type, protocol == 6 ? 0x05 : protocol == 17 ? 0x09 : 0x01);
    }
  }
}

TEST(Toeplitz, ShortFramesHaveNone) {
  std::vector<uint8_t> frame(60, 0x11);
  frame[12] = 0x08;
  frame[13] = 0x00;
  frame[14] = 0x45;
  frame[23] = 17;
  for (size_t bytes = 0; bytes < 38; ++bytes) {
    const FrameHash hash = hash_frame(std::span(frame).first(bytes));
    EXPECT_EQ(hash.value, 0u) << bytes;
    EXPECT_EQ(hash.type, 0) << bytes;
  }
  EXPECT_EQ(hash_frame(std::span(frame).first(38)).type, 0x09);
  frame[23] = 1;
  EXPECT_EQ(hash_frame(std::span(frame).first(33)).type, 0);
  EXPECT_EQ(hash_frame(std::span(frame).first(34)).type, 0x01);
}

TEST(OnesComplementSum, KnownSums) {
  EXPECT_EQ(ones_complement_sum({}), 0);
  // RFC 1071, section 3: 0001 f203 f4f5 f6f7.
  const std::vector<uint8_t> rfc = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
  EXPECT_EQ(ones_complement_sum(rfc), 0xddf2);
  const std::vector<uint8_t> odd = {0x12, 0x34, 0x56};
  EXPECT_EQ(ones_complement_sum(odd), 0x6834);
  const std::vector<uint8_t> ones(70000, 0xff);
  EXPECT_EQ(ones_complement_sum(ones), 0xffff);
}

TEST(OnesComplementSum, EveryLengthAndAlignment) {
  std::vector<uint8_t> bytes(300);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 31 + 7);
  for (size_t from = 0; from < 9; ++from) {
    for (size_t count = 0; count < 280; ++count) {
      uint32_t sum = 0;
      for (size_t i = 0; i < count; ++i) sum += i % 2 == 0 ? bytes[from + i] * 256u : bytes[from + i];
      while (sum > 0xffff) sum = sum % 0x10000 + sum / 0x10000;
      ASSERT_EQ(ones_complement_sum(std::span(bytes).subspan(from, count)), sum) << from << " " << count;
    }
  }
}

// The copy that sums as it copies: it copies all, writes nothing outside, and its sum is that of the bytes. Some
// lengths are below and some above the one from which it uses wide registers.
TEST(Copies, EveryLengthAndAlignment) {
  std::mt19937 random(3);
  std::vector<uint8_t> from(1200);
  for (uint8_t& byte : from) byte = static_cast<uint8_t>(random() % 4 == 0 ? 0xff : random());
  std::vector<uint8_t> to(from.size() + 32);
  for (size_t count = 0; count < 1100; count += count < 300 ? 1 : 7) {
    const size_t at = random() % 16, into = random() % 16;
    const std::span<const uint8_t> source = std::span(from).subspan(at, count);
    const auto check = [&] {
      ASSERT_TRUE(std::equal(source.begin(), source.end(), to.begin() + static_cast<ptrdiff_t>(into))) << count;
      for (size_t i = 0; i < to.size(); ++i) {
        if (i < into || i >= into + count) {
          ASSERT_EQ(to[i], 0x5a) << count << " " << i;
        }
      }
    };
    std::fill(to.begin(), to.end(), uint8_t{0x5a});
    const uint64_t sum = copy_and_sum(to.data() + into, source.data(), count);
    check();
    EXPECT_EQ(network_sum(sum), ones_complement_sum(source)) << count;
    EXPECT_EQ(sum, sum_words(source.data(), count)) << count;
    std::fill(to.begin(), to.end(), uint8_t{0x5a});
    copy_bytes(to.data() + into, source.data(), count);
    check();
  }
}

TEST(FrameHasher, SaysWhatItWouldSayWithoutItsMemory) {
  std::mt19937 random(4);
  FrameHasher hasher;
  std::vector<uint8_t> frame(64);
  for (unsigned round = 0; round < 100000; ++round) {
    if (random() % 50 == 0) {  // an IPv4 header from time to time, so that all kinds occur
      frame[12] = 0x08;
      frame[13] = 0;
      frame[14] = 0x45;
      frame[23] = random() % 2 == 0 ? 6 : 17;
    }
    if (random() % 2 == 0) frame[12 + random() % 28] = static_cast<uint8_t>(random());
    const std::span<const uint8_t> part = std::span(frame).first(random() % 4 == 0 ? random() % 65 : 64);
    const FrameHash expected = hash_frame(part), seen = hasher.hash(part);
    ASSERT_EQ(seen.value, expected.value) << round;
    ASSERT_EQ(seen.type, expected.type) << round;
  }
}

}  // namespace
}  // namespace mqnic::card
