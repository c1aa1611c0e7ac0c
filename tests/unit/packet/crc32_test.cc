// Every kernel against zlib, for every length that a packet can have, at random alignments and from random states.
#include "packet/crc32.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "fault_recovery.h"
#include "mapped.h"
#include "packet/crc32_math.h"

namespace uroce {
namespace {

constexpr size_t kLongest = 4400;
constexpr size_t kMargin = 128;
constexpr uint8_t kUntouched = 0xa5;

constexpr CrcKernel kAll[] = {CrcKernel::kTable, CrcKernel::kPclmul, CrcKernel::kVpclmul, CrcKernel::kVpclmul512};

uint32_t zlib_update(uint32_t state, const uint8_t* data, size_t bytes) {
  return ~static_cast<uint32_t>(crc32(~state, data, static_cast<uInt>(bytes)));
}

std::vector<uint8_t> random_bytes(size_t bytes, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<uint8_t> v(bytes);
  for (uint8_t& b : v) b = static_cast<uint8_t>(random.next_u32());
  return v;
}

class Crc32Kernel : public testing::TestWithParam<CrcKernel> {
 protected:
  void SetUp() override {
    if (!crc32_kernel_supported(GetParam())) GTEST_SKIP() << "this CPU cannot run it";
    functions_ = crc32_functions(GetParam());
  }
  CrcFunctions functions_{};
};

TEST_P(Crc32Kernel, CheckValue) {
  constexpr std::string_view kText = "123456789";
  EXPECT_EQ(crc32_final(functions_.update(kCrcInit, kText.data(), kText.size())), 0xCBF43926u);
  EXPECT_EQ(crc32_final(functions_.update(kCrcInit, nullptr, 0)), 0u);
}

TEST_P(Crc32Kernel, UpdateAgreesWithZlib) {
  const std::vector<uint8_t> data = random_bytes(kLongest + kMargin, 1);
  SeededRandom random(2);
  for (size_t bytes = 0; bytes <= kLongest; bytes++) {
    for (int repeat = 0; repeat < 3; repeat++) {
      const uint8_t* at = data.data() + random.below(kMargin);
      const uint32_t state = random.next_u32();
      ASSERT_EQ(functions_.update(state, at, bytes), zlib_update(state, at, bytes)) << bytes << " bytes";
    }
  }
}

TEST_P(Crc32Kernel, CopyAgreesWithZlibAndWritesNothingElse) {
  const std::vector<uint8_t> data = random_bytes(kLongest + kMargin, 3);
  std::vector<uint8_t> copy(kLongest + 2 * kMargin);
  SeededRandom random(4);
  for (size_t bytes = 0; bytes <= kLongest; bytes++) {
    const uint8_t* from = data.data() + random.below(kMargin);
    const size_t offset = random.below(kMargin);
    const uint32_t state = random.next_u32();
    std::fill(copy.begin(), copy.end(), kUntouched);
    const auto begin = copy.begin() + static_cast<std::ptrdiff_t>(offset);
    const auto end = begin + static_cast<std::ptrdiff_t>(bytes);
    ASSERT_EQ(functions_.copy(state, &*begin, from, bytes), zlib_update(state, from, bytes)) << bytes << " bytes";
    ASSERT_TRUE(std::equal(begin, end, from)) << bytes << " bytes";
    ASSERT_TRUE(std::all_of(copy.begin(), begin, [](uint8_t b) { return b == kUntouched; })) << bytes << " bytes";
    ASSERT_TRUE(std::all_of(end, copy.end(), [](uint8_t b) { return b == kUntouched; })) << bytes << " bytes";
  }
}

TEST_P(Crc32Kernel, ReadsNothingBehindExactlySizedMemory) {
  // Under the address sanitizer this fails when a kernel reads outside; without it, it still compares.
  for (size_t bytes = 1; bytes <= 700; bytes++) {
    const std::vector<uint8_t> data = random_bytes(bytes, bytes);
    std::vector<uint8_t> copy(bytes);
    const uint32_t expected = zlib_update(kCrcInit, data.data(), bytes);
    ASSERT_EQ(functions_.update(kCrcInit, data.data(), bytes), expected) << bytes;
    ASSERT_EQ(functions_.copy(kCrcInit, copy.data(), data.data(), bytes), expected) << bytes;
    ASSERT_EQ(copy, data);
  }
}

TEST_P(Crc32Kernel, PiecesGiveTheSameAsTheWhole) {
  const std::vector<uint8_t> data = random_bytes(kLongest, 5);
  SeededRandom random(6);
  for (int repeat = 0; repeat < 2000; repeat++) {
    uint32_t state = kCrcInit;
    for (size_t at = 0; at < data.size();) {
      const size_t bytes = std::min<size_t>(random.below(repeat % 2 == 0 ? 40 : 1500), data.size() - at);
      state = functions_.update(state, data.data() + at, bytes);
      at += bytes;
    }
    ASSERT_EQ(state, zlib_update(kCrcInit, data.data(), data.size()));
  }
}

TEST_P(Crc32Kernel, LongMessages) {
  const std::vector<uint8_t> data = random_bytes(1 << 20, 7);
  std::vector<uint8_t> copy(data.size());
  for (const size_t less : {0, 1, 15, 16, 17, 255, 4097}) {
    const size_t bytes = data.size() - less;
    EXPECT_EQ(functions_.update(kCrcInit, data.data(), bytes), zlib_update(kCrcInit, data.data(), bytes));
    EXPECT_EQ(functions_.copy(kCrcInit, copy.data(), data.data(), bytes), zlib_update(kCrcInit, data.data(), bytes));
    EXPECT_TRUE(std::equal(copy.begin(), copy.begin() + static_cast<std::ptrdiff_t>(bytes), data.begin()));
  }
}

TEST_P(Crc32Kernel, HeadersAreMaskedAsTheByteWiseDefinitionSays) {
  SeededRandom random(8);
  for (int repeat = 0; repeat < 5000; repeat++) {
    const std::vector<uint8_t> l3 = random_bytes(60, random.next_u64());
    for (const bool ipv6 : {false, true}) {
      const size_t ip_bytes = ipv6 ? 40 : 20;
      std::vector<uint8_t> masked(8, 0xff);
      masked.insert(masked.end(), l3.begin(), l3.begin() + static_cast<std::ptrdiff_t>(ip_bytes + 20));
      uint8_t* ip = masked.data() + 8;
      if (ipv6) {
        ip[0] |= 0x0f;
        ip[1] = ip[2] = ip[3] = ip[7] = 0xff;
      } else {
        ip[1] = ip[8] = ip[10] = ip[11] = 0xff;
      }
      ip[ip_bytes + 6] = ip[ip_bytes + 7] = ip[ip_bytes + 12] = 0xff;
      // Of exactly its size, so that the address sanitizer sees a read behind the headers.
      const std::vector<uint8_t> exact(l3.begin(), l3.begin() + static_cast<std::ptrdiff_t>(ip_bytes + 20));
      ASSERT_EQ(functions_.icrc_header(exact.data(), ipv6), zlib_update(kCrcInit, masked.data(), masked.size()));
    }
  }
}

/// Copies reach up to the end of the mapping, and not a byte further; beyond it they throw.
TEST_P(Crc32Kernel, CopyIsGuarded) {
  const test::FaultRecovery recovery;
  test::Mapped memory(3 * test::kPage);
  memory.protect(PROT_NONE, 2 * test::kPage);
  uint8_t* const end = memory.data() + 2 * test::kPage;
  std::vector<uint8_t> other = random_bytes(kLongest, 5);
  for (size_t bytes = 1; bytes <= kLongest; bytes += bytes < 700 ? 1 : 61) {
    const uint32_t state = functions_.copy(7, end - bytes, other.data(), bytes);
    ASSERT_EQ(state, zlib_update(7, other.data(), bytes)) << bytes;
    ASSERT_EQ(functions_.copy(7, other.data(), end - bytes, bytes), state) << bytes;
    for (const size_t missing : {size_t{1}, bytes / 2 + 1, bytes}) {
      uint8_t* const gone = end - (bytes - missing);
      ASSERT_THROW(functions_.copy(7, other.data(), gone, bytes), MemoryFault) << bytes << " bytes, " << missing;
      ASSERT_THROW(functions_.copy(7, gone, other.data(), bytes), MemoryFault) << bytes << " bytes, " << missing;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Crc32Kernel, testing::ValuesIn(kAll),
                         [](const auto& test) { return std::string(crc32_kernel_name(test.param)); });

TEST(Crc32, TheTableNeedsNothing) { EXPECT_TRUE(crc32_kernel_supported(CrcKernel::kTable)); }

TEST(Crc32, TheOneInUseIsSupportedAndIsTheFastestOfThem) {
  const CrcKernel in_use = crc32_kernel_in_use();
  EXPECT_TRUE(crc32_kernel_supported(in_use));
  for (const CrcKernel kernel : kAll) {
    EXPECT_TRUE(!crc32_kernel_supported(kernel) || in_use >= kernel);
  }
}

TEST(Crc32, DispatchedCallsAgreeWithZlib) {
  const std::vector<uint8_t> data = random_bytes(kLongest, 9);
  std::vector<uint8_t> copy(data.size());
  for (size_t bytes = 0; bytes <= kLongest; bytes += 37) {
    const uint32_t expected = zlib_update(kCrcInit, data.data(), bytes);
    ASSERT_EQ(crc32_update(kCrcInit, data.data(), bytes), expected);
    ASSERT_EQ(crc32_copy(kCrcInit, copy.data(), data.data(), bytes), expected);
  }
}

// The constants, compared with long multiplication.

/// Reflected: bit i is the coefficient of x^(31-i).
uint32_t multiply_mod_p(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (int i = 0; i < 32; i++) {  // from x^31 of a down: product = product * x + bit * b
    product = (product >> 1) ^ ((product & 1) != 0 ? crc::kReflectedPoly : 0);
    if ((a >> i & 1) != 0) product ^= b;
  }
  return product;
}

TEST(Crc32Math, PowersMultiply) {
  EXPECT_EQ(crc::x_power(0), 0x80000000u);
  EXPECT_EQ(crc::x_power(31), 1u);
  EXPECT_EQ(crc::x_power(32), crc::kReflectedPoly);
  for (unsigned a = 0; a < 300; a += 7) {
    for (unsigned b = 0; b < 300; b += 11) {
      ASSERT_EQ(multiply_mod_p(crc::x_power(a), crc::x_power(b)), crc::x_power(a + b)) << a << "+" << b;
    }
  }
}

TEST(Crc32Math, MuIsTheQuotient) {
  // mu * P = x^95 + terms below x^32, computed in plain bit order with 128-bit words.
  using Wide = unsigned __int128;
  uint64_t mu = 0;
  for (int i = 0; i < 64; i++) mu |= (crc::make_mu() >> i & 1) << (63 - i);
  const uint64_t p = 0x104C11DB7u;
  Wide product = 0;
  for (int i = 0; i < 33; i++) {
    if ((p >> i & 1) != 0) product ^= Wide{mu} << i;
  }
  EXPECT_EQ(static_cast<uint64_t>(product >> 32), uint64_t{1} << 63);
}

}  // namespace
}  // namespace uroce
