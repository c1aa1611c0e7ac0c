// Programs that map memory at fixed addresses, over whatever is there: DPDK's memory must be somewhere else.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <ostream>

namespace {

struct Range {
  const char* owner;
  uint64_t from;
  uint64_t bytes;
};

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr Range kRanges[] = {
    {"OpenSHMEM's heap", 0xff000000, 4 * kGiB}, {"Java's compressed heap and classes", 8 * kGiB, 28 * kGiB},
    {"SBCL's heap", 64 * kGiB, 8 * kGiB},       {"GHC's heap", 264 * kGiB, 64 * kGiB},
    {"Go's heap", 768 * kGiB, 64 * kGiB},
};

/// Reserves addresses without memory. MAP_FIXED_NOREPLACE fails where something is mapped.
bool map(const Range& range) {
  void* const wanted = reinterpret_cast<void*>(range.from);
  return mmap(wanted, range.bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) == wanted;
}

/// Does something with the device, so that memory of DPDK's is used.
void use_device(ibv_context*& context) {
  ibv_device** const list = ibv_get_device_list(nullptr);
  ASSERT_NE(list, nullptr);
  ASSERT_NE(list[0], nullptr);
  context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  ASSERT_NE(context, nullptr);
  ibv_cq* const cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST(FixedAddressesTest, AfterTheDevice) {
  ibv_context* context = nullptr;
  ASSERT_NO_FATAL_FAILURE(use_device(context));
  for (const Range& range : kRanges) EXPECT_TRUE(map(range)) << range.owner;
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(FixedAddressesTest, BeforeTheDevice) {
  for (const Range& range : kRanges) {
    ASSERT_TRUE(map(range)) << range.owner;
    std::memset(reinterpret_cast<void*>(range.from), 0x5a, 4096);
  }
  ibv_context* context = nullptr;
  ASSERT_NO_FATAL_FAILURE(use_device(context));
  for (const Range& range : kRanges) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(range.from);
    EXPECT_TRUE(bytes[0] == 0x5a && bytes[4095] == 0x5a) << range.owner;
  }
  EXPECT_EQ(ibv_close_device(context), 0);
}

}  // namespace
