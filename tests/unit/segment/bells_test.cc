// Who is woken for frames that were sent, and who is not: members that sleep, and members whose program polls.
#include "segment/bells.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "node.h"

namespace uroce::segment {
namespace {

using namespace test;

/// Two members in contact, with nothing left to receive.
struct Pair {
  Pair() : a(dir, record_of("host", 1)), b(dir, record_of("host", 1)) {
    frame = roce_frame(mac_of(1), b.qpn(), 90);
    a.turn();
    a.send(frame);
    settle({&a, &b});
    EXPECT_EQ(b.receive().size(), 1u);
    settle({&a, &b});
    b.turn();
    EXPECT_FALSE(rung());
  }
  bool rung() const { return b.wake_fd_ready(); }

  TempDir dir;
  Node a, b;
  std::vector<uint8_t> frame;
};

/// The thread of b sleeps while its program polls.
TEST(Bells, WhoReadsIsNotRung) {
  Pair pair;
  EXPECT_TRUE(pair.b.port->sleep().stand_back());
  for (int i = 0; i < 100; i++) {
    pair.a.send(pair.frame);
    for (int looks = 0; looks < 5; looks++) pair.a.turn(microseconds(10));
    pair.b.receive();
  }
  EXPECT_FALSE(pair.rung());
}

TEST(Bells, WhatIsLeftLyingRingsOnceAfterTwoLooks) {
  Pair pair;
  EXPECT_TRUE(pair.b.port->sleep().stand_back());
  pair.a.send(pair.frame);
  EXPECT_FALSE(pair.rung());
  pair.a.turn(Bells::kLook);
  EXPECT_FALSE(pair.rung()) << "it may have been sent just before that look";
  pair.a.port->sleep().look();
  pair.a.port->sleep().look();
  EXPECT_FALSE(pair.rung()) << "no time has passed";
  EXPECT_TRUE(pair.a.port->sleep().watching()) << "whoever sleeps now must not sleep long";
  pair.a.turn(Bells::kLook);
  EXPECT_TRUE(pair.rung());
  EXPECT_FALSE(pair.a.port->sleep().watching());
  for (int i = 0; i < 10; i++) {
    pair.a.send(pair.frame);
    pair.a.turn(Bells::kLook);
  }
  EXPECT_EQ(pair.a.port->counters().wakes_sent, 1u) << "it was rung, and comes";
  // The thread takes what is there, and stands back again.
  pair.b.port->sleep().disarm();
  pair.b.turn();
  EXPECT_FALSE(pair.rung());
  EXPECT_EQ(pair.b.receive().size(), 11u);
  EXPECT_TRUE(pair.b.port->sleep().stand_back());
  pair.a.send(pair.frame);
  pair.a.turn(Bells::kLook);
  pair.a.turn(Bells::kLook);
  EXPECT_TRUE(pair.rung());
}

/// A stream that is a little faster than its reader.
TEST(Bells, WhoReadsSlowlyIsNotRung) {
  Pair pair;
  for (int i = 0; i < 100; i++) pair.a.send(pair.frame);
  pair.b.port->sleep().stand_back();
  RxFrame frames[1];
  for (int i = 0; i < 80; i++) {
    pair.a.turn(Bells::kLook);
    ASSERT_EQ(pair.b.port->receive(frames, 1), 1u);
    pair.b.port->release_rx(frames, 1);
  }
  EXPECT_FALSE(pair.rung());
}

/// Frames sent while their reader was awake, which then goes to sleep without reading them.
TEST(Bells, WhoLiesDownOnFramesIsRung) {
  Pair pair;
  pair.a.send(pair.frame);
  for (int i = 0; i < 10; i++) pair.a.turn(Bells::kLook);
  EXPECT_FALSE(pair.b.port->sleep().stand_back()) << "it is told that something is there";
  pair.a.turn(Bells::kLook);
  EXPECT_TRUE(pair.rung());
}

/// The program's turn reads the letter to its sleeping thread: the thread is not woken by it, and is rung again for the
/// next frame.
TEST(Bells, WhoseLetterAnotherThreadReadIsRungAgain) {
  for (const bool polls : {false, true}) {
    Pair pair;
    EXPECT_TRUE(polls ? pair.b.port->sleep().stand_back() : pair.b.port->sleep().arm());
    pair.a.send(pair.frame);
    for (int i = 0; i < 3; i++) pair.a.turn(Bells::kLook);
    EXPECT_TRUE(pair.rung());
    pair.b.turn(milliseconds(20));
    EXPECT_EQ(pair.b.receive().size(), 1u);
    EXPECT_FALSE(pair.rung());
    pair.a.send(pair.frame);
    for (int i = 0; i < 3; i++) pair.a.turn(Bells::kLook);
    EXPECT_TRUE(pair.rung()) << polls;
  }
}

/// A sender that is about to sleep until it is woken will not look again, so it rings now.
TEST(Bells, TheLastLookRings) {
  Pair pair;
  pair.b.port->sleep().stand_back();
  pair.a.send(pair.frame);
  EXPECT_TRUE(pair.a.port->sleep().arm(true));
  EXPECT_TRUE(pair.rung());
}

TEST(Bells, ManyAreAllRung) {
  const TempDir dir;
  Node a(dir, record_of("host", 1));
  std::vector<std::unique_ptr<Node>> nodes(50);
  a.turn();
  for (auto& node : nodes) {
    node = std::make_unique<Node>(dir, record_of("host", 1));
    node->qpn();
    a.turn();
    a.send(roce_frame(mac_of(1), node->qpn(), 90));
    settle({&a, node.get()});
    EXPECT_EQ(node->receive().size(), 1u);
    settle({&a, node.get()});
    EXPECT_TRUE(node->port->sleep().stand_back());
  }
  for (auto& node : nodes) a.send(roce_frame(mac_of(1), node->qpn(), 90));
  for (int i = 0; i < 16; i++) a.turn(Bells::kLook);
  for (auto& node : nodes) {
    EXPECT_TRUE(node->wake_fd_ready());
    node->receive();
    node->turn();
  }
  EXPECT_FALSE(a.port->sleep().watching());
}

/// A stopped peer whose mailbox is full: its sender need not wake up early for its sake any more.
TEST(Bells, WhoCannotBeWokenAndReadsNothingIsWaitedForNoMore) {
  const TempDir dir;
  Node a(dir, record_of("host", 1));
  auto sleepers = sleepers_of(a, dir);
  for (auto& node : sleepers) a.send(roce_frame(mac_of(1), node->qpn(), 90));
  a.turn(Bells::kLook);
  EXPECT_TRUE(a.port->sleep().watching());
  for (int i = 0; i < 30; i++) a.turn(milliseconds(130));
  a.port->sleep().look();
  EXPECT_FALSE(a.port->sleep().watching());
}

/// Whatever a misbehaving peer writes into its bell.
TEST(Bells, NonsenseIsNobodyToWake) {
  for (uint32_t word = 0; word < 16; word++) {
    EXPECT_LE(Bell::asks(word, WakeWish::kNever) + Bell::asks(word, WakeWish::kAtOnce) +
                  Bell::asks(word, WakeWish::kLeftLying),
              1);
  }
  EXPECT_TRUE(Bell::asks(Bell::encode(UINT32_MAX, WakeWish::kAtOnce), WakeWish::kAtOnce));
  EXPECT_NE(Bell::encode(7, WakeWish::kAtOnce), Bell::encode(8, WakeWish::kAtOnce));
}

}  // namespace
}  // namespace uroce::segment
