// Asking, answering, announcing; the table; ping.
#include <gtest/gtest.h>

#include <memory>

#include "base/big_endian.h"
#include "base/random.h"
#include "neighbours_fixture.h"
#include "transport/counters.h"
#include "transport/qp.h"

namespace uroce::test {
namespace {

Bytes echo_request(bool ipv6, const MacAddress& to, size_t data_bytes) {
  // An echo reply turned into a request: type and checksum are changed by hand.
  Bytes message = {static_cast<uint8_t>(ipv6 ? 128 : 8), 0, 0, 0, 0, 1, 0, 2};
  for (size_t i = 0; i < data_bytes; i++) message.push_back(static_cast<uint8_t>(i));
  Icmp icmp;
  icmp.src_ip = ipv6 ? ip("fd00::1") : ip("10.0.0.1");  // encode_echo_reply swaps them
  icmp.dst_ip = ipv6 ? ip("fd00::2") : ip("10.0.0.2");
  icmp.message = message;
  Bytes frame(9000);
  frame.resize(encode_echo_reply(frame, {to, kPeer, 0}, icmp));
  uint8_t* p = frame.data() + 14 + (ipv6 ? 40 : 20);
  const auto old_word = load_be16(p);
  p[0] = ipv6 ? 128 : 8;
  uint32_t sum = static_cast<uint16_t>(~load_be16(p + 2));
  sum += static_cast<uint16_t>(~old_word);
  sum += load_be16(p);
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  store_be16(p + 2, static_cast<uint16_t>(~sum));
  return frame;
}

TEST_F(NeighboursTest, NothingToSayAtFirst) {
  EXPECT_EQ(neighbours_->next_timeout(), Instant::never());
  EXPECT_TRUE(poll(kStart).empty());
  EXPECT_FALSE(neighbours_->lookup(ip("10.0.0.2"), 0));
}

TEST_F(NeighboursTest, AsksAndLearns) {
  neighbours_->want(ip("10.0.0.2"), addresses_[0], kStart);
  EXPECT_LE(neighbours_->next_timeout(), kStart);
  const auto asked = sent_arp(poll(kStart), 0, kBroadcastMac);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->operation, Arp::kRequest);
  EXPECT_EQ(asked->sender_mac, kOurs);
  EXPECT_EQ(asked->sender_ip, ip("10.0.0.1"));
  EXPECT_EQ(asked->target_ip, ip("10.0.0.2"));
  EXPECT_TRUE(poll(kStart).empty());
  EXPECT_EQ(neighbours_->next_timeout(), kStart + milliseconds(10));

  EXPECT_TRUE(receive(reply(kPeer, "10.0.0.2", "10.0.0.1")));
  EXPECT_EQ(neighbours_->lookup(ip("10.0.0.2"), 0), kPeer);
  ASSERT_EQ(resolved_.size(), 1u);
  EXPECT_EQ(resolved_[0], (Resolution{ip("10.0.0.2"), 0, kPeer}));
  EXPECT_TRUE(poll(kStart + milliseconds(100000)).empty());
  EXPECT_EQ(counters_.arp_tx, 1u);
  EXPECT_EQ(counters_.arp_rx, 1u);
}

TEST_F(NeighboursTest, AsksByNeighbourDiscovery) {
  neighbours_->want(ip("fd01::2"), addresses_[3], kStart);
  const Bytes frame = poll(kStart);
  const auto asked = sent_nd(frame, 100, mac("33:33:ff:00:00:02"));
  ASSERT_TRUE(asked);
  EXPECT_FALSE(asked->advertisement);
  EXPECT_EQ(asked->src_ip, ip("fd01::1"));
  EXPECT_EQ(asked->dst_ip, ip("ff02::1:ff00:2"));
  EXPECT_EQ(asked->target, ip("fd01::2"));
  EXPECT_EQ(asked->link_layer, kOurs);

  EXPECT_FALSE(receive(answer(kPeer, "fd01::2", "fd01::1")));  // on another VLAN, so of another host
  EXPECT_FALSE(neighbours_->lookup(ip("fd01::2"), 100));
  EXPECT_TRUE(receive(answer(kPeer, "fd01::2", "fd01::1", 100)));
  EXPECT_EQ(neighbours_->lookup(ip("fd01::2"), 100), kPeer);
  EXPECT_FALSE(neighbours_->lookup(ip("fd01::2"), 0));
  EXPECT_EQ(counters_.nd_tx, 1u);
  EXPECT_EQ(counters_.nd_rx, 1u);
}

TEST_F(NeighboursTest, AsksAgainMoreAndMoreSeldomAndGivesUp) {
  neighbours_->want(ip("10.0.0.2"), addresses_[0], kStart);
  std::vector<int64_t> sent_ms;
  for (int64_t t = 0; t < 60000; t++) {
    const Instant now = kStart + milliseconds(t);
    const bool due = neighbours_->next_timeout() <= now;
    const bool sent = !poll(now).empty();
    ASSERT_EQ(sent, due) << t;
    if (sent) sent_ms.push_back(t);
  }
  EXPECT_EQ(sent_ms, (std::vector<int64_t>{0, 10, 30, 70, 150, 310, 630, 1270, 2270, 3270, 4270, 5270, 6270}));
  EXPECT_EQ(sent_ms.size(), NeighbourTable::kAttempts);
  EXPECT_EQ(neighbours_->next_timeout(), Instant::never());

  const Instant later = kStart + milliseconds(70000);  // wanting it again starts anew
  neighbours_->want(ip("10.0.0.2"), addresses_[0], later);
  EXPECT_FALSE(poll(later).empty());
  EXPECT_EQ(neighbours_->next_timeout(), later + milliseconds(10));
  EXPECT_TRUE(receive(reply(kPeer, "10.0.0.2", "10.0.0.1"), later));
  EXPECT_EQ(neighbours_->lookup(ip("10.0.0.2"), 0), kPeer);
}

TEST_F(NeighboursTest, AnswersArpAndLearnsWhoAsked) {
  EXPECT_TRUE(receive(request(kPeer, "10.0.0.2", "10.0.0.1")));
  EXPECT_LE(neighbours_->next_timeout(), kStart);
  const auto answer = sent_arp(poll(kStart), 0, kPeer);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->operation, Arp::kReply);
  EXPECT_EQ(answer->sender_mac, kOurs);
  EXPECT_EQ(answer->sender_ip, ip("10.0.0.1"));
  EXPECT_EQ(answer->target_mac, kPeer);
  EXPECT_EQ(answer->target_ip, ip("10.0.0.2"));
  EXPECT_EQ(neighbours_->lookup(ip("10.0.0.2"), 0), kPeer);
  EXPECT_EQ(neighbours_->next_timeout(), Instant::never());
}

TEST_F(NeighboursTest, AnswersOnTheVlanOfTheQuestionOnly) {
  EXPECT_TRUE(receive(request(kPeer, "10.1.0.2", "10.1.0.1", 100)));
  EXPECT_TRUE(sent_arp(poll(kStart), 100, kPeer));
  EXPECT_FALSE(receive(request(kPeer, "10.1.0.2", "10.1.0.1", 0)));
  EXPECT_FALSE(receive(request(kPeer, "10.1.0.2", "10.1.0.1", 101)));
  EXPECT_FALSE(receive(request(kPeer, "10.0.0.2", "10.0.0.1", 100)));
  EXPECT_TRUE(poll(kStart).empty());
  EXPECT_TRUE(receive(solicitation(kPeer, "fd01::2", "fd01::1", 100)));
  EXPECT_TRUE(sent_nd(poll(kStart), 100, kPeer));
  EXPECT_FALSE(receive(solicitation(kPeer, "fd01::2", "fd01::1", 0)));
}

TEST_F(NeighboursTest, AnswersSolicitations) {
  EXPECT_TRUE(receive(solicitation(kPeer, "fd00::2", "fd00::1")));
  const auto answer = sent_nd(poll(kStart), 0, kPeer);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->advertisement && answer->solicited && answer->override_cache);
  EXPECT_EQ(answer->src_ip, ip("fd00::1"));
  EXPECT_EQ(answer->dst_ip, ip("fd00::2"));
  EXPECT_EQ(answer->target, ip("fd00::1"));
  EXPECT_EQ(answer->link_layer, kOurs);
  EXPECT_EQ(neighbours_->lookup(ip("fd00::2"), 0), kPeer);
}

TEST_F(NeighboursTest, DefendsItsAddressAgainstAProbe) {
  EXPECT_TRUE(receive(solicitation(kPeer, "::", "fd00::1")));
  const auto answer = sent_nd(poll(kStart), 0, mac("33:33:00:00:00:01"));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->advertisement && answer->override_cache);
  EXPECT_FALSE(answer->solicited);
  EXPECT_EQ(answer->dst_ip, all_nodes_multicast());
  // The same in IPv4: a probe has no sender address.
  EXPECT_TRUE(receive(request(kPeer, "0.0.0.0", "10.0.0.1")));
  EXPECT_TRUE(sent_arp(poll(kStart), 0, kPeer));
  EXPECT_TRUE(resolved_.empty());
}

TEST_F(NeighboursTest, IsSilentAboutOthers) {
  EXPECT_FALSE(receive(request(kPeer, "10.0.0.2", "10.0.0.3")));
  EXPECT_FALSE(receive(solicitation(kPeer, "fd00::2", "fd00::3")));
  EXPECT_FALSE(receive(arp_frame({Arp::kRequest, kPeer, ip("10.0.0.2"), {}, ip("10.0.0.1")}, kOther)));  // not for us
  EXPECT_FALSE(receive(request(kOurs, "10.0.0.2", "10.0.0.1")));  // our own frame, come back
  EXPECT_TRUE(poll(kStart).empty());
  EXPECT_FALSE(neighbours_->lookup(ip("10.0.0.2"), 0));
}

TEST_F(NeighboursTest, AskersFromElsewhereAreAnsweredButNotKept) {
  EXPECT_TRUE(receive(request(kPeer, "192.168.1.2", "10.0.0.1")));
  EXPECT_FALSE(poll(kStart).empty());
  EXPECT_FALSE(neighbours_->lookup(ip("192.168.1.2"), 0));
}

TEST_F(NeighboursTest, AnnouncesEveryAddressOnce) {
  neighbours_->announce();
  EXPECT_LE(neighbours_->next_timeout(), kStart);
  const auto arp = sent_arp(poll(kStart), 0, kBroadcastMac);
  ASSERT_TRUE(arp);
  EXPECT_EQ(arp->sender_ip, ip("10.0.0.1"));
  EXPECT_EQ(arp->target_ip, ip("10.0.0.1"));
  const auto nd = sent_nd(poll(kStart), 0, mac("33:33:00:00:00:01"));
  ASSERT_TRUE(nd);
  EXPECT_TRUE(nd->advertisement && nd->override_cache && !nd->solicited);
  EXPECT_EQ(nd->target, ip("fd00::1"));
  EXPECT_TRUE(sent_arp(poll(kStart), 100, kBroadcastMac));
  EXPECT_TRUE(sent_nd(poll(kStart), 100, mac("33:33:00:00:00:01")));
  EXPECT_TRUE(poll(kStart).empty());
  EXPECT_EQ(neighbours_->next_timeout(), Instant::never());
}

TEST_F(NeighboursTest, LookupKnowsMulticastAndItself) {
  EXPECT_EQ(neighbours_->lookup(ip("224.0.0.5"), 0), mac("01:00:5e:00:00:05"));
  EXPECT_EQ(neighbours_->lookup(ip("ff02::5"), 7), mac("33:33:00:00:00:05"));
  EXPECT_EQ(neighbours_->lookup(ip("10.0.0.1"), 0), kOurs);
  EXPECT_EQ(neighbours_->lookup(ip("fd01::1"), 100), kOurs);
  EXPECT_FALSE(neighbours_->lookup(ip("fd01::1"), 0));
}

TEST_F(NeighboursTest, WantsOnlyWhatCanBeAsked) {
  neighbours_->want(ip("224.0.0.5"), addresses_[0], kStart);
  neighbours_->want(ip("10.0.0.1"), addresses_[0], kStart);
  neighbours_->want(ip("fd00::2"), addresses_[0], kStart);  // cannot be asked for from an IPv4 address
  neighbours_->want(ip("0.0.0.0"), addresses_[0], kStart);
  EXPECT_EQ(neighbours_->next_timeout(), Instant::never());
}

TEST_F(NeighboursTest, AnswersPing) {
  for (const bool ipv6 : {false, true}) {
    EXPECT_TRUE(receive(echo_request(ipv6, kOurs, 56)));
    const Bytes answer = poll(kStart);
    const auto link = decode_link(answer);
    ASSERT_TRUE(link);
    EXPECT_EQ(link->dst_mac, kPeer);
    const auto icmp = decode_icmp(*link);
    ASSERT_TRUE(icmp);
    EXPECT_EQ(icmp->type(), ipv6 ? 129 : 0);
    EXPECT_EQ(icmp->src_ip, ipv6 ? ip("fd00::1") : ip("10.0.0.1"));
    EXPECT_EQ(icmp->message.size(), 64u);
  }
  EXPECT_EQ(counters_.echo_replies, 2u);
  EXPECT_FALSE(receive(echo_request(false, kBroadcastMac, 56)));
}

TEST_F(NeighboursTest, PingsTooLongForAReplyAreDropped) {
  EXPECT_TRUE(receive(echo_request(false, kOurs, 4000)));
  EXPECT_TRUE(poll(kStart).empty());
  EXPECT_TRUE(receive(echo_request(false, kOurs, 1400)));
  EXPECT_TRUE(poll(kStart, 1000).empty());  // nor into a buffer that is too small
  EXPECT_EQ(counters_.rx_drop_ping, 1u);
  EXPECT_EQ(neighbours_->next_timeout(), Instant::never());
}

TEST_F(NeighboursTest, AFloodFillsTheQueueAndNothingElse) {
  for (int i = 0; i < 1000; i++) EXPECT_TRUE(receive(request(kPeer, "10.0.0.2", "10.0.0.1")));
  for (int i = 0; i < 1000; i++) EXPECT_TRUE(receive(echo_request(false, kOurs, 56)));
  EXPECT_EQ(counters_.rx_drop_ping, 1000u);
  for (int i = 0; i < 1000; i++) EXPECT_TRUE(receive(solicitation(kPeer, "fd00::2", "fd00::1")));
  unsigned replies = 0;
  for (Bytes frame = poll(kStart); !frame.empty(); frame = poll(kStart)) {
    EXPECT_TRUE(sent_arp(frame, 0, kPeer));
    replies++;
  }
  EXPECT_EQ(replies, 32u);
}

TEST_F(NeighboursTest, AFullTableKeepsWhatIsWanted) {
  restart({local("10.0.0.1/8")});
  neighbours_->want(ip("10.0.0.2"), addresses_[0], kStart);
  EXPECT_TRUE(receive(reply(kPeer, "10.0.0.2", "10.0.0.1")));
  for (uint32_t i = 0; i < 5000; i++) {
    const Arp arp{Arp::kRequest, kPeer, IpAddress::v4(0x0a010000 + i), {}, ip("10.0.0.1")};
    EXPECT_TRUE(receive(arp_frame(arp, kBroadcastMac)));
  }
  EXPECT_TRUE(neighbours_->lookup(IpAddress::v4(0x0a010000), 0));
  EXPECT_FALSE(neighbours_->lookup(IpAddress::v4(0x0a010000 + 4999), 0));
  // Addresses that we want displace those known from questions only,
  for (uint32_t i = 0; i < NeighbourTable::kMax - 1; i++) {
    neighbours_->want(IpAddress::v4(0x0a020000 + i), addresses_[0], kStart);
  }
  EXPECT_FALSE(neighbours_->lookup(IpAddress::v4(0x0a010000), 0));
  EXPECT_EQ(neighbours_->lookup(ip("10.0.0.2"), 0), kPeer);
  // then those that are known (each user of the address has its own copy),
  neighbours_->want(ip("10.9.9.9"), addresses_[0], kStart);
  EXPECT_FALSE(neighbours_->lookup(ip("10.0.0.2"), 0));
  EXPECT_EQ(counters_.tx_neighbour_unresolved, 0u);
  // and none that is being asked for.
  neighbours_->want(ip("10.9.9.10"), addresses_[0], kStart);
  EXPECT_EQ(counters_.tx_neighbour_unresolved, 1u);
  EXPECT_TRUE(receive(reply(kPeer, "10.9.9.9", "10.0.0.1")));
  EXPECT_EQ(neighbours_->lookup(ip("10.9.9.9"), 0), kPeer);
}

TEST_F(NeighboursTest, TheCallbackMayWantMore) {
  Counters counters;
  std::unique_ptr<Neighbours> neighbours;
  neighbours = std::make_unique<Neighbours>(
      kOurs, addresses_, counters,
      [&](const IpAddress&, uint16_t, const MacAddress&) { neighbours->want(ip("10.0.0.7"), addresses_[0], kStart); },
      [](const NeighbourNews&) {});
  EXPECT_TRUE(neighbours->on_frame(request(kPeer, "10.0.0.2", "10.0.0.1"), kStart));
  EXPECT_EQ(neighbours->lookup(ip("10.0.0.2"), 0), kPeer);
}

TEST_F(NeighboursTest, AnyBytesAtAll) {
  SeededRandom random(21);
  const Bytes seeds[] = {request(kPeer, "10.0.0.2", "10.0.0.1"), solicitation(kPeer, "fd00::2", "fd00::1"),
                         advertisement(kPeer, "fd00::2"),        echo_request(false, kOurs, 20),
                         echo_request(true, kOurs, 20),          request(kPeer, "10.1.0.2", "10.1.0.1", 100)};
  unsigned handled = 0;
  for (int repeat = 0; repeat < 200000; repeat++) {
    Bytes frame = seeds[random.below(6)];
    for (uint32_t changes = random.below(4); changes > 0; changes--) {
      frame[random.below(static_cast<uint32_t>(frame.size()))] = static_cast<uint8_t>(random.next_u32());
    }
    if (random.below(4) == 0) frame.resize(random.below(static_cast<uint32_t>(frame.size()) + 1));
    const std::unique_ptr<uint8_t[]> exact(new uint8_t[frame.size()]);
    std::copy(frame.begin(), frame.end(), exact.get());
    if (neighbours_->on_frame({exact.get(), frame.size()}, kStart)) handled++;
    if (random.below(8) == 0) poll(kStart);
  }
  EXPECT_GT(handled, 10000u);
  EXPECT_LT(handled, 190000u);
}

}  // namespace
}  // namespace uroce::test
