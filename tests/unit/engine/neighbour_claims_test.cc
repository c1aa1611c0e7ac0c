// What other hosts say about addresses that are in use, or ours: which host keeps them, and how soon they move.
#include <gtest/gtest.h>

#include "neighbours_fixture.h"

namespace uroce::test {
namespace {

TEST_F(NeighboursTest, WantingAKnownAddressVerifiesItAtMostOnceASecond) {
  meet();
  for (int64_t t = 0; t <= 5000; t++) {
    const Instant now = kStart + milliseconds(t);
    neighbours_->want(ip("10.0.0.2"), addresses_[0], now);
    live(now, now, {kPeer});
    ASSERT_TRUE(holds("10.0.0.2", kPeer));
  }
  EXPECT_EQ(asked_, (std::vector<std::pair<Instant, MacAddress>>{{kStart + milliseconds(1000), kPeer},
                                                                 {kStart + milliseconds(2000), kPeer},
                                                                 {kStart + milliseconds(3000), kPeer},
                                                                 {kStart + milliseconds(4000), kPeer},
                                                                 {kStart + milliseconds(5000), kPeer}}));
  EXPECT_TRUE(resolved_.empty());
  EXPECT_TRUE(news_.empty());
}

/// A peer died, and a host with another MAC took its address without announcing it: it is found when the address is
/// wanted.
TEST_F(NeighboursTest, AHolderThatIsGoneIsReplacedWhenWeWantIt) {
  meet();
  const Instant later = kStart + milliseconds(60000);
  neighbours_->want(ip("10.0.0.2"), addresses_[0], later);
  neighbours_->want(ip("fd00::2"), addresses_[1], later);
  live(later, later + milliseconds(309), {kOther});
  EXPECT_EQ(asked_.size(), 10u);
  for (const auto& [when, whom] : asked_) EXPECT_EQ(whom, kPeer);
  EXPECT_TRUE(holds("10.0.0.2", kPeer) && holds("fd00::2", kPeer));
  live(later + milliseconds(310), later + milliseconds(310), {kOther});
  EXPECT_TRUE(holds("10.0.0.2", kOther) && holds("fd00::2", kOther));
  EXPECT_EQ(resolved_, (std::vector<Resolution>{{ip("10.0.0.2"), 0, kOther}, {ip("fd00::2"), 0, kOther}}));
  EXPECT_EQ(news_,
            (std::vector<std::string>{"neighbour 10.0.0.2 moved from 52:54:00:00:00:02, which does not answer, to "
                                      "52:54:00:00:00:03",
                                      "neighbour fd00::2 moved from 52:54:00:00:00:02, which does not answer, to "
                                      "52:54:00:00:00:03"}));
  EXPECT_EQ(counters_.neighbour_moves, 2u);
  EXPECT_TRUE(poll(later + milliseconds(1000)).empty());
  EXPECT_EQ(neighbours_->next_timeout(), Instant::never());
}

/// When neither the holder nor any other host answers, the entry stays as it was, and the questions end.
TEST_F(NeighboursTest, ASilentHolderKeepsItsAddressWhileNobodyElseAnswers) {
  meet();
  const Instant later = kStart + milliseconds(60000);
  neighbours_->want(ip("10.0.0.2"), addresses_[0], later);
  live(later, later + milliseconds(20000), {});
  std::vector<std::pair<int64_t, bool>> asked;  // when, and whether the holder alone
  for (const auto& [when, whom] : asked_) asked.emplace_back((when - later).ns / 1000000, whom == kPeer);
  EXPECT_EQ(
      asked,
      (std::vector<std::pair<int64_t, bool>>{
          {0, true}, {10, true}, {30, true}, {70, true}, {150, true}, {310, false}, {630, false}, {1270, false}}));
  EXPECT_TRUE(holds("10.0.0.2", kPeer));
  // An answer that comes too late is a claim like others.
  receive(reply(kOther, "10.0.0.2", "10.0.0.1"), later + milliseconds(20000));
  EXPECT_TRUE(holds("10.0.0.2", kPeer));
}

/// Whatever a third host sends, in bursts.
TEST_F(NeighboursTest, AHolderThatAnswersKeepsItsAddress) {
  for (size_t kind = 0; kind < forgeries(kOther).size(); kind++) {
    restart(addresses_);
    news_.clear();
    meet();
    const Instant later = kStart + milliseconds(60000);
    for (int burst = 0; burst < 3000; burst++) {
      const Instant now = later + milliseconds(burst);
      for (int i = 0; i < 3; i++) receive(forgeries(kOther)[kind], now);
      live(now, now, {kPeer});
      ASSERT_TRUE(holds("10.0.0.2", kPeer) && holds("fd00::2", kPeer)) << kind;
    }
    EXPECT_TRUE(resolved_.empty()) << kind;
    ASSERT_EQ(news_.size(), 1u) << kind;
    EXPECT_TRUE(news_[0].starts_with("two neighbours claim ")) << news_[0];
    EXPECT_NE(news_[0].find("52:54:00:00:00:02 answers and keeps it, 52:54:00:00:00:03 is ignored"), std::string::npos);
    EXPECT_EQ(counters_.neighbour_claims, 9000u) << kind;
    // A question every 100 ms at most, however many claims there are.
    EXPECT_LE(counters_.arp_tx + counters_.nd_tx - (kind == 2 || kind == 5 ? 9000 : 0), 34u) << kind;
  }
}

/// A host that moved and announces it: the old MAC is asked in vain, then all hosts.
TEST_F(NeighboursTest, AHolderThatMovedIsFoundWithin310Milliseconds) {
  for (size_t kind = 0; kind < forgeries(kOther).size(); kind++) {
    restart(addresses_);
    news_.clear();
    meet();
    const bool v6 = kind >= 3;
    const Instant later = kStart + milliseconds(60000);
    receive(forgeries(kOther)[kind], later);
    live(later, later + milliseconds(309), {kOther});
    EXPECT_TRUE(holds(v6 ? "fd00::2" : "10.0.0.2", kPeer)) << kind;
    live(later + milliseconds(310), later + milliseconds(310), {kOther});
    EXPECT_TRUE(holds(v6 ? "fd00::2" : "10.0.0.2", kOther)) << kind;
    EXPECT_TRUE(holds(v6 ? "10.0.0.2" : "fd00::2", kPeer)) << kind;
    ASSERT_EQ(news_.size(), 1u) << kind;
    EXPECT_TRUE(news_[0].starts_with("neighbour ")) << news_[0];
  }
}

/// A host that claims an address must also answer for it: a forger that only announces gets nothing, even when the
/// holder is away.
TEST_F(NeighboursTest, AForgerWhoDoesNotAnswerGetsNothing) {
  meet();
  const Instant later = kStart + milliseconds(60000);
  for (int64_t t = 0; t < 3000; t++) {
    for (const size_t kind : {1, 2, 4, 5}) receive(forgeries(kOther)[kind], later + milliseconds(t));
    live(later + milliseconds(t), later + milliseconds(t), {});
  }
  EXPECT_TRUE(holds("10.0.0.2", kPeer) && holds("fd00::2", kPeer));
  EXPECT_TRUE(news_.empty());
}

/// Two hosts answer one question: the first has the address, and the dispute is reported.
TEST_F(NeighboursTest, TwoAnswersAreADispute) {
  neighbours_->want(ip("10.0.0.2"), addresses_[0], kStart);
  live(kStart, kStart + milliseconds(2000), {kPeer, kOther});
  EXPECT_TRUE(holds("10.0.0.2", kPeer));
  EXPECT_EQ(news_.size(), 1u);
}

/// A burst of claims, each from another MAC, logs sixteen lines and then one a minute; all are counted.
TEST_F(NeighboursTest, ForgersCannotFillTheLog) {
  meet();
  for (uint32_t i = 0; i < 600 * 60; i++) {
    const Instant now = kStart + milliseconds(60000 + 100 * int64_t{i});
    receive(reply({{2, 0, 0, static_cast<uint8_t>(i >> 16), static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i)}},
                  "10.0.0.2", "10.0.0.1"),
            now);
    live(now, now, {kPeer});
  }
  EXPECT_EQ(counters_.neighbour_claims, 36000u);
  EXPECT_GE(news_.size(), 16u + 59);
  EXPECT_LE(news_.size(), 16u + 60);
  EXPECT_TRUE(holds("10.0.0.2", kPeer));
}

/// An answer to a unicast question: Linux leaves out its link-layer address and the override flag.
TEST_F(NeighboursTest, ABareAnswerConfirmsTheHolderAndNobodyElse) {
  meet();
  const Instant later = kStart + milliseconds(60000);
  neighbours_->want(ip("fd00::2"), addresses_[1], later);
  const Bytes question = poll(later);
  const auto asked = sent_nd(question, 0, kPeer);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->dst_ip, ip("fd00::2"));
  receive(answer(kOther, "fd00::2", "fd00::1", 0, false), later);
  EXPECT_EQ(neighbours_->next_timeout(), later + milliseconds(10));
  receive(answer(kPeer, "fd00::2", "fd00::1", 0, false), later);
  EXPECT_TRUE(poll(later + milliseconds(10)).empty());
  EXPECT_EQ(neighbours_->next_timeout(), Instant::never());
  EXPECT_TRUE(holds("fd00::2", kPeer));
}

/// An address known only from a question to us may be used; when we want it, all hosts are asked, and the one that
/// answers has it.
TEST_F(NeighboursTest, HearsayGivesWayToAnAnswer) {
  EXPECT_TRUE(receive(request(kOther, "10.0.0.2", "10.0.0.1")));
  drain(kStart);
  EXPECT_TRUE(holds("10.0.0.2", kOther));
  neighbours_->want(ip("10.0.0.2"), addresses_[0], kStart);
  live(kStart, kStart, {kPeer});
  EXPECT_EQ(asked_, (std::vector<std::pair<Instant, MacAddress>>{{kStart, kBroadcastMac}}));
  EXPECT_TRUE(holds("10.0.0.2", kPeer));
  EXPECT_EQ(news_.size(), 1u);
}

/// A second question from the same host is hearsay, too, and no reason to stop asking.
TEST_F(NeighboursTest, AQuestionIsNoAnswer) {
  receive(request(kOther, "10.0.0.2", "10.0.0.1"));
  neighbours_->want(ip("10.0.0.2"), addresses_[0], kStart);
  drain(kStart);
  receive(request(kOther, "10.0.0.2", "10.0.0.1"));
  drain(kStart);
  EXPECT_EQ(neighbours_->next_timeout(), kStart + milliseconds(10));
  live(kStart + milliseconds(10), kStart + milliseconds(10), {kPeer});
  EXPECT_TRUE(holds("10.0.0.2", kPeer));
}

/// An answer comes to the host that asked. A frame to everybody may have been sent by any host, for any other.
TEST_F(NeighboursTest, AReplyToEverybodyIsNoAnswer) {
  neighbours_->want(ip("10.0.0.2"), addresses_[0], kStart);
  drain(kStart);
  receive(arp_frame({Arp::kReply, kOther, ip("10.0.0.2"), kOurs, ip("10.0.0.1")}, kBroadcastMac));
  EXPECT_FALSE(neighbours_->lookup(ip("10.0.0.2"), 0));
  receive(reply(kPeer, "10.0.0.2", "10.0.0.1"));
  EXPECT_TRUE(holds("10.0.0.2", kPeer));
}

/// An address that is not in use here: a question from another MAC replaces the entry, an announcement removes it.
TEST_F(NeighboursTest, WhatNobodyUsesIsNotDefended) {
  EXPECT_TRUE(receive(request(kPeer, "10.0.0.2", "10.0.0.1")));
  EXPECT_TRUE(receive(request(kOther, "10.0.0.2", "10.0.0.1")));
  drain(kStart);
  EXPECT_TRUE(holds("10.0.0.2", kOther));
  EXPECT_TRUE(receive(request(kPeer, "10.0.0.2", "10.0.0.2")));
  EXPECT_FALSE(neighbours_->lookup(ip("10.0.0.2"), 0));
  EXPECT_EQ(neighbours_->next_timeout(), Instant::never());
  EXPECT_TRUE(news_.empty());
}

/// When the host that we wait for announces itself, it is asked at once, and so found as early as if it had been
/// believed.
TEST_F(NeighboursTest, AnAnnouncementMakesUsAsk) {
  neighbours_->want(ip("10.0.0.2"), addresses_[0], kStart);
  for (int64_t t = 0; t < 60000; t++) poll(kStart + milliseconds(t));  // until the questions end
  const Instant later = kStart + milliseconds(60000);
  for (int i = 0; i < 1000; i++) receive(request(kPeer, "10.0.0.2", "10.0.0.2"), later);
  EXPECT_FALSE(neighbours_->lookup(ip("10.0.0.2"), 0));
  EXPECT_TRUE(sent_arp(poll(later), 0, kBroadcastMac));
  EXPECT_TRUE(poll(later).empty());
  receive(reply(kPeer, "10.0.0.2", "10.0.0.1"), later);
  EXPECT_TRUE(holds("10.0.0.2", kPeer));
}

/// Forged announcements do not use up the questions for a peer that answers late.
TEST_F(NeighboursTest, ForgedAnnouncementsDoNotEndTheAsking) {
  neighbours_->want(ip("10.0.0.2"), addresses_[0], kStart);
  for (int64_t t = 0; t < 10000; t++) {
    receive(request(kOther, "10.0.0.2", "10.0.0.2"), kStart + milliseconds(t));
    drain(kStart + milliseconds(t));
  }
  EXPECT_NE(neighbours_->next_timeout(), Instant::never());
  EXPECT_LE(counters_.arp_tx, 1001u);
}

TEST_F(NeighboursTest, NobodyIsWhereWeAre) {
  NeighbourMessage m;  // a frame of another host says that our peer has our own MAC
  m.advertisement = m.solicited = m.override_cache = true;
  m.src_ip = m.target = ip("fd00::2");
  m.dst_ip = ip("fd00::1");
  m.link_layer = kOurs;
  neighbours_->want(ip("fd00::2"), addresses_[1], kStart);
  poll(kStart);
  receive(nd_frame(m, kOther, kOurs));
  EXPECT_FALSE(neighbours_->lookup(ip("fd00::2"), 0));
}

TEST_F(NeighboursTest, AnnouncementsMakeNobodyKnown) {
  for (int i = 0; i < 1000; i++) {
    EXPECT_FALSE(receive(request(kOther, "10.0.0.2", "10.0.0.2")));
    EXPECT_TRUE(receive(reply(kOther, "10.0.0.2", "10.0.0.1")));  // for us, so it counts as ARP received
    EXPECT_FALSE(receive(advertisement(kOther, "fd00::2")));
    EXPECT_FALSE(receive(answer(kOther, "fd00::2", "fd00::1")));
  }
  EXPECT_FALSE(neighbours_->lookup(ip("10.0.0.2"), 0));
  EXPECT_FALSE(neighbours_->lookup(ip("fd00::2"), 0));
  EXPECT_TRUE(poll(kStart).empty());
}

TEST_F(NeighboursTest, AnAdvertisementWithoutOverrideDoesNotReplace) {
  meet();
  const Instant later = kStart + milliseconds(60000);
  receive(advertisement(kOther, "fd00::2", false), later);
  EXPECT_TRUE(holds("fd00::2", kPeer));
  EXPECT_TRUE(poll(later).empty());  // nor does it start questions
}

/// Addresses added later are defended, too.
TEST_F(NeighboursTest, AnAddressThatCameLaterIsDefended) {
  std::vector<LocalAddress> more = addresses_;
  for (uint32_t i = 0; i < 100; i++) more.push_back({IpAddress::v4(0x0A000A00 + i), 24});
  neighbours_->set_addresses(more);
  for (uint32_t i = 0; i < 100; i++) {
    const IpAddress& ours = more[addresses_.size() + i].ip;
    for (int again = 0; again < 2; again++) receive(request(kPeer, to_string(ours).c_str(), "10.0.0.9"));
    const auto arp = sent_arp(poll(kStart), 0, kBroadcastMac);
    ASSERT_TRUE(arp) << i;
    EXPECT_EQ(arp->sender_ip, ours);
    EXPECT_TRUE(poll(kStart).empty());
  }
}

TEST_F(NeighboursTest, OurOwnAddressIsDefendedAndTheConflictSaidOnce) {
  EXPECT_TRUE(receive(reply(kPeer, "10.0.0.1", "10.0.0.1")));
  EXPECT_TRUE(receive(request(kPeer, "10.0.0.1", "10.0.0.9")));
  EXPECT_TRUE(receive(advertisement(kOther, "fd00::1")));
  EXPECT_TRUE(receive(solicitation(kOther, "fd00::1", "fd00::1")));
  EXPECT_EQ(news_, (std::vector<std::string>{"our own address 10.0.0.1 is claimed by 52:54:00:00:00:02 (we are "
                                             "52:54:00:00:00:01): give one of the two another address",
                                             "our own address fd00::1 is claimed by 52:54:00:00:00:03 (we are "
                                             "52:54:00:00:00:01): give one of the two another address"}));
  EXPECT_EQ(counters_.address_conflicts, 4u);
  // The defence is a broadcast, at most every ten seconds.
  const auto arp = sent_arp(poll(kStart), 0, kBroadcastMac);
  ASSERT_TRUE(arp);
  EXPECT_EQ(arp->sender_ip, ip("10.0.0.1"));
  EXPECT_EQ(arp->sender_mac, kOurs);
  const auto nd = sent_nd(poll(kStart), 0, mac("33:33:00:00:00:01"));
  ASSERT_TRUE(nd);
  EXPECT_EQ(nd->target, ip("fd00::1"));
  EXPECT_TRUE(nd->override_cache);
  EXPECT_TRUE(poll(kStart).empty());
  for (int64_t t = 0; t < 10000; t++) receive(request(kPeer, "10.0.0.1", "10.0.0.9"), kStart + milliseconds(t));
  EXPECT_TRUE(poll(kStart + milliseconds(9999)).empty());
  receive(request(kPeer, "10.0.0.1", "10.0.0.9"), kStart + milliseconds(10000));
  EXPECT_TRUE(sent_arp(poll(kStart + milliseconds(10000)), 0, kBroadcastMac));
  EXPECT_EQ(news_.size(), 2u);
  EXPECT_FALSE(receive(reply(kPeer, "10.1.0.1", "10.1.0.1")));  // on the untagged network that address is free
  EXPECT_TRUE(resolved_.empty());
}

TEST_F(NeighboursTest, TheLinesAboutConflictsAreBounded) {
  for (uint8_t i = 0; i < 100; i++) receive(reply({{2, 0, 0, 0, 0, i}}, "10.0.0.1", "10.0.0.1"));
  EXPECT_EQ(news_.size(), 16u);
  EXPECT_EQ(counters_.address_conflicts, 100u);
}

TEST_F(NeighboursTest, AStaticEntryIsNeverAskedForAndNeverChanges) {
  EXPECT_TRUE(neighbours_->set_static(ip("10.0.0.2"), 0, kPeer));
  EXPECT_EQ(resolved_, (std::vector<Resolution>{{ip("10.0.0.2"), 0, kPeer}}));
  neighbours_->want(ip("10.0.0.2"), local("10.0.0.1/24"), kStart);
  EXPECT_TRUE(poll(kStart + milliseconds(5000)).empty());
  EXPECT_TRUE(receive(reply(kOther, "10.0.0.2", "10.0.0.1")));
  EXPECT_TRUE(receive(reply(kOther, "10.0.0.2", "10.0.0.1")));
  EXPECT_EQ(neighbours_->lookup(ip("10.0.0.2"), 0), kPeer);
  EXPECT_EQ(news_.size(), 1u);
  EXPECT_TRUE(poll(kStart + milliseconds(5000)).empty());
  EXPECT_FALSE(neighbours_->set_static(ip("10.0.0.1"), 0, kPeer));  // our own
}

}  // namespace
}  // namespace uroce::test
