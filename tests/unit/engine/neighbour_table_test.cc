// What is known of others, and what is asked, without a frame.
#include "engine/neighbour_table.h"
#include "transport/counters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace uroce::test {
namespace {

const MacAddress kTableOwn = *parse_mac("52:54:00:00:00:01");
const MacAddress kHolder = *parse_mac("52:54:00:00:00:02");
const MacAddress kClaimant = *parse_mac("52:54:00:00:00:03");
const IpAddress kWanted = *parse_ip("10.0.0.2");
const LocalAddress kAsker = *parse_local_address("10.0.0.1/24");
constexpr Instant kBegin{1'000'000'000'000};

class NeighbourTableTest : public testing::Test {
 protected:
  void hear(const MacAddress& mac, Heard how, Instant now = kBegin, const IpAddress& ip = kWanted) {
    table_.hear({ip, 0, mac, how, how == Heard::kAnnouncement ? nullptr : &kAsker}, now);
  }
  /// The questions until `end`: "all" or "holder", and the time in milliseconds.
  std::string questions(Instant end) {
    std::string text;
    while (table_.next_question() <= end) {
      const Instant now = std::max(table_.next_question(), kBegin);
      const auto question = table_.take_question(now);
      if (!question) continue;
      text += (question->holder ? "holder " : "all ") + std::to_string((now - kBegin).ns / 1'000'000) + ", ";
    }
    return text;
  }
  static Instant after(int64_t ms) { return kBegin + milliseconds(ms); }

  Counters counters_;
  std::vector<std::string> resolved_, told_;
  NewsDesk news_{[this](const NeighbourNews& news) { told_.push_back(to_string(news)); }};
  NeighbourTable table_{kTableOwn, counters_, news_, [this](const IpAddress& ip, uint16_t, const MacAddress& mac) {
                          resolved_.push_back(to_string(ip) + " " + to_string(mac));
                        }};
};

TEST_F(NeighbourTableTest, WhatIsWantedIsAskedForUntilItAnswers) {
  table_.want(kWanted, kAsker, kBegin);
  EXPECT_TRUE(table_.has(kWanted, 0));
  EXPECT_FALSE(table_.lookup(kWanted, 0));
  EXPECT_EQ(questions(after(40)), "all 0, all 10, all 30, ");
  hear(kHolder, Heard::kAnswer, after(41));
  EXPECT_EQ(table_.lookup(kWanted, 0), kHolder);
  EXPECT_EQ(table_.next_question(), after(70)) << "it may have been somebody else's";
  EXPECT_FALSE(table_.take_question(after(70)));
  EXPECT_EQ(table_.next_question(), Instant::never());
  EXPECT_EQ(resolved_, std::vector<std::string>{"10.0.0.2 52:54:00:00:00:02"});
}

TEST_F(NeighbourTableTest, AQuestionNamesWhoAsks) {
  table_.want(kWanted, kAsker, kBegin);
  const auto question = table_.take_question(kBegin);
  ASSERT_TRUE(question);
  EXPECT_EQ(question->ip, kWanted);
  EXPECT_EQ(question->source, kAsker);
  EXPECT_FALSE(question->holder);
  EXPECT_FALSE(table_.take_question(kBegin)) << "one at a time";
}

TEST_F(NeighbourTableTest, ASilentHolderIsAskedFirstAndThenEverybody) {
  table_.want(kWanted, kAsker, kBegin);
  hear(kHolder, Heard::kAnswer);
  EXPECT_EQ(questions(kBegin), "");
  hear(kClaimant, Heard::kAnnouncement);
  EXPECT_EQ(counters_.neighbour_claims, 1u);
  EXPECT_EQ(questions(after(310)), "holder 0, holder 10, holder 30, holder 70, holder 150, all 310, ");
  EXPECT_EQ(table_.lookup(kWanted, 0), kHolder);
  hear(kClaimant, Heard::kAnswer, after(311));
  EXPECT_EQ(table_.lookup(kWanted, 0), kClaimant);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_NE(told_[0].find("moved from 52:54:00:00:00:02"), std::string::npos);
}

TEST_F(NeighbourTableTest, AnotherIsOnlyBelievedWhenTheHolderIsSilent) {
  table_.want(kWanted, kAsker, kBegin);
  hear(kHolder, Heard::kAnswer);
  EXPECT_TRUE(table_.has_another(kWanted, 0, kClaimant, kBegin));
  EXPECT_FALSE(table_.has_another(kWanted, 0, kHolder, kBegin)) << "he is it";
  EXPECT_FALSE(table_.has_another(*parse_ip("10.0.0.3"), 0, kClaimant, kBegin)) << "nobody has that";
  hear(kClaimant, Heard::kAnnouncement);
  questions(after(310));
  EXPECT_FALSE(table_.has_another(kWanted, 0, kClaimant, after(310)));
}

TEST_F(NeighbourTableTest, OnlyQuestionsFromOurNetworkMakeAnEntry) {
  hear(kHolder, Heard::kAnswer);
  hear(kHolder, Heard::kAnnouncement);
  hear(kTableOwn, Heard::kQuestion);
  hear(kHolder, Heard::kQuestion, kBegin, *parse_ip("10.9.0.2"));
  hear(kHolder, Heard::kQuestion, kBegin, *parse_ip("239.0.0.1"));
  EXPECT_TRUE(resolved_.empty());
  hear(kHolder, Heard::kQuestion);
  EXPECT_EQ(table_.lookup(kWanted, 0), kHolder);
  EXPECT_FALSE(table_.lookup(kWanted, 7)) << "another VLAN";
  EXPECT_EQ(questions(after(5000)), "") << "nobody here wants it";
}

TEST_F(NeighbourTableTest, WhatIsStaticIsNeitherAskedForNorChanged) {
  EXPECT_FALSE(table_.set_static(*parse_ip("239.0.0.1"), 0, kHolder));
  ASSERT_TRUE(table_.set_static(kWanted, 0, kHolder));
  table_.want(kWanted, kAsker, kBegin);
  hear(kClaimant, Heard::kAnswer);
  EXPECT_EQ(table_.lookup(kWanted, 0), kHolder);
  EXPECT_EQ(questions(after(5000)), "");
  EXPECT_EQ(told_.size(), 1u);
}

TEST_F(NeighbourTableTest, WhoAsksWithAnotherMacIsAnsweredThere) {
  hear(kHolder, Heard::kQuestion);
  hear(kClaimant, Heard::kQuestion);
  EXPECT_EQ(table_.lookup(kWanted, 0), kClaimant) << "hearsay against hearsay";
  EXPECT_EQ(resolved_, (std::vector<std::string>{"10.0.0.2 52:54:00:00:00:02", "10.0.0.2 52:54:00:00:00:03"}));
  hear(kHolder, Heard::kAnnouncement);
  EXPECT_FALSE(table_.lookup(kWanted, 0)) << "somebody else says that it is his, and proves nothing";
  hear(kClaimant, Heard::kQuestion);
  EXPECT_EQ(table_.lookup(kWanted, 0), kClaimant);
  EXPECT_EQ(resolved_.size(), 3u) << "it was not known a moment ago";
  ASSERT_TRUE(table_.set_static(kWanted, 0, kHolder));
  EXPECT_EQ(table_.lookup(kWanted, 0), kHolder);
  EXPECT_EQ(resolved_.back(), "10.0.0.2 52:54:00:00:00:02");
}

/// Whatever the old entry was: wanted, answered, disputed, asked for in vain, or hearsay.
TEST_F(NeighbourTableTest, InAFullTableANewEntryHasNothingOfTheOneWhosePlaceItTakes) {
  for (uint32_t i = 2; i < NeighbourTable::kMax; i++)
    ASSERT_TRUE(table_.set_static(IpAddress::v4(0x0A010000 + i), 0, kHolder));
  table_.want(kWanted, kAsker, kBegin);
  hear(kHolder, Heard::kAnswer);
  hear(kClaimant, Heard::kAnnouncement);
  questions(after(5000));
  hear(kHolder, Heard::kQuestion, kBegin, *parse_ip("10.0.0.3"));
  resolved_.clear();
  told_.clear();
  counters_ = {};
  for (const char* text : {"10.0.0.4", "10.0.0.5"}) {
    const IpAddress fresh = *parse_ip(text);
    table_.want(fresh, kAsker, after(6000));
    EXPECT_TRUE(table_.has(fresh, 0));
    EXPECT_FALSE(table_.lookup(fresh, 0)) << text;
    EXPECT_FALSE(table_.has_another(fresh, 0, kClaimant, after(6000)));
    EXPECT_EQ(table_.next_question(), after(6000)) << "at once, whoever was asked for before";
    EXPECT_EQ(questions(after(6030)), "all 6000, all 6010, all 6030, ");
    hear(kClaimant, Heard::kAnnouncement, after(6031), fresh);
    EXPECT_FALSE(table_.lookup(fresh, 0));
    hear(kClaimant, Heard::kAnswer, after(6032), fresh);
    hear(kClaimant, Heard::kAnswer, after(6033), fresh);
    EXPECT_EQ(table_.lookup(fresh, 0), kClaimant);
    // The entry that gives way next is idle and unused, or its holder is silent.
    hear(kHolder, Heard::kAnnouncement, after(6034), fresh);
  }
  EXPECT_FALSE(table_.has(kWanted, 0));
  EXPECT_FALSE(table_.has(*parse_ip("10.0.0.3"), 0));
  EXPECT_EQ(resolved_, (std::vector<std::string>{"10.0.0.4 52:54:00:00:00:03", "10.0.0.5 52:54:00:00:00:03"}));
  EXPECT_TRUE(told_.empty()) << told_[0];
  EXPECT_EQ(counters_.neighbour_claims, 2u) << "of the last announcements";
}

}  // namespace
}  // namespace uroce::test
