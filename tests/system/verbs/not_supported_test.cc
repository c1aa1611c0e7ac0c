// Every entry point that is not there: EOPNOTSUPP, and the program goes on.
#include <dlfcn.h>

#include <cerrno>
#include <climits>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

class NotSupportedTest : public PairTest {
 protected:
  void SetUp() override { make_pair(); }
};

#define EXPECT_REFUSED_POINTER(call) \
  do {                               \
    errno = 0;                       \
    EXPECT_EQ((call), nullptr);      \
    EXPECT_EQ(errno, EOPNOTSUPP);    \
  } while (0)

/// NCCL probes for the call in this way at each start: no line for that. A program that means the call gets one line.
TEST_F(NotSupportedTest, Symbols) {
  testing::internal::CaptureStderr();
  EXPECT_REFUSED_POINTER(ibv_reg_dmabuf_mr(pd_.get(), 0, 0, 0, -1, 0));
  EXPECT_REFUSED_POINTER(ibv_reg_dmabuf_mr(pd_.get(), 0, 4096, 0, INT_MAX, 0));  // not open
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  EXPECT_REFUSED_POINTER(ibv_reg_dmabuf_mr(pd_.get(), 0, 4096, 0, 0, 0));
  EXPECT_REFUSED_POINTER(ibv_reg_dmabuf_mr(pd_.get(), 0, 4096, 0, 0, 0));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "uroce: ibv_reg_dmabuf_mr is not supported (EOPNOTSUPP)\n");
}

TEST_F(NotSupportedTest, Operations) {
  ibv_flow_action_esp_attr esp{};
  EXPECT_REFUSED_POINTER(ibv_create_flow_action_esp(device(), &esp));
}

TEST_F(NotSupportedTest, SharedReceiveQueuesOfOtherKinds) {
  ibv_srq_init_attr_ex attr{};
  attr.attr = {8, 1, 0};
  attr.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
  attr.pd = pd_.get();
  attr.srq_type = static_cast<ibv_srq_type>(IBV_SRQT_TM + 1);
  EXPECT_REFUSED_POINTER(ibv_create_srq_ex(device(), &attr));
  attr.srq_type = IBV_SRQT_BASIC;
  Owned<ibv_srq> srq(ibv_create_srq_ex(device(), &attr));
  ASSERT_NE(srq, nullptr);
  uint32_t number = 0;
  EXPECT_EQ(ibv_get_srq_num(srq.get(), &number), EINVAL);  // only XRC queues have one
}

TEST_F(NotSupportedTest, SymbolsOfTheFirstRelease) {
  using Anything = void* (*)();
  for (const char* name : {"ibv_open_device", "ibv_get_device_list", "ibv_create_qp", "ibv_reg_mr", "ibv_alloc_pd"}) {
    const auto function = reinterpret_cast<Anything>(dlvsym(RTLD_DEFAULT, name, "IBVERBS_1.0"));
    ASSERT_NE(function, nullptr) << name;
    EXPECT_REFUSED_POINTER(function());
  }
}

TEST_F(NotSupportedTest, SymbolsOfLaterReleases) {
  using Anything = void* (*)(void*, void*);
  const auto handle = reinterpret_cast<Anything>(dlvsym(RTLD_DEFAULT, "ibv_alloc_dmah", "IBVERBS_1.15"));
  ASSERT_NE(handle, nullptr);
  EXPECT_REFUSED_POINTER(handle(nullptr, nullptr));
  const auto dmabuf =
      reinterpret_cast<int (*)(ibv_dm*)>(dlvsym(RTLD_DEFAULT, "ibv_dm_export_dmabuf_fd", "IBVERBS_1.16"));
  ASSERT_NE(dmabuf, nullptr);
  errno = 0;
  EXPECT_EQ(dmabuf(nullptr), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  const auto speed = reinterpret_cast<int (*)(ibv_context*, uint32_t, uint64_t*)>(
      dlvsym(RTLD_DEFAULT, "ibv_query_port_speed", "IBVERBS_1.16"));
  ASSERT_NE(speed, nullptr);
  uint64_t value = 0;
  EXPECT_EQ(speed(device(), 1, &value), 0);
  EXPECT_GT(value, 0u);
}

}  // namespace
