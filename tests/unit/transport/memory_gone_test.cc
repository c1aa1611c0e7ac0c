// Registered memory that is not there any more when a packet needs it. The key is still good; the pages are not.
#include <gmock/gmock.h>

#include "fault_recovery.h"
#include "mapped.h"
#include "rig.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class MemoryGone : public testing::Test {
 protected:
  explicit MemoryGone(const RigOptions& options = {}) : rig_(options) {
    constexpr uint32_t kAll = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;
    key_ = rig_.engine().memory().register_region(rig_.pd(), memory_.data(), kBytes, memory_.addr(), kAll);
  }

  void take_away(size_t offset = 0) { memory_.protect(PROT_NONE, offset); }
  Sge sge(uint32_t bytes, uint32_t offset = 0) const { return {memory_.addr() + offset, bytes, key_}; }
  void receive(const Sge& sge) {
    ASSERT_EQ(rig_.engine().post_recv(rig_.qp(), {1, &sge, 1}, rig_.now()), PostResult::kOk);
  }
  PostResult post(SendWr wr, const Sge& sge) {
    wr.sges = &sge;
    wr.num_sge = 1;
    return rig_.post(wr);
  }

  static constexpr size_t kBytes = 2 * kPage;
  FaultRecovery recovery_;
  Mapped memory_{kBytes};
  Rig rig_;
  uint32_t key_ = 0;
};

TEST_F(MemoryGone, UnderAWrite) {
  take_away(kPage);
  rig_.arrive(write(kOpWriteFirst, 0x100, memory_.addr() + kPage - 256, key_, 400, 256));
  EXPECT_THAT(rig_.sent(), ElementsAre("ACK 000100 msn 0"));
  rig_.arrive(packet(kOpWriteLast, 0x101, 144));
  EXPECT_THAT(rig_.sent(), ElementsAre("NAK 000101 remote access error msn 0"));
  EXPECT_EQ(rig_.qp().state(), QpState::kErr);
  EXPECT_THAT(rig_.completed(), IsEmpty());
  for (uint32_t i = 0; i < 256; i++) ASSERT_EQ(memory_.data()[kPage - 256 + i], payload_byte(0x100, i));
}

TEST_F(MemoryGone, UnderASend) {
  receive(sge(1000));
  take_away();
  rig_.arrive(send(kOpSendOnly, 0x100, 100));
  EXPECT_THAT(rig_.sent(), ElementsAre("NAK 000100 remote operational error msn 0"));
  EXPECT_THAT(rig_.completed(), ElementsAre("recv 1: local protection error"));
}

TEST_F(MemoryGone, InTheMiddleOfAReadResponse) {
  take_away(kPage);
  rig_.arrive(read(0x100, memory_.addr() + kPage - 256, key_, 600));
  rig_.turn();
  EXPECT_THAT(rig_.sent(),
              ElementsAre("READ_RESPONSE_FIRST 000100 msn 1 bytes 256", "NAK 000101 remote access error msn 0"));
  EXPECT_EQ(rig_.qp().state(), QpState::kErr);
}

/// The peer has had the answer: that it cannot have it twice is no error.
TEST_F(MemoryGone, UnderAReadThatIsAskedForAgain) {
  rig_.arrive(read(0x100, memory_.addr(), key_, 100));
  take_away();
  rig_.sent();
  rig_.counted();
  rig_.arrive(read(0x100, memory_.addr(), key_, 100));
  EXPECT_THAT(rig_.sent(), IsEmpty());
  EXPECT_EQ(rig_.counted(), "duplicate_request 1, rx_drop_bad_duplicate 1");
  EXPECT_EQ(rig_.qp().state(), QpState::kRts);
}

TEST_F(MemoryGone, UnderAtomics) {
  take_away();
  rig_.arrive(compare_swap(0x100, memory_.addr(), key_, 0, 1));
  EXPECT_THAT(rig_.sent(), ElementsAre("NAK 000100 remote access error msn 0"));
  Rig second;
  const uint32_t key = second.engine().memory().register_region(second.pd(), memory_.data(), kBytes, memory_.addr(),
                                                                kLocalWrite | kRemoteAtomic);
  second.arrive(fetch_add(0x100, memory_.addr(), key, 1));
  EXPECT_THAT(second.sent(), ElementsAre("NAK 000100 remote access error msn 0"));
}

TEST_F(MemoryGone, WithoutTheRightToWrite) {
  memory_.protect(PROT_READ);
  rig_.arrive(read(0x100, memory_.addr(), key_, 100));
  EXPECT_THAT(rig_.sent(), ElementsAre("READ_RESPONSE_ONLY 000100 msn 1 bytes 100"));
  rig_.arrive(write(kOpWriteOnly, 0x101, memory_.addr(), key_, 100, 100));
  EXPECT_THAT(rig_.sent(), ElementsAre("NAK 000101 remote access error msn 1"));
}

TEST_F(MemoryGone, BehindOurOwnWrite) {
  take_away();
  post(rig_.write_wr(100), sge(100));
  EXPECT_THAT(rig_.sent(), IsEmpty());
  EXPECT_THAT(rig_.completed(), ElementsAre("write 1: local protection error"));
}

TEST_F(MemoryGone, UnderTheResponseToOurRead) {
  post(rig_.read_wr(100), sge(100));
  take_away();
  rig_.arrive(read_response(kOpReadResponseOnly, 0x200, 100));
  EXPECT_THAT(rig_.completed(), ElementsAre("read 1: local protection error"));
}

TEST_F(MemoryGone, UnderTheResultOfOurAtomic) {
  post(rig_.atomic_wr(WrOpcode::kFetchAdd), sge(8));
  take_away();
  rig_.arrive(atomic_ack(0x200, 77));
  EXPECT_THAT(rig_.completed(), ElementsAre("fadd 1: local protection error"));
}

TEST_F(MemoryGone, BehindInlineData) {
  take_away();
  SendWr wr = rig_.write_wr(20);
  wr.flags |= kSendInline;
  EXPECT_EQ(post(wr, sge(20)), PostResult::kInlineNotThere);
  EXPECT_THAT(rig_.completed(), IsEmpty());
  EXPECT_EQ(rig_.post(rig_.write_wr(4)), PostResult::kOk);
  EXPECT_EQ(rig_.sent().size(), 1u);
}

RigOptions uc() {
  RigOptions options;
  options.type = QpType::kUc;
  return options;
}

class MemoryGoneUc : public MemoryGone {
 protected:
  MemoryGoneUc() : MemoryGone(uc()) {}
};

TEST_F(MemoryGoneUc, UnderAWrite) {
  take_away();
  rig_.arrive(write(kOpWriteOnly, 0x100, memory_.addr(), key_, 100, 100, Service::kUc));
  EXPECT_EQ(rig_.counted(), "rx_drop_memory_gone 1");
  rig_.arrive(write(kOpWriteOnly, 0x101, rig_.remote_va(), rig_.rkey(), 100, 100, Service::kUc));
  EXPECT_EQ(rig_.counted(), "rx_write_requests 1");
}

TEST_F(MemoryGoneUc, UnderASend) {
  receive(sge(1000));
  take_away();
  rig_.arrive(send(kOpSendOnly, 0x100, 100, Service::kUc));
  EXPECT_THAT(rig_.completed(), ElementsAre("recv 1: local protection error"));
}

}  // namespace
}  // namespace uroce::test
