// Requests that come again: answered again, never carried out twice.
#include <gmock/gmock.h>

#include <cstring>

#include "rig.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

uint64_t word_at(Rig& rig, uint32_t offset) {
  uint64_t word;
  std::memcpy(&word, rig.remote() + offset, 8);
  return word;
}

void set_word(Rig& rig, uint32_t offset, uint64_t word) { std::memcpy(rig.remote() + offset, &word, 8); }

TEST(Duplicate, SendIsAcknowledgedWithTheLatestPsn) {
  Rig rig;
  for (uint64_t i = 1; i <= 3; i++) rig.receive(i);
  rig.arrive({send(kOpSendOnly, 0x100, 4), send(kOpSendOnly, 0x101, 4)});
  EXPECT_EQ(rig.completed().size(), 2u);
  rig.sent();
  rig.arrive(send(kOpSendOnly, 0x100, 4));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000101 msn 2"));
  EXPECT_THAT(rig.completed(), IsEmpty());
}

TEST(Duplicate, WriteIsNotPlacedAgain) {
  Rig rig;
  rig.arrive(write(kOpWriteOnly, 0x100, rig.remote_va(8), rig.rkey(), 4, 4));
  EXPECT_EQ(rig.remote()[8], payload_byte(0x100, 0));
  rig.remote()[8] = 0x42;  // written by the program since
  rig.counted();
  rig.arrive(write(kOpWriteOnly, 0x100, rig.remote_va(8), rig.rkey(), 4, 4));
  EXPECT_EQ(rig.remote()[8], 0x42);
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 1", "ACK 000100 msn 1"));
  EXPECT_EQ(rig.counted(), "duplicate_request 1, sent_acks 1");
}

TEST(Duplicate, ReadIsCarriedOutAgain) {
  Rig rig;
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), 300));
  EXPECT_THAT(rig.sent(),
              ElementsAre("READ_RESPONSE_FIRST 000100 msn 1 bytes 256", "READ_RESPONSE_LAST 000101 msn 1 bytes 44"));
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), 300));
  EXPECT_THAT(rig.sent(),
              ElementsAre("READ_RESPONSE_FIRST 000100 msn 1 bytes 256", "READ_RESPONSE_LAST 000101 msn 1 bytes 44"));
  EXPECT_EQ(rig.counted(), "rx_read_requests 1, duplicate_request 1");
}

TEST(Duplicate, TheRestOfARead) {
  Rig rig;
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), 700));
  rig.sent();
  rig.arrive(read(0x101, rig.remote_va(256), rig.rkey(), 444));
  const auto frames = rig.sent_frames();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(describe(frames[0]), "READ_RESPONSE_FIRST 000101 msn 1 bytes 256");
  EXPECT_EQ(describe(frames[1]), "READ_RESPONSE_LAST 000102 msn 1 bytes 188");
  PacketView view;
  ASSERT_EQ(parse_frame(frames[0], view), ParseResult::kOk);
  EXPECT_EQ(std::memcmp(view.payload, rig.remote() + 256, 256), 0);
}

TEST(Duplicate, ReadBeyondWhatWasAskedForIsDropped) {
  Rig rig;
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), 256));
  rig.sent();
  rig.counted();
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), 512));  // beyond the requests that were executed
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.counted(), "duplicate_request 1, rx_drop_bad_duplicate 1");
  EXPECT_EQ(rig.qp().state(), QpState::kRts);
}

TEST(Duplicate, ABadReadIsDroppedWithoutNak) {
  Rig rig;
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), 16));
  rig.sent();
  rig.counted();
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey() ^ 0x100, 16));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.counted(), "duplicate_request 1, rx_drop_bad_duplicate 1");
  EXPECT_EQ(rig.qp().state(), QpState::kRts);
}

TEST(Duplicate, AtomicIsReplayedNeverExecutedAgain) {
  Rig rig;
  set_word(rig, 0, 40);
  rig.arrive(fetch_add(0x100, rig.remote_va(), rig.rkey(), 2));
  EXPECT_THAT(rig.sent(), ElementsAre("ATOMIC_ACKNOWLEDGE 000100 original 40 msn 1"));
  set_word(rig, 0, 1000);
  rig.arrive(fetch_add(0x100, rig.remote_va(), rig.rkey(), 2));
  EXPECT_THAT(rig.sent(), ElementsAre("ATOMIC_ACKNOWLEDGE 000100 original 40 msn 1"));
  EXPECT_EQ(word_at(rig, 0), 1000u);
  EXPECT_EQ(rig.counted(), "rx_atomic_requests 1, duplicate_request 1");
}

TEST(Duplicate, ForgottenAtomicIsDropped) {
  RigOptions options;
  options.attributes.max_dest_rd_atomic = 2;
  Rig rig(options);
  for (uint32_t i = 0; i < 3; i++) rig.arrive(fetch_add(0x100 + i, rig.remote_va(8), rig.rkey(), 1));
  rig.sent();
  rig.counted();
  const uint64_t before = word_at(rig, 8);
  rig.arrive(fetch_add(0x100, rig.remote_va(8), rig.rkey(), 1));  // two later ones have displaced it
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.counted(), "duplicate_request 1, rx_drop_bad_duplicate 1");
  rig.arrive(fetch_add(0x101, rig.remote_va(8), rig.rkey(), 1));
  EXPECT_EQ(rig.sent().size(), 1u);
  EXPECT_EQ(word_at(rig, 8), before);
}

TEST(Duplicate, AnsweredInPsnOrder) {
  // An earlier PSN is sent before queued ones.
  Rig rig;
  rig.port().set_tx_room(0);
  rig.arrive({read(0x100, rig.remote_va(), rig.rkey(), 16), read(0x101, rig.remote_va(), rig.rkey(), 16)});
  rig.arrive({read(0x101, rig.remote_va(), rig.rkey(), 16), read(0x100, rig.remote_va(), rig.rkey(), 16)});
  rig.port().set_tx_room(64);
  rig.turn();
  EXPECT_THAT(rig.sent(),
              ElementsAre("READ_RESPONSE_ONLY 000100 msn 2 bytes 16", "READ_RESPONSE_ONLY 000101 msn 2 bytes 16"));
}

/// The network repeats an answered READ right before the next one: only the latter counts as outstanding.
TEST(Duplicate, RepeatedReadTakesNoPlaceFromTheNext) {
  RigOptions options;
  options.attributes.max_dest_rd_atomic = 1;
  Rig rig(options);
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), 16));
  rig.sent();
  rig.arrive({read(0x100, rig.remote_va(), rig.rkey(), 16), read(0x101, rig.remote_va(), rig.rkey(), 16)});
  EXPECT_THAT(rig.sent(),
              ElementsAre("READ_RESPONSE_ONLY 000100 msn 1 bytes 16", "READ_RESPONSE_ONLY 000101 msn 2 bytes 16"));
  EXPECT_EQ(rig.qp().state(), QpState::kRts);
}

TEST(Duplicate, RepeatedReadDoesNotSilenceTheNext) {
  RigOptions options;
  Rig rig(options);
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), 16));
  rig.sent();
  rig.arrive({read(0x101, rig.remote_va(), rig.rkey(), 16), read(0x100, rig.remote_va(), rig.rkey(), 16)});
  EXPECT_THAT(rig.sent(),
              ElementsAre("READ_RESPONSE_ONLY 000100 msn 2 bytes 16", "READ_RESPONSE_ONLY 000101 msn 2 bytes 16"));
}

/// Part of a READ that is being answered is requested again, and then all of it, before anything more is sent: the
/// queued repetitions become one answer. A second one would count against the peer's next READ.
TEST(Duplicate, OneAnswerForOverlappingRequests) {
  RigOptions options;
  options.attributes.max_dest_rd_atomic = 1;
  Rig rig(options);
  rig.port().set_tx_room(3);
  rig.port().deliver(sim::Frame(rig.frame(read(0x100, rig.remote_va(), rig.rkey(), 1280))));
  rig.engine().turn(rig.now());
  EXPECT_EQ(rig.sent().size(), 3u);
  rig.port().set_tx_room(0);
  rig.arrive({read(0x100, rig.remote_va(), rig.rkey(), 512), read(0x100, rig.remote_va(), rig.rkey(), 1280)});
  rig.port().set_tx_room(64);
  rig.turn();
  EXPECT_THAT(rig.sent(),
              ElementsAre("READ_RESPONSE_FIRST 000100 msn 1 bytes 256", "READ_RESPONSE_MIDDLE 000101 bytes 256",
                          "READ_RESPONSE_MIDDLE 000102 bytes 256", "READ_RESPONSE_MIDDLE 000103 bytes 256",
                          "READ_RESPONSE_LAST 000104 msn 1 bytes 256"));
  rig.arrive(read(0x105, rig.remote_va(), rig.rkey(), 16));
  EXPECT_THAT(rig.sent(), ElementsAre("READ_RESPONSE_ONLY 000105 msn 2 bytes 16"));
}

/// A peer with selective repeat requests parts: where they overlap, one answer covers all of them.
TEST(Duplicate, PartsThatOverlapAreSentOnce) {
  RigOptions options;
  options.engine.loss_recovery = LossRecovery::kSelective;
  Rig rig(options);
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), 1280));
  EXPECT_EQ(rig.sent().size(), 5u);
  rig.port().set_tx_room(0);
  rig.arrive({read(0x100, rig.remote_va(), rig.rkey(), 512), read(0x101, rig.remote_va(256), rig.rkey(), 768)});
  rig.port().set_tx_room(64);
  rig.turn();
  EXPECT_THAT(rig.sent(),
              ElementsAre("READ_RESPONSE_FIRST 000100 msn 1 bytes 256", "READ_RESPONSE_MIDDLE 000101 bytes 256",
                          "READ_RESPONSE_MIDDLE 000102 bytes 256", "READ_RESPONSE_LAST 000103 msn 1 bytes 256"));
}

/// A repeated READ waits for the port while the program deregisters its memory: it is dropped, and the QP lives on.
TEST(Duplicate, RepeatedReadOfMemoryThatIsGone) {
  Rig rig;
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), 16));
  rig.sent();
  rig.port().set_tx_room(0);
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), 16));
  rig.counted();
  ASSERT_TRUE(rig.engine().memory().deregister(rig.rkey()));
  rig.port().set_tx_room(64);
  rig.turn();
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.counted(), "rx_drop_bad_duplicate 1");
  EXPECT_EQ(rig.qp().state(), QpState::kRts);
}

/// All that a forger can try with an old PSN who knows everything but the READ itself: half a million keys, and none of
/// them tells it anything or ends the connection.
TEST(Duplicate, KeysCannotBeTriedWithOldPsns) {
  Rig rig;
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), 16));
  rig.sent();
  rig.counted();
  const uint32_t other = rig.engine().memory().register_region(rig.pd(), rig.local(), 64, 0, kRemoteRead);
  for (uint32_t guess = 0; guess < 1000; guess++) {
    const uint32_t key = guess == 500 ? other : rig.rkey() + 1 + guess;
    rig.arrive(read(0x100, guess == 500 ? 0 : rig.remote_va(), key, 16));
    rig.arrive(read(0x0FF, guess == 500 ? 0 : rig.remote_va(), key, 16));
  }
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.counted(), "duplicate_request 2000, rx_drop_bad_duplicate 2000");
  EXPECT_EQ(rig.qp().state(), QpState::kRts);
}

/// What forged READs with old PSNs can make us send: no more than 32 copies of a large READ, however often it is
/// requested, and nothing once the peer has read four more times.
TEST(Duplicate, WhatForgedReadsMakeUsSendIsBounded) {
  Rig rig;
  constexpr uint32_t kPackets = 256;
  const Packet large = read(0x100, rig.remote_va(), rig.rkey(), kPackets * 256);
  const auto packets_sent = [&rig] {
    size_t sent = 0;
    for (size_t more = 1; more != 0; sent += more) {
      rig.turn();
      more = rig.sent().size();
    }
    return sent;
  };
  rig.arrive(large);
  EXPECT_EQ(packets_sent(), kPackets);
  // In one burst: one copy.
  rig.port().set_tx_room(0);
  for (int i = 0; i < 1000; i++) rig.arrive(large);
  rig.port().set_tx_room(4096);
  EXPECT_LE(packets_sent(), kPackets);
  size_t sent = 0;
  for (int i = 0; i < 1000; i++) {
    rig.arrive(large);
    sent += packets_sent();
    rig.port().set_tx_room(4096);
  }
  EXPECT_LE(sent, 32 * kPackets);
  for (uint32_t i = 0; i < 4; i++) rig.arrive(read(0x200 + i, rig.remote_va(), rig.rkey(), 16));
  packets_sent();
  rig.arrive(large);
  EXPECT_EQ(packets_sent(), 0u);
  EXPECT_EQ(rig.qp().state(), QpState::kRts);
}

/// A peer with go-back-N requests all that follows each time: a READ behind a large one that arrives packet by packet
/// is answered as often as that takes.
TEST(Duplicate, AReadBehindOneThatGetsFurtherIsServedEachTime) {
  constexpr uint32_t kPackets = 100;
  Rig rig;
  const Packet behind = read(0x100 + kPackets, rig.remote_va(), rig.rkey(), 16);
  rig.arrive({read(0x100, rig.remote_va(), rig.rkey(), kPackets * 256), behind});
  while (!rig.sent().empty()) rig.turn();
  for (uint32_t lost = 0; lost < kPackets; lost++) {
    rig.arrive({read(0x100 + lost, rig.remote_va(lost * 256), rig.rkey(), (kPackets - lost) * 256), behind});
    size_t sent = 0;
    for (size_t more = 1; more != 0; sent += more) {
      rig.turn();
      more = rig.sent().size();
    }
    // The rest of the large READ, and the one behind it.
    ASSERT_EQ(sent, kPackets - lost + 1) << lost;
  }
}

/// Every part that retries of a lossy READ may request is answered, once going forwards and once going backwards.
TEST(Duplicate, EveryPartOfAReadMayBeAskedForAgain) {
  constexpr uint32_t kPackets = 20;
  for (uint32_t length = 1; length <= kPackets; length++) {
    Rig rig;
    rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), kPackets * 256 - 7));
    rig.sent();
    for (uint32_t i = 0; i < 2 * kPackets; i++) {
      const uint32_t from = i < kPackets ? i : 2 * kPackets - 1 - i;
      if (from + length > kPackets) continue;
      const uint32_t bytes = length * 256 - (from + length == kPackets ? 7 : 0);
      rig.arrive(read(0x100 + from, rig.remote_va(from * 256), rig.rkey(), bytes));
      ASSERT_EQ(rig.sent().size(), length) << from;
    }
  }
}

}  // namespace
}  // namespace uroce::test
