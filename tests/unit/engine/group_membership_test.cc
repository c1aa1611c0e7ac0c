// What a host says of its multicast groups, as timelines.
#include "engine/group_membership.h"
#include "base/random.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bytes.h"
#include "engine/port_filters.h"
#include "transport/counters.h"

namespace uroce::test {
namespace {

const MacAddress kOwnMac = *parse_mac("52:54:00:77:00:01");
const LocalAddress kOwn{*parse_ip("192.168.77.2"), 24, 0};
const LocalAddress kOwn6{*parse_ip("fd00::2"), 64, 0};
const IpAddress kGroup = *parse_ip("239.1.2.3");
const IpAddress kGroup6 = *parse_ip("ff0e::1:2:3");
// Queries made with Scapy: to answer within ten seconds by IGMPv3, within five by IGMPv2.
const char* const kAnyone =
    "01005e000001525400770009080046c00024123400000102242dc0a84d09e0000001940400001164ec1e00000000027d0000";
const char* const kAnyoneOld =
    "01005e000001525400770009080046c000201234000001022431c0a84d09e0000001940400001132eecd00000000";

class GroupMembershipTest : public testing::Test, protected MulticastFilter {
 protected:
  static constexpr Instant kStart{1'000'000'000};

  /// The words for all messages until `end`: "joined", "wanted", "left", "old-report", "old-leave".
  std::string said_until(Duration end) {
    std::string said;
    for (; membership_.next_timeout() <= kStart + end;) {
      now_ = std::max(now_, membership_.next_timeout());
      uint8_t bytes[128];
      TxFrame frame;
      frame.data = bytes;
      frame.capacity = sizeof bytes;
      if (!membership_.poll_transmit(frame, now_)) continue;
      last_ = to_hex({bytes, frame.bytes});
      said += word_of(last_) + " ";
      times_.push_back((now_ - kStart).ns);
    }
    now_ = std::max(now_, kStart + end);
    return said;
  }
  static std::string word_of(const std::string& hex) {
    if (hex.find("940400002200") != std::string::npos || hex.find("01008f00") != std::string::npos) {
      for (const auto& [type, word] :
           {std::pair{"0000000104000000", "joined"}, {"0000000102000000", "wanted"}, {"0000000103000000", "left"}}) {
        if (hex.find(type) != std::string::npos) return word;
      }
    }
    if (hex.find("940400001600") != std::string::npos) return "old-report";
    if (hex.find("940400001700") != std::string::npos) return "old-leave";
    return hex;
  }
  void hear(const char* query, Duration at) {
    now_ = kStart + at;
    EXPECT_TRUE(membership_.on_frame(from_hex(query), now_));
  }
  void want(const MacAddress& group, bool wanted) override {
    filtered_ += (wanted ? "+" : "-") + to_string(group) + " ";
  }

  SeededRandom random_{7};
  Counters counters_;
  Instant now_ = kStart;
  std::vector<int64_t> times_;
  std::string filtered_, last_;  // `last_`: the last message, in hexadecimal
  GroupMembership membership_{kOwnMac, random_, counters_, this};
};

TEST_F(GroupMembershipTest, ANewGroupIsReportedTwice) {
  EXPECT_TRUE(membership_.join(kGroup, kOwn, now_));
  EXPECT_EQ(said_until(milliseconds(60'000)), "joined joined ");
  EXPECT_EQ(times_[0], 0);
  EXPECT_LE(times_[1], milliseconds(1000).ns);
  EXPECT_EQ(counters_.group_reports, 2u);
  EXPECT_EQ(membership_.next_timeout(), Instant::never());
}

TEST_F(GroupMembershipTest, OnlyTheFirstAndTheLastUserAreNews) {
  membership_.join(kGroup, kOwn, now_);
  said_until(milliseconds(2000));
  EXPECT_TRUE(membership_.join(kGroup, kOwn, now_));
  EXPECT_TRUE(membership_.leave(kGroup, 0, now_));
  EXPECT_EQ(said_until(milliseconds(4000)), "");
  EXPECT_TRUE(membership_.leave(kGroup, 0, now_));
  EXPECT_EQ(said_until(milliseconds(8000)), "left left ");
  EXPECT_FALSE(membership_.leave(kGroup, 0, now_)) << "nobody is left";
}

TEST_F(GroupMembershipTest, AQueryIsAnsweredWithinItsTime) {
  membership_.join(kGroup, kOwn, now_);
  membership_.join(kGroup6, kOwn6, now_);
  said_until(milliseconds(2000));
  hear(kAnyone, milliseconds(20'000));
  EXPECT_EQ(said_until(milliseconds(60'000)), "wanted ") << "who wants IPv6 groups was not asked";
  EXPECT_GE(times_.back(), milliseconds(20'000).ns);
  EXPECT_LE(times_.back(), milliseconds(30'000).ns);
  EXPECT_EQ(counters_.group_queries, 1u);
}

TEST_F(GroupMembershipTest, AQueryIsForItsVlan) {
  const auto tagged = [](const char* query, const char* tag) {
    return std::string(query).substr(0, 24) + "8100" + tag + std::string(query).substr(24);
  };
  membership_.join(kGroup, kOwn, now_);
  membership_.join(*parse_ip("239.7.7.7"), {*parse_ip("192.168.7.2"), 24, 7}, now_);
  said_until(milliseconds(2000));
  hear(tagged(kAnyone, "0008").c_str(), milliseconds(20'000));
  EXPECT_EQ(said_until(milliseconds(40'000)), "") << "of nobody's VLAN";
  hear(tagged(kAnyone, "e007").c_str(), milliseconds(40'000));
  EXPECT_EQ(said_until(milliseconds(60'000)), "wanted ");
  EXPECT_NE(last_.find("81000007"), std::string::npos);
  EXPECT_NE(last_.find("ef070707"), std::string::npos);
  hear(kAnyone, milliseconds(60'000));
  EXPECT_EQ(said_until(milliseconds(80'000)), "wanted ");
  EXPECT_EQ(last_.find("8100"), std::string::npos);
  EXPECT_NE(last_.find("ef010203"), std::string::npos);
  hear(tagged(kAnyone, "0000").c_str(), milliseconds(80'000));
  EXPECT_EQ(said_until(milliseconds(99'000)), "wanted ") << "a priority alone is no VLAN";
}

TEST_F(GroupMembershipTest, AnOldQuerierGetsOldAnswersForAWhile) {
  membership_.join(kGroup, kOwn, now_);
  said_until(milliseconds(2000));
  hear(kAnyoneOld, milliseconds(20'000));
  EXPECT_EQ(said_until(milliseconds(26'000)), "old-report ");
  membership_.leave(kGroup, 0, now_);
  EXPECT_EQ(said_until(milliseconds(60'000)), "old-leave ");
  now_ = kStart + milliseconds(281'000);
  membership_.join(kGroup, kOwn, now_);
  EXPECT_EQ(said_until(milliseconds(290'000)), "joined joined ") << "nobody old has asked for 260 seconds";
}

TEST_F(GroupMembershipTest, WhoComesBackHasNotLeft) {
  membership_.join(kGroup, kOwn, now_);
  said_until(milliseconds(2000));
  membership_.leave(kGroup, 0, now_);
  membership_.join(kGroup, kOwn, now_);
  EXPECT_EQ(said_until(milliseconds(9000)), "joined joined ");
}

TEST_F(GroupMembershipTest, AGroupOfEverybodyIsNotReported) {
  EXPECT_TRUE(membership_.join(*parse_ip("224.0.0.1"), kOwn, now_));
  EXPECT_TRUE(membership_.join(*parse_ip("ff02::1"), kOwn6, now_));
  hear(kAnyone, milliseconds(0));
  EXPECT_EQ(said_until(milliseconds(60'000)), "");
}

TEST_F(GroupMembershipTest, ThePortHearsOfMacs) {
  membership_.join(kGroup, kOwn, now_);
  membership_.join(*parse_ip("239.129.2.3"), kOwn, now_);  // has the MAC of the first group
  EXPECT_EQ(filtered_, "+01:00:5e:01:02:03 ");
  membership_.leave(kGroup, 0, now_);
  EXPECT_EQ(filtered_, "+01:00:5e:01:02:03 ");
  membership_.leave(*parse_ip("239.129.2.3"), 0, now_);
  EXPECT_EQ(filtered_, "+01:00:5e:01:02:03 -01:00:5e:01:02:03 ");
}

TEST_F(GroupMembershipTest, ThereAreOnlySoManyGroups) {
  for (uint32_t i = 0; i < GroupMembership::kGroupsMax; i++) {
    EXPECT_TRUE(membership_.join(IpAddress::v4(0xEF000001 + i), kOwn, now_));
  }
  EXPECT_FALSE(membership_.join(kGroup, kOwn, now_));
  membership_.leave(IpAddress::v4(0xEF000001), 0, now_);
  said_until(milliseconds(10'000));
  EXPECT_TRUE(membership_.join(kGroup, kOwn, now_)) << "when it has been said that one is not wanted";
}

}  // namespace
}  // namespace uroce::test
