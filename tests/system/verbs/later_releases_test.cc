// What programs find that were built with later releases of rdma-core than the one installed here.
#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

// As release 64 has them.
struct MrInitAttr {
  size_t length;
  int access;
  uint64_t comp_mask;
  uint64_t iova;
  void* addr;
  int fd;
  uint64_t fd_offset;
  void* dmah;
  void* buf;
};
constexpr uint64_t kIova = 1;
constexpr uint64_t kAddr = 2;
constexpr uint64_t kFd = 4;
constexpr uint64_t kFdOffset = 8;
constexpr uint64_t kDmah = 16;
constexpr uint64_t kBuf = 32;

template <typename Function>
Function symbol(const char* name, const char* node) {
  void* found = dlvsym(RTLD_DEFAULT, name, node);
  EXPECT_NE(found, nullptr) << name;
  return reinterpret_cast<Function>(found);
}

class LaterReleasesTest : public PairTest {
 protected:
  ibv_mr* reg(MrInitAttr attr) {
    errno = 0;
    return symbol<ibv_mr* (*)(ibv_pd*, MrInitAttr*)>("ibv_reg_mr_ex", "IBVERBS_1.15")(pd_.get(), &attr);
  }
  int refused(const MrInitAttr& attr) {
    EXPECT_EQ(reg(attr), nullptr);
    return errno;
  }
  void write_to(ibv_mr* mr, uint64_t addr, const uint8_t* memory) {
    make_pair();
    a_.fill(6);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {addr, mr->rkey};
    ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 32)), 0);
    EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
    EXPECT_TRUE(std::equal(a_.data(), a_.data() + 32, memory));
  }
};

TEST_F(LaterReleasesTest, ARegionByItsAttributes) {
  uint8_t bytes[64] = {};
  const Owned<ibv_mr> plain(reg({64, kAllAccess, kAddr, 0, bytes, 0, 0, nullptr, nullptr}));
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(plain->addr, bytes);
  EXPECT_EQ(plain->length, 64u);
  write_to(plain.get(), reinterpret_cast<uint64_t>(bytes), bytes);
  uint8_t more[64] = {};
  const Owned<ibv_mr> moved(reg({64, kAllAccess, kAddr | kIova, 0x7000, more, 0, 0, nullptr, nullptr}));
  ASSERT_NE(moved, nullptr);
  write_to(moved.get(), 0x7000, more);
}

TEST_F(LaterReleasesTest, AttributesThatDoNotFit) {
  uint8_t bytes[64];
  MrInitAttr attr{64, kAllAccess, kAddr, 0, bytes, 0, 0, nullptr, nullptr};
  attr.comp_mask = 0;
  EXPECT_EQ(refused(attr), EINVAL);  // no memory
  attr.comp_mask = kAddr | kFd;
  EXPECT_EQ(refused(attr), EINVAL);
  attr.comp_mask = kFd | kFdOffset;
  EXPECT_EQ(refused(attr), EOPNOTSUPP);  // a dma-buf
  attr.comp_mask = kAddr | kDmah;
  EXPECT_EQ(refused(attr), EINVAL);
  attr.comp_mask = kAddr | (uint64_t{1} << 40);
  EXPECT_EQ(refused(attr), EOPNOTSUPP);
  attr.comp_mask = kAddr;
  attr.access = IBV_ACCESS_REMOTE_WRITE;
  EXPECT_EQ(refused(attr), EINVAL);
}

TEST_F(LaterReleasesTest, ABufferOfTheDevice) {
  const auto alloc = symbol<void* (*)(ibv_pd*, size_t, void**)>("ibv_alloc_buf", "IBVERBS_1.17");
  const auto free_buf = symbol<void (*)(void*)>("ibv_free_buf", "IBVERBS_1.17");
  const auto reg_buf = symbol<ibv_mr* (*)(ibv_pd*, void*, void*, size_t, int)>("ibv_reg_buf_mr", "IBVERBS_1.17");
  void* buf = nullptr;
  auto* memory = static_cast<uint8_t*>(alloc(pd_.get(), 10000, &buf));
  ASSERT_NE(memory, nullptr);
  ASSERT_NE(buf, nullptr);
  {
    const Owned<ibv_mr> mr(reg_buf(pd_.get(), buf, memory + 100, 9900, kAllAccess));
    ASSERT_NE(mr, nullptr);
    write_to(mr.get(), reinterpret_cast<uint64_t>(memory + 100), memory + 100);
  }
  errno = 0;
  EXPECT_EQ(reg_buf(pd_.get(), buf, memory + 100, 9901, kAllAccess), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(reg_buf(pd_.get(), buf, memory - 1, 10, kAllAccess), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(reg_buf(pd_.get(), buf, memory + 10001, 0, kAllAccess), nullptr);
  EXPECT_EQ(errno, EINVAL);
  const Owned<ibv_pd> other(ibv_alloc_pd(device()));
  EXPECT_EQ(reg_buf(other.get(), buf, memory, 10, kAllAccess), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(refused({8, kAllAccess, kBuf, 0, memory, 0, 0, nullptr, buf}), EINVAL);
  EXPECT_EQ(refused({8, kAllAccess, kBuf | kAddr | kFd, 0, memory, 0, 0, nullptr, buf}), EINVAL);
  free_buf(buf);
  free_buf(nullptr);
  errno = 0;
  EXPECT_EQ(alloc(pd_.get(), 0, &buf), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(alloc(pd_.get(), SIZE_MAX, &buf), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

/// In units of 100 Mb/s, and the same as by the port's width and lanes.
TEST_F(LaterReleasesTest, SpeedOfAPort) {
  const auto query = symbol<int (*)(ibv_context*, uint32_t, uint64_t*)>("ibv_query_port_speed", "IBVERBS_1.16");
  struct {
    ibv_port_attr v44;
    uint32_t active_speed_ex;
  } port;
  std::memset(static_cast<void*>(&port), 0xff, sizeof port);
  ASSERT_EQ(verbs_get_ctx(device())->query_port(device(), 1, &port.v44, sizeof port), 0);
  EXPECT_EQ(port.active_speed_ex, 0u);  // 0: active_speed tells it; otherwise for speeds such as XDR
  uint64_t speed = 0;
  ASSERT_EQ(query(device(), 1, &speed), 0);
  const struct {
    uint8_t code;
    uint64_t lane;
  } kLanes[] = {{1, 25}, {2, 50}, {4, 100}, {32, 250}, {64, 500}, {128, 1000}};
  uint64_t said = 0;
  for (const auto& lane : kLanes) {
    if (lane.code == port.v44.active_speed) said = lane.lane * (port.v44.active_width == 2 ? 4 : 1);
  }
  EXPECT_GT(speed, 0u);
  EXPECT_LE(speed, said);  // the code is the slowest that is not slower
  for (const uint32_t absent : {0u, 2u, 256u}) {
    errno = 0;
    EXPECT_EQ(query(device(), absent, &speed), EINVAL);
    EXPECT_EQ(errno, EINVAL);
  }
}

/// A guest with encrypted memory has devices that need bounce buffers; this device is a part of the program.
TEST_F(LaterReleasesTest, NoBounceBuffers) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(device(), nullptr, &attr), 0);
  EXPECT_EQ(attr.device_cap_flags_ex & uint64_t{1} << 41, 0u);
  ibv_parent_domain_init_attr init{};
  init.pd = pd_.get();
  init.comp_mask = 1 << 2;
  const Owned<ibv_pd> parent(ibv_alloc_parent_domain(device(), &init));
  ASSERT_NE(parent, nullptr);
  init.comp_mask = 1 << 3;
  errno = 0;
  EXPECT_EQ(ibv_alloc_parent_domain(device(), &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
