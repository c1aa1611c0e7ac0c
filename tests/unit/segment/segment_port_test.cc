#include "segment/segment_port.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "node.h"
#include "packet/host_frames.h"

namespace uroce::segment {
namespace {

using namespace test;

TEST(SegmentPort, AFrameFindsItsProgramByQueuePairNumber) {
  const TempDir dir;
  Node a(dir, record_of("host", 1)), b(dir, record_of("host", 1)), c(dir, record_of("host", 1));
  const auto for_b = roce_frame(mac_of(1), b.qpn(), 90);
  const auto for_c = roce_frame(mac_of(1), c.qpn(), 3000);
  a.turn();
  ASSERT_TRUE(a.send(for_b));
  ASSERT_TRUE(a.send(for_c));
  settle({&a, &b, &c});
  EXPECT_EQ(b.receive(), Frames{for_b});
  EXPECT_EQ(c.receive(), Frames{for_c});
  EXPECT_EQ(a.port->counters().contacts, 2u);
}

TEST(SegmentPort, HostsHaveNumbersOfTheirOwn) {
  const TempDir dir;
  Node a(dir, record_of("one", 1)), b(dir, record_of("two", 2));
  const auto frame = roce_frame(mac_of(2), b.qpn(), 200);
  a.turn();
  a.send(frame);
  a.send(roce_frame(mac_of(1), b.qpn(), 200));  // the same number, but at our own host
  settle({&a, &b});
  EXPECT_EQ(b.receive(), Frames{frame});
  EXPECT_EQ(a.port->counters().tx_dropped_nobody, 1u);
}

TEST(SegmentPort, TheFirstFramesWaitForNobody) {
  const TempDir dir;
  Node a(dir, record_of("host", 1)), b(dir, record_of("host", 1));
  const uint32_t qpn = b.qpn();
  a.turn();
  Frames sent;
  for (uint8_t i = 0; i < 100; i++) {
    sent.push_back(roce_frame(mac_of(1), qpn, 80 + i * 40u, i));
    ASSERT_TRUE(a.send(sent.back()));
  }
  settle({&b, &a});
  Frames received;
  for (int i = 0; i < 4; i++) {
    for (auto& frame : b.receive()) received.push_back(std::move(frame));
  }
  EXPECT_EQ(received, sent);
}

TEST(SegmentPort, BothWaysAtOnce) {
  const TempDir dir;
  Node a(dir, record_of("host", 1)), b(dir, record_of("host", 1));
  const uint32_t qpn_a = a.qpn(), qpn_b = b.qpn();
  a.turn();
  b.turn();
  for (int i = 0; i < 5000; i++) {
    const auto to_b = roce_frame(mac_of(1), qpn_b, 60 + i % 4000u, static_cast<uint8_t>(i));
    const auto to_a = roce_frame(mac_of(1), qpn_a, 60 + i * 7 % 4000u, static_cast<uint8_t>(i));
    ASSERT_TRUE(a.send(to_b) && b.send(to_a));
    if (i == 0) settle({&a, &b});
    a.turn(microseconds(1));
    b.turn(microseconds(1));
    ASSERT_EQ(a.receive(), Frames{to_a}) << i;
    ASSERT_EQ(b.receive(), Frames{to_b}) << i;
  }
}

TEST(SegmentPort, SleepersAreWokenOnceByAFrame) {
  const TempDir dir;
  Node a(dir, record_of("host", 1)), b(dir, record_of("host", 1));
  const auto frame = roce_frame(mac_of(1), b.qpn(), 90);
  a.turn();
  a.send(frame);
  settle({&a, &b});
  ASSERT_EQ(b.receive().size(), 1u);
  a.send(frame);
  settle({&a});
  EXPECT_FALSE(b.wake_fd_ready()) << "who is awake needs no call";
  EXPECT_FALSE(b.port->sleep().arm()) << "there is something already";
  ASSERT_EQ(b.receive().size(), 1u);
  ASSERT_TRUE(b.port->sleep().arm());
  EXPECT_FALSE(b.wake_fd_ready());
  for (int i = 0; i < 10; i++) a.send(frame);
  EXPECT_TRUE(b.wake_fd_ready());
  EXPECT_EQ(a.port->counters().wakes_sent, 1u);
  EXPECT_EQ(b.receive().size(), 10u);
  b.turn();
  EXPECT_FALSE(b.wake_fd_ready());
  ASSERT_TRUE(b.port->sleep().arm());
  a.send(frame);
  EXPECT_EQ(a.port->counters().wakes_sent, 2u) << "another sleep";
}

/// The sender's socket is full of letters that the first sleepers have not read.
TEST(SegmentPort, WhoCouldNotBeWokenAtOnceIsWokenLater) {
  const TempDir dir;
  Node a(dir, record_of("host", 1));
  auto sleepers = sleepers_of(a, dir);
  const auto to = [](Node& node) { return roce_frame(mac_of(1), node.qpn(), 90); };
  for (auto& node : sleepers) a.send(to(*node));
  const uint64_t at_once = a.port->counters().wakes_sent;
  EXPECT_LT(at_once, sleepers.size()) << "the socket was not full";
  EXPECT_FALSE(a.port->sleep().arm(true));
  EXPECT_TRUE(a.port->sleep().arm()) << "it will look again soon";
  a.port->sleep().disarm();
  size_t got = 0;
  for (size_t round = 0; round < sleepers.size(); round++) {
    for (auto& node : sleepers) {
      if (!node->wake_fd_ready()) continue;
      got += node->receive().size();
      node->turn();
    }
    a.turn();
  }
  EXPECT_EQ(got, sleepers.size());
  EXPECT_EQ(a.port->counters().wakes_sent, sleepers.size()) << "each once";
  EXPECT_TRUE(a.port->sleep().arm(true));
}

/// Lent buffers may all go to one receiver that does not read, so the last ones are not lent a whole burst at a time.
TEST(SegmentPort, OfTheLastBuffersFewAreLentAtATime) {
  const TempDir dir;
  Node a(dir, record_of("host", 1));
  std::vector<TxFrame> lent(kPoolFrames);
  uint32_t count = 0;
  while (kPoolFrames - count >= FramePool::kReserve)
    count += a.port->acquire_tx(&lent[count], std::min(Port::kMaxBurst, kPoolFrames - count));
  while (count < kPoolFrames) {
    const uint32_t few = a.port->acquire_tx(&lent[count], Port::kMaxBurst);
    ASSERT_GT(few, 0u) << count;
    ASSERT_LT(few, Port::kMaxBurst) << count;
    count += few;
  }
  EXPECT_EQ(a.port->acquire_tx(lent.data(), 1), 0u);
}

/// Each peer could fill every burst.
TEST(SegmentPort, EachBurstBeginsWithAnotherPeer) {
  const TempDir dir;
  Node b(dir, record_of("host", 1)), first(dir, record_of("host", 1)), second(dir, record_of("host", 1)),
      third(dir, record_of("host", 1));
  const auto frame = roce_frame(mac_of(1), b.qpn(), 60);
  for (Node* peer : {&first, &second, &third}) {
    peer->turn();
    ASSERT_TRUE(peer->send(frame));
    settle({peer, &b});
    ASSERT_EQ(b.receive().size(), 1u);
  }
  for (Node* peer : {&first, &second, &third}) {
    for (int i = 0; i < 200; i++) ASSERT_TRUE(peer->send(frame));
  }
  for (const uint32_t burst : {1u, 16u, 32u}) {
    std::map<void*, int> began;
    for (int i = 0; i < 9; i++) {
      RxFrame frames[Port::kMaxBurst];
      ASSERT_EQ(b.port->receive(frames, burst), burst);
      began[frames[0].token]++;
      b.port->release_rx(frames, burst);
    }
    EXPECT_EQ(began.size(), 3u) << burst;
    for (const auto& [peer, times] : began) EXPECT_EQ(times, 3) << burst;
  }
}

TEST(SegmentPort, TheFirstFrameWakesASleeper) {
  const TempDir dir;
  Node a(dir, record_of("host", 1)), b(dir, record_of("host", 1));
  const auto frame = roce_frame(mac_of(1), b.qpn(), 90);
  b.turn();
  ASSERT_TRUE(b.port->sleep().arm());
  a.turn();
  a.send(frame);
  EXPECT_TRUE(b.wake_fd_ready());
}

TEST(SegmentPort, AReceiverThatTakesNothingHoldsUpNobodyElse) {
  const TempDir dir;
  Node a(dir, record_of("host", 1)), stopped(dir, record_of("host", 1)), b(dir, record_of("host", 1));
  const uint32_t qpn = stopped.qpn();
  const auto for_b = roce_frame(mac_of(1), b.qpn(), 3000);
  a.turn();
  for (int i = 0; i < 1000 && !a.port->congested(mac_of(1), qpn); i++) a.send(roce_frame(mac_of(1), qpn, 3000));
  EXPECT_TRUE(a.port->congested(mac_of(1), qpn));
  EXPECT_EQ(a.port->counters().tx_dropped_full, 0u);
  for (int i = 0; i < 2000; i++) {
    ASSERT_FALSE(a.port->congested(mac_of(1), b.qpn()));
    ASSERT_TRUE(a.send(for_b));
    if (i == 0) settle({&b, &a});
    ASSERT_EQ(b.receive().size(), 1u);
  }
}

TEST(SegmentPort, ManyReceiversThatTakeNothingLeaveRoomForTheOthers) {
  const TempDir dir;
  Node a(dir, record_of("host", 1)), b(dir, record_of("host", 1));
  const auto for_b = roce_frame(mac_of(1), b.qpn(), 3000);
  std::vector<std::unique_ptr<Node>> stopped;
  for (int i = 0; i < 24; i++) {
    stopped.push_back(std::make_unique<Node>(dir, record_of("host", 1)));
    stopped.back()->qpn();
  }
  a.turn();
  const auto press = [&] {
    for (const auto& node : stopped) {
      for (int i = 0; i < 600 && !a.port->congested(mac_of(1), node->qpn()); i++)
        ASSERT_TRUE(a.send(roce_frame(mac_of(1), node->qpn(), 3000)));
    }
    for (int i = 0; i < 50; i++) {
      ASSERT_FALSE(a.port->congested(mac_of(1), b.qpn()));
      ASSERT_TRUE(a.send(for_b));
      settle({&b});
      ASSERT_EQ(b.receive().size(), 1u) << i;
      a.turn();
    }
  };
  press();
  for (int i = 0; i < 20; i++) a.turn(milliseconds(130));  // by now both are known to be stuck
  press();
}

TEST(SegmentPort, AReceiverThatTakesNothingForASecondLosesFrames) {
  const TempDir dir;
  Node a(dir, record_of("host", 1)), stopped(dir, record_of("host", 1));
  const uint32_t qpn = stopped.qpn();
  a.turn();
  for (int i = 0; i < 300; i++) a.send(roce_frame(mac_of(1), qpn, 100));
  for (int i = 0; i < 6; i++) a.turn(milliseconds(130));
  EXPECT_TRUE(a.port->tx_pending());
  EXPECT_TRUE(a.port->congested(mac_of(1), qpn));
  for (int i = 0; i < 6; i++) a.turn(milliseconds(130));
  EXPECT_FALSE(a.port->tx_pending());
  EXPECT_FALSE(a.port->congested(mac_of(1), qpn));
  EXPECT_EQ(a.port->counters().tx_dropped_stuck, 44u);
  // When it reads again, all goes on.
  settle({&stopped, &a});
  size_t received = 0;
  for (size_t got = 1; got != 0; received += got) got = stopped.receive().size();
  EXPECT_EQ(received, kSlots);
  for (int i = 0; i < 4; i++) a.turn(milliseconds(130));
  a.send(roce_frame(mac_of(1), qpn, 100));
  EXPECT_EQ(stopped.receive().size(), 1u);
}

/// A program that waits makes no turns. A frame that it sends afterwards is not as old as its last turn.
TEST(SegmentPort, WhatIsSentAfterALongSleepIsNotStuck) {
  const TempDir dir;
  Node a(dir, record_of("host", 1)), b(dir, record_of("host", 1));
  const auto frame = roce_frame(mac_of(1), b.qpn(), 4000);
  for (const bool known : {false, true}) {
    a.now = a.now + milliseconds(5000);
    for (int i = 0; i < 200; i++) ASSERT_TRUE(a.send(frame));
    a.turn();
    for (int i = 0; i < 100; i++) ASSERT_TRUE(a.send(frame));
    size_t received = 0;
    for (int i = 0; i < 40; i++) {
      b.turn();
      received += b.receive().size();
      a.turn();
    }
    EXPECT_EQ(received, 300u) << (known ? "with whom there was contact" : "the first frames");
    EXPECT_EQ(a.port->counters().tx_dropped_stuck, 0u);
  }
}

TEST(SegmentPort, KnowsWhetherWhatItSentHasBeenRead) {
  const TempDir dir;
  Node a(dir, record_of("host", 1)), b(dir, record_of("host", 1));
  const uint32_t qpn = b.qpn();
  a.turn();
  EXPECT_FALSE(a.port->peers().unread());
  a.send(roce_frame(mac_of(1), qpn, 100));
  EXPECT_TRUE(a.port->peers().unread()) << "also before the receiver knows of the sender";
  settle({&b, &a});
  EXPECT_TRUE(a.port->peers().unread());
  ASSERT_EQ(b.receive().size(), 1u);
  settle({&b, &a});
  EXPECT_FALSE(a.port->peers().unread());
}

TEST(SegmentPort, APeerThatLeavesIsForgottenAndWhatItSentIsNot) {
  const TempDir dir;
  Node a(dir, record_of("host", 1));
  auto b = std::make_unique<Node>(dir, record_of("host", 1));
  const uint32_t gone = b->qpn();
  const auto frame = roce_frame(mac_of(1), a.qpn(), 3000);
  a.turn();
  a.send(roce_frame(mac_of(1), gone, 3000));
  settle({&a, b.get()});
  b->send(frame);
  b.reset();
  std::vector<LostMember> lost;
  a.port->on_lost([&](const LostMember& member, Instant) { lost.push_back(member); });
  for (int i = 0; i < 10; i++) a.turn(milliseconds(100));
  EXPECT_EQ(a.port->counters().peers_lost, 0u) << "not before its last frames were received";
  EXPECT_TRUE(lost.empty());
  EXPECT_EQ(a.receive(), Frames{frame});
  for (int i = 0; i < 10; i++) a.turn(milliseconds(100));
  EXPECT_EQ(a.port->counters().peers_lost, 1u);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].mac, mac_of(1));
  EXPECT_TRUE(lost[0].drew(gone >> kQpnBlockBits << 20 | 0x4ea0));
  EXPECT_FALSE(lost[0].drew(a.qpn() >> kQpnBlockBits << 20 | 0x4ea0)) << "of another";
  a.send(roce_frame(mac_of(1), gone, 3000));
  EXPECT_EQ(a.port->counters().tx_dropped_nobody, 1u);
}

TEST(SegmentPort, APeerThatIsKilledIsForgottenWithinASecond) {
  const TempDir dir;
  Node a(dir, record_of("host", 1));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    Node b(dir, record_of("host", 1));
    const uint32_t qpn = b.qpn();
    if (write(ends[1], &qpn, sizeof qpn) != sizeof qpn) _exit(1);
    for (;;) {
      b.turn();
      usleep(1000);
    }
  }
  uint32_t qpn = 0;
  ASSERT_EQ(read(ends[0], &qpn, sizeof qpn), static_cast<ssize_t>(sizeof qpn));
  a.turn();
  a.send(roce_frame(mac_of(1), qpn, 3000));
  for (int i = 0; i < 100; i++) {
    a.turn();
    usleep(1000);
  }
  EXPECT_EQ(a.port->counters().peers_lost, 0u);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  for (int i = 0; i < 10; i++) a.turn(milliseconds(100));
  EXPECT_EQ(a.port->counters().peers_lost, 1u);
  EXPECT_EQ(dir.count('s'), 1u);
  close(ends[0]);
  close(ends[1]);
}

TEST(SegmentPort, SomebodyTidiesUpBehindAStranger) {
  const TempDir dir;
  Node a(dir, record_of("host", 1));
  in_killed_child([&] { new Node(dir, record_of("host", 1)); });
  EXPECT_EQ(dir.count('s'), 2u);
  for (int i = 0; i < 12; i++) a.turn(milliseconds(100));
  EXPECT_EQ(dir.count('s'), 1u);
}

TEST(SegmentPort, AChildDoesNotKeepItsParentAlive) {
  const TempDir dir;
  Node a(dir, record_of("host", 1));
  int end_of_child[2], abandoned[2];
  ASSERT_TRUE(pipe(end_of_child) == 0 && pipe(abandoned) == 0);
  in_killed_child([&] {
    auto* b = new Node(dir, record_of("host", 1));
    close(end_of_child[1]);
    char byte = 0;
    if (fork() != 0) {
      while (read(abandoned[0], &byte, 1) != 1) continue;
      return;
    }
    b->port->abandon();
    if (write(abandoned[1], &byte, 1) != 1) _exit(1);
    _exit(read(end_of_child[0], &byte, 1) == 0 ? 0 : 1);
  });
  for (const int fd : {end_of_child[0], abandoned[0], abandoned[1]}) close(fd);
  EXPECT_EQ(dir.count('s'), 2u);
  for (int i = 0; i < 12; i++) a.turn(milliseconds(100));
  EXPECT_EQ(dir.count('s'), 1u);
  close(end_of_child[1]);
}

TEST(SegmentPort, AnswersForTheHostsOfTheSegment) {
  const TempDir dir;
  Node a(dir, record_of("one", 1)), b(dir, record_of("two", 2));
  a.turn();
  std::vector<uint8_t> frame(128);
  Arp request;
  request.operation = Arp::kRequest;
  request.sender_mac = mac_of(1);
  request.sender_ip = *parse_ip("10.0.0.1");
  request.target_ip = *parse_ip("10.0.0.2");
  frame.resize(encode_arp(frame, {kBroadcastMac, mac_of(1), 0}, request));
  a.send(frame);
  const auto answers = a.receive();
  ASSERT_EQ(answers.size(), 1u);
  const auto link = decode_link(answers[0]);
  ASSERT_TRUE(link);
  const auto arp = decode_arp(*link);
  ASSERT_TRUE(arp);
  EXPECT_EQ(arp->operation, Arp::kReply);
  EXPECT_EQ(arp->sender_mac, mac_of(2));
  EXPECT_EQ(arp->sender_ip, *parse_ip("10.0.0.2"));
  EXPECT_TRUE(a.warnings.empty());
}

TEST(SegmentPort, AnswersNeighbourSolicitations) {
  const TempDir dir;
  Node a(dir, record_of("one", 1)), b(dir, record_of("two", 2));
  a.turn();
  std::vector<uint8_t> frame(128);
  NeighbourMessage message;
  message.src_ip = link_local_of(mac_of(1));
  message.target = link_local_of(mac_of(2));
  message.dst_ip = solicited_node_multicast(message.target);
  message.link_layer = mac_of(1);
  frame.resize(encode_neighbour_message(frame, {multicast_mac(message.dst_ip), mac_of(1), 0}, message));
  a.send(frame);
  const auto answers = a.receive();
  ASSERT_EQ(answers.size(), 1u);
  const auto link = decode_link(answers[0]);
  const auto icmp = link ? decode_icmp(*link) : std::nullopt;
  const auto answer = icmp ? decode_neighbour_message(*icmp) : std::nullopt;
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->advertisement && answer->solicited);
  EXPECT_EQ(answer->target, link_local_of(mac_of(2)));
  EXPECT_EQ(answer->link_layer, mac_of(2));
}

TEST(SegmentPort, SaysOnceThatThereIsNoWay) {
  const TempDir dir;
  Node a(dir, record_of("one", 1));
  a.turn();
  std::vector<uint8_t> frame(128);
  Arp request;
  request.operation = Arp::kRequest;
  request.sender_mac = mac_of(1);
  request.sender_ip = *parse_ip("10.0.0.1");
  request.target_ip = *parse_ip("10.0.0.99");
  frame.resize(encode_arp(frame, {kBroadcastMac, mac_of(1), 0}, request));
  for (int i = 0; i < 3; i++) a.send(frame);
  EXPECT_TRUE(a.receive().empty());
  ASSERT_EQ(a.warnings.size(), 1u);
  EXPECT_EQ(a.warnings[0],
            "there is no way to 10.0.0.99: no program of this machine has that address; where it is another machine's, "
            "say over "
            "which interface: --port net_af_packet0,iface=eth0, or run uroced");
}

TEST(SegmentPort, LosesNoBuffer) {
  const TempDir dir;
  Node a(dir, record_of("host", 1));
  a.turn();
  TxFrame frames[64];
  for (int i = 0; i < 1000; i++) {
    const uint32_t count = a.port->acquire_tx(frames, 64);
    ASSERT_EQ(count, 64u) << i;
    for (uint32_t k = 0; k < count; k += 2) {  // every other one, for an unknown member or with bytes of no frame
      const auto bytes = k % 8 == 0 ? roce_frame(mac_of(9), 0x5007, 300) : std::vector<uint8_t>(k + 1, 0xFF);
      std::memcpy(frames[k].data, bytes.data(), bytes.size());
      frames[k].bytes = static_cast<uint32_t>(bytes.size());
    }
    a.port->send(frames, count);
  }
}

TEST(SegmentPort, ThatCannotJoinSaysWhy) {
  SegmentOptions options;
  options.directory = "/proc/nowhere";
  options.record = record_of("host", 1);
  std::string error;
  EXPECT_FALSE(SegmentPort::join(options, error));
  EXPECT_NE(error.find("cannot create /proc/nowhere"), std::string::npos) << error;
}

}  // namespace
}  // namespace uroce::segment
