// Device memory: allocated, copied to and from, registered, used by peers.
#include <cerrno>
#include <numeric>
#include <tuple>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

constexpr unsigned kZeroBased = unsigned{kAllAccess} | IBV_ACCESS_ZERO_BASED;

struct FreeDm {
  void operator()(ibv_dm* dm) const { EXPECT_EQ(ibv_free_dm(dm), 0); }
};
using OwnedDm = std::unique_ptr<ibv_dm, FreeDm>;

class DeviceMemoryTest : public PairTest {
 protected:
  static OwnedDm allocate(size_t length, uint32_t log_align = 0) {
    ibv_alloc_dm_attr attr{length, log_align, 0};
    errno = 0;
    return OwnedDm(ibv_alloc_dm(device(), &attr));
  }
  ibv_wc one_sided(ibv_send_wr wr, uint64_t remote, uint32_t rkey, const ibv_sge& sge) {
    wr.send_flags = IBV_SEND_SIGNALED;
    if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      wr.wr.atomic.remote_addr = remote;
      wr.wr.atomic.rkey = rkey;
    } else {
      wr.wr.rdma = {remote, rkey};
    }
    EXPECT_EQ(post_send(left_.get(), wr, sge), 0);
    return poll(cq_.get(), 1)[0];
  }
};

TEST_F(DeviceMemoryTest, BytesGoInAndOut) {
  const OwnedDm dm = allocate(1000, 6);
  ASSERT_NE(dm, nullptr);
  EXPECT_EQ(dm->comp_mask, uint32_t{IBV_DM_MASK_HANDLE});
  std::vector<uint8_t> in(1000);
  std::iota(in.begin(), in.end(), uint8_t{1});
  std::vector<uint8_t> out(1000, 0xee);
  ASSERT_EQ(ibv_memcpy_from_dm(out.data(), dm.get(), 0, 1000), 0);
  EXPECT_EQ(out, std::vector<uint8_t>(1000));  // no old data
  ASSERT_EQ(ibv_memcpy_to_dm(dm.get(), 8, in.data(), 500), 0);
  ASSERT_EQ(ibv_memcpy_from_dm(out.data(), dm.get(), 4, 508), 0);
  EXPECT_EQ(out[3], 0);
  EXPECT_TRUE(std::equal(in.begin(), in.begin() + 500, out.begin() + 4));
  EXPECT_EQ(out[504], 0);
}

/// As on cards, whose memory is copied by words.
TEST_F(DeviceMemoryTest, CopiesAreOfWholeWords) {
  const OwnedDm dm = allocate(1000);
  ASSERT_NE(dm, nullptr);
  uint8_t bytes[1004] = {};
  for (const auto& [offset, length, error] : {std::tuple<uint64_t, size_t, int>{0, 4, 0},
                                              {996, 4, 0},
                                              {1000, 0, 0},
                                              {4, 0, 0},
                                              {1, 4, EINVAL},
                                              {2, 4, EINVAL},
                                              {3, 1, EINVAL},
                                              {4, 1, EINVAL},
                                              {4, 6, EINVAL},
                                              {997, 3, EINVAL},
                                              {997, 4, EFAULT},  // the range is checked first
                                              {1001, 0, EFAULT},
                                              {999, 2, EFAULT}}) {
    EXPECT_EQ(ibv_memcpy_to_dm(dm.get(), offset, bytes, length), error) << offset << " " << length;
    EXPECT_EQ(ibv_memcpy_from_dm(bytes, dm.get(), offset, length), error) << offset << " " << length;
  }
}

TEST_F(DeviceMemoryTest, CopiesThatDoNotFit) {
  const OwnedDm dm = allocate(100);
  uint8_t bytes[200] = {};
  EXPECT_EQ(ibv_memcpy_to_dm(dm.get(), 0, bytes, 101), EFAULT);
  EXPECT_EQ(ibv_memcpy_to_dm(dm.get(), 100, bytes, 1), EFAULT);
  EXPECT_EQ(ibv_memcpy_to_dm(dm.get(), UINT64_MAX, bytes, 2), EFAULT);
  EXPECT_EQ(ibv_memcpy_from_dm(bytes, dm.get(), 50, SIZE_MAX), EFAULT);
  EXPECT_EQ(ibv_memcpy_to_dm(dm.get(), 0, nullptr, 8), EFAULT);
  EXPECT_EQ(ibv_memcpy_from_dm(nullptr, dm.get(), 0, 8), EFAULT);
  EXPECT_EQ(ibv_memcpy_to_dm(dm.get(), 100, nullptr, 0), 0);
}

TEST_F(DeviceMemoryTest, AsMuchAsTheDeviceSays) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(device(), nullptr, &attr), 0);
  ASSERT_EQ(attr.max_dm_size, 16u << 20);
  EXPECT_EQ(allocate(attr.max_dm_size + 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  {
    const OwnedDm all = allocate(attr.max_dm_size, 12);
    ASSERT_NE(all, nullptr);
    EXPECT_EQ(allocate(1), nullptr);
    EXPECT_EQ(errno, ENOMEM);
  }
  EXPECT_NE(allocate(attr.max_dm_size), nullptr);
  EXPECT_EQ(allocate(0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(allocate(64, 13), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_alloc_dm_attr unknown{64, 0, 1};
  EXPECT_EQ(ibv_alloc_dm(device(), &unknown), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(DeviceMemoryTest, PeersUseItByOffset) {
  make_pair();
  const OwnedDm dm = allocate(4096);
  const Owned<ibv_mr> mr(ibv_reg_dm_mr(pd_.get(), dm.get(), 64, 1024, kZeroBased));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, nullptr);
  EXPECT_EQ(mr->length, 1024u);
  a_.fill(8);
  ibv_send_wr write{};
  write.opcode = IBV_WR_RDMA_WRITE;
  EXPECT_EQ(one_sided(write, 8, mr->rkey, a_.sge(0, 1000)).status, IBV_WC_SUCCESS);
  std::vector<uint8_t> out(1000);
  ASSERT_EQ(ibv_memcpy_from_dm(out.data(), dm.get(), 64 + 8, 1000), 0);
  EXPECT_TRUE(std::equal(out.begin(), out.end(), a_.data()));
  // As the source, and as the place of a result.
  ibv_send_wr read{};
  read.opcode = IBV_WR_RDMA_READ;
  b_.fill(100);
  EXPECT_EQ(one_sided(read, b_.addr(), b_.rkey(), {0, 1024, mr->lkey}).status, IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_memcpy_from_dm(out.data(), dm.get(), 64, 1000), 0);
  EXPECT_TRUE(std::equal(out.begin(), out.end(), b_.data()));
}

TEST_F(DeviceMemoryTest, Atomics) {
  make_pair();
  const OwnedDm dm = allocate(64, 3);
  const Owned<ibv_mr> mr(ibv_reg_dm_mr(pd_.get(), dm.get(), 0, 64, kZeroBased));
  uint64_t word = 40;
  ASSERT_EQ(ibv_memcpy_to_dm(dm.get(), 16, &word, 8), 0);
  ibv_send_wr add{};
  add.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  add.wr.atomic.compare_add = 2;
  EXPECT_EQ(one_sided(add, 16, mr->rkey, a_.sge(0, 8)).status, IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_memcpy_from_dm(&word, dm.get(), 16, 8), 0);
  EXPECT_EQ(word, 42u);
  uint64_t before = 0;
  std::copy_n(a_.data(), 8, reinterpret_cast<uint8_t*>(&before));
  EXPECT_EQ(before, 40u);
}

TEST_F(DeviceMemoryTest, OutsideOfTheRegionIsRefused) {
  make_pair();
  const OwnedDm dm = allocate(4096);
  const Owned<ibv_mr> mr(ibv_reg_dm_mr(pd_.get(), dm.get(), 0, 1024, kZeroBased));
  ibv_send_wr write{};
  write.opcode = IBV_WR_RDMA_WRITE;
  EXPECT_EQ(one_sided(write, 1020, mr->rkey, a_.sge(0, 8)).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(DeviceMemoryTest, RegistrationsThatAreRefused) {
  const OwnedDm dm = allocate(4096);
  const auto refused = [&](uint64_t offset, size_t length, unsigned access) {
    errno = 0;
    EXPECT_EQ(ibv_reg_dm_mr(pd_.get(), dm.get(), offset, length, access), nullptr);
    return errno;
  };
  EXPECT_EQ(refused(0, 4096, kAllAccess), EINVAL);  // not zero based
  EXPECT_EQ(refused(1, 4096, kZeroBased), EINVAL);
  EXPECT_EQ(refused(UINT64_MAX, 2, kZeroBased), EINVAL);
  EXPECT_EQ(refused(0, 8, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(refused(0, 8, kZeroBased | IBV_ACCESS_ON_DEMAND), EINVAL);
  const Owned<ibv_mr> mr(ibv_reg_dm_mr(pd_.get(), dm.get(), 0, 4096, kZeroBased));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_free_dm(dm.get()), EBUSY);
  EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAllAccess),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
