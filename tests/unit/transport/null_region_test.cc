// Regions without memory: only for elements of our own.
#include <gmock/gmock.h>

#include <algorithm>

#include "rig.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;

TEST(NullRegion, WhatIsSentFromItIsZeros) {
  Rig rig;
  const uint32_t key = rig.engine().memory().register_null(rig.pd());
  ASSERT_NE(key, 0u);
  SendWr wr = rig.send_wr(16);
  const Sge sge{0xdead'beef'0000'0000, 16, key};
  wr.sges = &sge;
  ASSERT_EQ(rig.post(wr), PostResult::kOk);
  const std::vector<Bytes> frames = rig.sent_frames();
  ASSERT_EQ(frames.size(), 1u);
  const auto payload = frames[0].end() - 16 - 4;
  EXPECT_TRUE(std::all_of(payload, payload + 16, [](uint8_t byte) { return byte == 0; }));
}

TEST(NullRegion, WhatIsReceivedIntoItIsGone) {
  Rig rig;
  const uint32_t key = rig.engine().memory().register_null(rig.pd());
  const Sge sge{UINT64_MAX - 2000, 1000, key};
  ASSERT_EQ(rig.engine().post_recv(rig.qp(), {7, &sge, 1}, rig.now()), PostResult::kOk);
  rig.arrive(send(kOpSendOnly, 0x100, 200));
  EXPECT_THAT(rig.completed(), ElementsAre("recv 7: success, 200 bytes"));
}

TEST(NullRegion, IsNotForPeersNorForWindowsNorForOthers) {
  Rig rig;
  MemoryTable& memory = rig.engine().memory();
  const uint32_t key = memory.register_null(rig.pd());
  EXPECT_NE(memory.region(key), nullptr);
  EXPECT_FALSE(memory.reregister(key, rig.pd(), nullptr, 0, 0, kLocalWrite));
  const uint32_t window = memory.allocate_window(rig.pd(), false);
  EXPECT_EQ(memory.region(window), nullptr);
  MwBind bind;
  bind.mw_rkey = bind.new_rkey = window;
  bind.mr_lkey = key;
  bind.length = 8;
  bind.access = kRemoteRead;
  EXPECT_EQ(memory.bind_window(bind, rig.pd(), 1), 0u);
  uint8_t* place = nullptr;
  EXPECT_EQ(memory.check(key, rig.pd(), 0, 8, 0, 0, place), AccessCheck::kNull);
  EXPECT_EQ(memory.check(key, rig.pd() + 1, 0, 8, 0, 0, place), AccessCheck::kBadPd);
  for (const uint32_t rights : {uint32_t{kRemoteRead}, uint32_t{kRemoteWrite}, uint32_t{kRemoteAtomic}}) {
    EXPECT_EQ(memory.check(key, rig.pd(), 0, 8, rights, 0, place), AccessCheck::kBadRights);
  }
  rig.arrive(write(kOpWriteOnly, 0x100, 0, key, 8, 8));
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000100 remote access error msn 0"));
  EXPECT_TRUE(memory.deregister(key));
  EXPECT_FALSE(memory.deregister(key));
  EXPECT_EQ(memory.region(key), nullptr);
}

}  // namespace
}  // namespace uroce::test
