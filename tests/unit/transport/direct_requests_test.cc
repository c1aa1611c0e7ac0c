// READs and WRITEs that a requester carries out by itself: their order among what goes in frames, and what is left to
// the responder.
#include "transport/direct_requests.h"

#include <gtest/gtest.h>

#include <numeric>

#include "direct_two.h"
#include "transport/qp.h"
#include "transport/requester.h"

namespace uroce::test {
namespace {

constexpr uint32_t kLarge = 64 * 1024;

class DirectRequestsTest : public testing::Test {
 protected:
  DirectRequestsTest() {
    a.shown.other = &b.shown;
    b.shown.other = &a.shown;
    local_key = a.table.register_region(1, a.memory.data(), kDirectMemory, 0, kLocalWrite);
    remote_key = b.table.register_region(1, b.memory.data(), kDirectMemory, 0,
                                         kLocalWrite | kRemoteRead | kRemoteWrite | kRemoteAtomic);
    std::iota(a.memory.begin(), a.memory.end(), uint8_t{1});
    a.connect(b, 0x0A000001, 0x0A000002);
    b.connect(a, 0x0A000002, 0x0A000001);
  }

  void post(WrOpcode opcode, uint64_t wr_id, uint32_t bytes, uint64_t remote_addr = 0, uint8_t flags = kSendSignaled) {
    const Sge sge{.addr = 0, .length = bytes, .lkey = local_key};
    SendWr wr;
    wr.wr_id = wr_id;
    wr.opcode = opcode;
    wr.flags = flags;
    wr.sges = &sge;
    wr.num_sge = 1;
    wr.remote_addr = remote_addr;
    wr.rkey = remote_key;
    ASSERT_EQ(a.qp.post_send(wr, a.now), PostResult::kOk);
  }
  void give_receive() {
    const Sge sge{.addr = kDirectMemory / 2, .length = 4096, .lkey = remote_key};
    RecvWr wr{};
    wr.sges = &sge;
    wr.num_sge = 1;
    ASSERT_EQ(b.qp.post_recv(wr, b.now), PostResult::kOk);
  }
  /// Passes frames both ways until neither side has any, while time passes.
  void exchange() {
    for (int i = 0; i < 200; i++) {
      const auto there = a.frames();
      b.receive(there);
      b.now = b.now + microseconds(30);
      a.now = b.now;
      b.qp.on_timeout(b.now);
      const auto back = b.frames();
      a.receive(back);
      if (there.empty() && back.empty() && !a.qp.wants_transmit()) return;
    }
    FAIL() << "there is no end";
  }
  bool same(uint32_t bytes, uint64_t remote_addr = 0) const {
    return std::equal(a.memory.begin(), a.memory.begin() + bytes, b.memory.begin() + static_cast<long>(remote_addr));
  }
  std::vector<uint64_t> completed() {
    std::vector<uint64_t> ids;
    for (const Completion& completion : a.completions()) {
      EXPECT_EQ(completion.status, WcStatus::kSuccess);
      ids.push_back(completion.wr_id);
    }
    return ids;
  }
  using Ids = std::vector<uint64_t>;

  DirectSide a{0x1000a};
  DirectSide b{0x2000b};
  uint32_t local_key = 0;
  uint32_t remote_key = 0;
};

TEST_F(DirectRequestsTest, WriteNeedsNoFrame) {
  post(WrOpcode::kRdmaWrite, 1, kLarge, 4096);
  EXPECT_TRUE(a.qp.wants_transmit());
  EXPECT_TRUE(a.frames().empty());
  EXPECT_TRUE(same(kLarge, 4096));
  EXPECT_EQ(completed(), Ids{1});
  EXPECT_FALSE(a.qp.wants_transmit());
  EXPECT_EQ(a.counters.direct_writes, 1u);
  EXPECT_EQ(a.counters.direct_bytes, kLarge);
  EXPECT_EQ(b.counters.rx_write_requests, 0u);
  EXPECT_EQ(a.shown.under_way, 0);
}

TEST_F(DirectRequestsTest, ReadNeedsNoFrame) {
  std::fill_n(b.memory.begin(), kLarge, uint8_t{0x77});
  post(WrOpcode::kRdmaRead, 1, kLarge);
  EXPECT_TRUE(a.frames().empty());
  EXPECT_TRUE(same(kLarge));
  const auto completions = a.completions();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].opcode, WcOpcode::kRdmaRead);
  EXPECT_EQ(completions[0].byte_len, kLarge);
  EXPECT_EQ(a.counters.direct_reads, 1u);
}

TEST_F(DirectRequestsTest, UnsignalledOnesMakeNoCompletion) {
  post(WrOpcode::kRdmaWrite, 1, kLarge, 0, 0);
  post(WrOpcode::kRdmaWrite, 2, kLarge);
  EXPECT_TRUE(a.frames().empty());
  EXPECT_EQ(completed(), Ids{2});
  EXPECT_EQ(a.qp.send_queue().room(), 16u) << "both slots are free";
}

TEST_F(DirectRequestsTest, LargeOnesAreCopiedInParts) {
  constexpr uint32_t kTurn = DirectRequests::kBytesPerTurn;
  post(WrOpcode::kRdmaWrite, 1, 2 * kTurn + 100);
  EXPECT_TRUE(a.frames().empty());
  EXPECT_TRUE(a.qp.wants_transmit());
  EXPECT_EQ(completed(), Ids{});
  EXPECT_TRUE(a.frames().empty());
  EXPECT_EQ(completed(), Ids{});
  EXPECT_TRUE(a.frames().empty());
  EXPECT_EQ(completed(), Ids{1});
  EXPECT_TRUE(same(2 * kTurn + 100));
  EXPECT_EQ(a.shown.copies, (std::vector<size_t>{kTurn, kTurn, 100}));
  EXPECT_EQ(a.shown.ended, (std::vector<bool>{false, false, true}));
}

TEST_F(DirectRequestsTest, ManyShareATurn) {
  for (uint64_t id = 1; id <= 5; id++) post(WrOpcode::kRdmaWrite, id, kLarge);
  EXPECT_TRUE(a.frames().empty());
  EXPECT_EQ(completed(), (Ids{1, 2, 3, 4})) << "a turn's worth";
  EXPECT_TRUE(a.frames().empty());
  EXPECT_EQ(completed(), Ids{5});
}

/// An earlier request in frames is executed first, as its acknowledgement tells.
TEST_F(DirectRequestsTest, WaitsForWhatIsBeforeIt) {
  give_receive();
  post(WrOpcode::kSend, 1, 100);
  post(WrOpcode::kRdmaWrite, 2, kLarge, 8192);
  post(WrOpcode::kRdmaWrite, 3, 16, 8192);  // in a frame, after the large one
  const auto first = a.frames();
  ASSERT_EQ(first.size(), 1u) << "the SEND";
  EXPECT_FALSE(a.qp.wants_transmit()) << "nothing to do before the answer";
  EXPECT_EQ(a.counters.direct_writes, 0u);
  b.receive(first);
  b.now = b.now + microseconds(30);
  b.qp.on_timeout(b.now);
  a.receive(b.frames());
  EXPECT_TRUE(a.qp.wants_transmit());
  const auto second = a.frames();
  EXPECT_EQ(a.counters.direct_writes, 1u);
  ASSERT_EQ(second.size(), 1u) << "the small WRITE follows";
  EXPECT_TRUE(same(kLarge, 8192));
  EXPECT_EQ(completed(), (Ids{1, 2}));
  b.receive(second);
  exchange();
  EXPECT_EQ(completed(), Ids{3});
}

TEST_F(DirectRequestsTest, TakesNoSequenceNumber) {
  const Psn before = a.qp.requester()->window().next();
  post(WrOpcode::kRdmaWrite, 1, kLarge);
  EXPECT_TRUE(a.frames().empty());
  EXPECT_EQ(a.qp.requester()->window().next(), before);
  // The next requests have the numbers that the responder expects.
  for (uint64_t id = 2; id < 8; id++) post(id % 2 == 0 ? WrOpcode::kRdmaWrite : WrOpcode::kRdmaRead, id, 3000);
  exchange();
  EXPECT_EQ(completed(), (Ids{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(a.counters.retransmits, 0u);
  post(WrOpcode::kRdmaRead, 8, kLarge);
  exchange();
  EXPECT_EQ(completed(), Ids{8});
  EXPECT_EQ(a.counters.direct_reads, 1u);
}

TEST_F(DirectRequestsTest, FencesOrderThem) {
  post(WrOpcode::kRdmaRead, 1, 1000);
  post(WrOpcode::kRdmaWrite, 2, kLarge, 0, kSendSignaled | kSendFence);
  const auto read = a.frames();
  EXPECT_EQ(read.size(), 1u);
  EXPECT_EQ(a.counters.direct_writes, 0u);
  b.receive(read);
  exchange();
  EXPECT_EQ(completed(), (Ids{1, 2}));
  EXPECT_EQ(a.counters.direct_writes, 1u);
}

TEST_F(DirectRequestsTest, OthersGoInFrames) {
  give_receive();
  post(WrOpcode::kRdmaWrite, 1, DirectRequests::kBytesMin - 1);
  post(WrOpcode::kRdmaWriteWithImm, 2, kLarge);
  post(WrOpcode::kFetchAdd, 3, 8);
  exchange();
  EXPECT_EQ(completed(), (Ids{1, 2, 3}));
  EXPECT_EQ(a.counters.direct_bytes, 0u);
}

TEST_F(DirectRequestsTest, WhileSomebodyLooksAllGoesInFrames) {
  for (ShownHere* paused : {&a.shown, &b.shown}) {
    paused->paused = true;
    post(WrOpcode::kRdmaWrite, 1, kLarge);
    post(WrOpcode::kRdmaRead, 2, kLarge);
    exchange();
    EXPECT_EQ(completed(), (Ids{1, 2}));
    EXPECT_EQ(a.counters.direct_bytes, 0u);
    paused->paused = false;
  }
}

/// The responder reports the error, as for any request.
TEST_F(DirectRequestsTest, WrongKeyIsRefusedByTheResponder) {
  remote_key ^= 0x10000;
  post(WrOpcode::kRdmaWrite, 1, kLarge);
  exchange();
  const auto completions = a.completions();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, WcStatus::kRemAccessErr);
  EXPECT_EQ(b.events, std::vector{AsyncEvent::kQpAccessErr});
  EXPECT_EQ(a.counters.direct_bytes, 0u);
}

TEST_F(DirectRequestsTest, WrongLocalKeyIsTheRequestersOwnError) {
  local_key ^= 0x10000;
  post(WrOpcode::kRdmaWrite, 1, kLarge);
  exchange();
  EXPECT_EQ(a.completions().at(0).status, WcStatus::kLocProtErr);
}

/// The memory goes in the middle: the whole request is then sent in frames, and has the same outcome.
TEST_F(DirectRequestsTest, WhatCannotBeCopiedGoesInFrames) {
  constexpr uint32_t kTurn = DirectRequests::kBytesPerTurn;
  for (const WrOpcode opcode : {WrOpcode::kRdmaWrite, WrOpcode::kRdmaRead}) {
    a.shown.fail_after = 1;
    post(opcode, 1, kTurn + 50'000);
    post(opcode, 2, kLarge);
    exchange();
    EXPECT_EQ(completed(), (Ids{1, 2})) << "each is tried anew";
    EXPECT_TRUE(same(kTurn + 50'000));
    a.shown.fail_after = -1;
    post(opcode, 3, kLarge);
    EXPECT_TRUE(a.frames().empty());
    EXPECT_EQ(completed(), Ids{3});
  }
}

TEST_F(DirectRequestsTest, RegionTakenBackInTheMiddleIsTheRespondersToRefuse) {
  constexpr uint32_t kTurn = DirectRequests::kBytesPerTurn;
  post(WrOpcode::kRdmaWrite, 1, 3 * kTurn);
  EXPECT_TRUE(a.frames().empty());
  EXPECT_TRUE(b.table.deregister(remote_key));
  EXPECT_EQ(b.shown.waits, 1) << "for copies under way";
  std::fill(b.memory.begin(), b.memory.end(), uint8_t{0});
  exchange();
  EXPECT_EQ(a.completions().at(0).status, WcStatus::kRemAccessErr);
  EXPECT_EQ(std::count(b.memory.begin(), b.memory.end(), uint8_t{0}), kDirectMemory);
}

TEST_F(DirectRequestsTest, DrainedQueueEndsWhatHasBegun) {
  constexpr uint32_t kTurn = DirectRequests::kBytesPerTurn;
  post(WrOpcode::kRdmaWrite, 1, kTurn + 1);
  post(WrOpcode::kRdmaWrite, 2, kLarge);
  EXPECT_TRUE(a.frames().empty());
  QpAttributes sqd;
  sqd.state = QpState::kSqd;
  sqd.sqd_async_notify = true;
  ASSERT_EQ(a.qp.modify(sqd, kAttrState | kAttrEnSqdAsyncNotify, nullptr, false, a.now), ModifyResult::kOk);
  EXPECT_TRUE(a.events.empty());
  EXPECT_TRUE(a.frames().empty());
  EXPECT_EQ(completed(), Ids{1});
  EXPECT_EQ(a.events, std::vector{AsyncEvent::kSqDrained});
  ASSERT_TRUE(a.to_state(QpState::kRts));
  EXPECT_TRUE(a.frames().empty());
  EXPECT_EQ(completed(), Ids{2});
}

TEST_F(DirectRequestsTest, ErrorFlushesWhatIsHalfCopied) {
  post(WrOpcode::kRdmaWrite, 1, DirectRequests::kBytesPerTurn + 1);
  post(WrOpcode::kRdmaWrite, 2, kLarge);
  EXPECT_TRUE(a.frames().empty());
  ASSERT_TRUE(a.to_state(QpState::kErr));
  const auto completions = a.completions();
  ASSERT_EQ(completions.size(), 2u);
  EXPECT_EQ(completions[0].status, WcStatus::kWrFlushErr);
  EXPECT_EQ(completions[1].status, WcStatus::kWrFlushErr);
  EXPECT_TRUE(a.frames().empty());
}

/// Frames do not wait for a request that will not be copied.
TEST_F(DirectRequestsTest, WhatIsNotShownDoesNotWait) {
  b.shown.regions.clear();
  give_receive();
  post(WrOpcode::kSend, 1, 100);
  post(WrOpcode::kRdmaWrite, 2, kLarge);
  EXPECT_EQ(a.frames().size(), 1u + kLarge / 1024);
  exchange();
}

/// In RTR the first request is an event, so the responder has to see it. Afterwards the QP is shown.
TEST_F(DirectRequestsTest, FirstRequestInRtrGoesInFrames) {
  DirectSide passive(0x3000c);
  DirectSide active(0x4000d);
  active.shown.other = &passive.shown;
  const uint32_t local = active.table.register_region(1, active.memory.data(), kDirectMemory, 0, kLocalWrite);
  const uint32_t remote = passive.table.register_region(1, passive.memory.data(), kDirectMemory, 0, kRemoteWrite);
  active.connect(passive, 0x0A000001, 0x0A000002);
  passive.connect(active, 0x0A000002, 0x0A000001, QpState::kRtr, [](QpAttributes&) {});
  EXPECT_TRUE(passive.shown.qps.empty());
  const Sge sge{.addr = 0, .length = kLarge, .lkey = local};
  SendWr wr;
  wr.opcode = WrOpcode::kRdmaWrite;
  wr.sges = &sge;
  wr.num_sge = 1;
  wr.rkey = remote;
  for (int message = 0; message < 2; message++) {
    ASSERT_EQ(active.qp.post_send(wr, active.now), PostResult::kOk);
    for (int i = 0; i < 10; i++) {
      passive.receive(active.frames());
      passive.now = active.now = passive.now + microseconds(30);
      passive.qp.on_timeout(passive.now);
      active.receive(passive.frames());
    }
  }
  EXPECT_EQ(passive.events, std::vector{AsyncEvent::kCommEst});
  EXPECT_EQ(passive.counters.rx_write_requests, 1u);
  EXPECT_EQ(active.counters.direct_writes, 1u);
}

/// A queue pair shows itself while it takes requests, and hides, which may take a wait, before its state changes.
TEST_F(DirectRequestsTest, QueuePairIsShownWhileItTakesRequests) {
  EXPECT_EQ(b.shown.qps.size(), 1u);
  ASSERT_TRUE(b.to_state(QpState::kSqd));
  EXPECT_EQ(b.shown.qps.size(), 1u);
  ASSERT_TRUE(b.to_state(QpState::kRts));
  QpAttributes less;
  less.access = kRemoteRead;
  ASSERT_EQ(b.qp.modify(less, kAttrAccessFlags, nullptr, false, b.now), ModifyResult::kOk);
  EXPECT_EQ(b.shown.qps.begin()->second.access, uint32_t{kRemoteRead});
  ASSERT_TRUE(b.to_state(QpState::kErr));
  EXPECT_TRUE(b.shown.qps.empty());
  EXPECT_EQ(b.shown.waits, 1);
  post(WrOpcode::kRdmaWrite, 1, kLarge);
  EXPECT_FALSE(a.frames().empty()) << "frames, which nobody answers";
  EXPECT_EQ(a.counters.direct_bytes, 0u);
}

TEST_F(DirectRequestsTest, ErrorOfTheResponderEndsTheShow) {
  remote_key ^= 0x10000;
  post(WrOpcode::kRdmaWrite, 1, 100);
  exchange();
  EXPECT_EQ(b.qp.state(), QpState::kErr);
  EXPECT_TRUE(b.shown.qps.empty());
}

TEST_F(DirectRequestsTest, OnlyRegionsForPeersAreShown) {
  EXPECT_EQ(a.shown.regions.size(), 0u) << "its region is for local use";
  EXPECT_EQ(b.shown.regions.size(), 1u);
  EXPECT_TRUE(b.table.reregister(remote_key, 1, b.memory.data(), 4096, 0, kRemoteRead));
  EXPECT_EQ(b.shown.waits, 1);
  EXPECT_EQ(b.shown.regions.at(remote_key).length, 4096u);
  EXPECT_TRUE(b.table.reregister(remote_key, 1, b.memory.data(), 4096, 0, kLocalWrite));
  EXPECT_TRUE(b.shown.regions.empty());
}

/// The peer may show itself at any time, also between two looks: requests in flight are answered first all the same.
TEST_F(DirectRequestsTest, PeerThatShowsItselfBetweenTwoLooksChangesNoOrder) {
  give_receive();
  a.shown.hides_first = true;
  post(WrOpcode::kSend, 1, 100);
  const auto send = a.frames();
  ASSERT_EQ(send.size(), 1u);
  b.receive(send);  // it is executed, and its ACK is on the way
  post(WrOpcode::kRdmaWrite, 2, kLarge);
  a.shown.looks = 0;
  b.receive(a.frames());
  EXPECT_EQ(a.counters.direct_writes, 0u) << "the SEND has no answer yet";
  a.shown.hides_first = false;
  exchange();
  EXPECT_EQ(completed(), (Ids{1, 2}));
  EXPECT_TRUE(same(kLarge));
}

TEST_F(DirectRequestsTest, LimitedRateGoesInFrames) {
  QpAttributes limit;
  limit.rate_limit_kbps = 100'000'000;
  ASSERT_EQ(a.qp.modify(limit, kAttrRateLimit, nullptr, false, a.now), ModifyResult::kOk);
  post(WrOpcode::kRdmaWrite, 1, kLarge);
  EXPECT_FALSE(a.frames().empty());
  EXPECT_EQ(a.counters.direct_bytes, 0u);
}

/// Pieces of a request, one of them empty, and the end of a turn within one: no byte outside changes.
TEST_F(DirectRequestsTest, OnlyThePiecesOfARequestAreTouched) {
  constexpr uint32_t kTurn = DirectRequests::kBytesPerTurn;
  std::iota(b.memory.begin(), b.memory.end(), uint8_t{7});
  std::fill(a.memory.begin(), a.memory.end(), uint8_t{0xCA});
  const Sge sges[] = {
      {100, 5000, local_key}, {6000, 0, local_key}, {10'000, kTurn, local_key}, {400'000, 77, local_key}};
  SendWr wr;
  wr.opcode = WrOpcode::kRdmaRead;
  wr.flags = kSendSignaled;
  wr.sges = sges;
  wr.num_sge = 4;
  wr.remote_addr = 3;
  wr.rkey = remote_key;
  ASSERT_EQ(a.qp.post_send(wr, a.now), PostResult::kOk);
  for (int i = 0; i < 3; i++) EXPECT_TRUE(a.frames().empty());
  EXPECT_EQ(a.completions().size(), 1u);
  std::vector<uint8_t> expected(kDirectMemory, 0xCA);
  size_t from = 3;
  for (const Sge& sge : sges) {
    std::copy_n(b.memory.begin() + static_cast<long>(from), sge.length, expected.begin() + static_cast<long>(sge.addr));
    from += sge.length;
  }
  EXPECT_EQ(a.memory, expected);
}

TEST_F(DirectRequestsTest, NullRegionsGoInFrames) {
  local_key = a.table.register_null(1);
  post(WrOpcode::kRdmaWrite, 1, kLarge);
  exchange();
  EXPECT_EQ(completed(), Ids{1});
  EXPECT_EQ(a.counters.direct_bytes, 0u);
  EXPECT_EQ(std::count(b.memory.begin(), b.memory.begin() + kLarge, uint8_t{0}), kLarge);
}

}  // namespace
}  // namespace uroce::test
