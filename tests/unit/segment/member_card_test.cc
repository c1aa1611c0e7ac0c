#include "segment/member_card.h"

#include <gtest/gtest.h>

#include "support.h"

namespace uroce::segment {
namespace {

using namespace test;

const char* const kText =
    "uroce segment member 1\n"
    "host node-7\n"
    "mac 02:75:00:00:00:09\n"
    "address 10.0.0.9/24\n"
    "address fd00::9/64\n"
    "block 17\n"
    "block 4094\n"
    "pid 4711\n"
    "program ib_write_bw\n"
    "end\n";

MemberCard the_card() {
  MemberCard card = card_of("node-7", 9);
  card.addresses.push_back(*parse_local_address("fd00::9/64"));
  card.blocks = {17, 4094};
  card.pid = 4711;
  card.program = "ib_write_bw";
  return card;
}

TEST(MemberCard, IsWrittenAsText) { EXPECT_EQ(to_text(the_card()), kText); }

TEST(MemberCard, IsReadAsWritten) {
  const auto card = parse_card(kText);
  ASSERT_TRUE(card);
  EXPECT_EQ(*card, the_card());
}

TEST(MemberCard, SaysWhatItsMemberListensTo) {
  MemberCard card = the_card();
  card.listens = {{0x0000000001061c06, 0xFFFFFFFFFFFFFFFF}, {0x1000000000000000, 0xFF00000000000000}};
  card.groups = {{{0x01, 0x00, 0x5e, 1, 2, 3}}};
  const std::string lines =
      "listen 0000000001061c06 ffffffffffffffff\n"
      "listen 1000000000000000 ff00000000000000\n"
      "group 01:00:5e:01:02:03\n";
  std::string text = kText;
  text.insert(text.find("pid"), lines);
  EXPECT_EQ(to_text(card), text);
  EXPECT_EQ(parse_card(text), card);
  for (const char* wrong : {"group 02:00:00:00:00:01\n", "listen\n", "listen 1 2\n", "listen 0000000001061c06\n",
                            "listen 0000000001061c06 fffffffffffffffg\n", "listen 0000000001061c06-ffffffffffffffff\n",
                            "listen 0000000001061c06 fffffffffffffffff\n"}) {
    std::string bad = kText;
    EXPECT_FALSE(parse_card(bad.insert(bad.find("pid"), wrong))) << wrong;
  }
}

TEST(MemberCard, OfAnUplinkSaysWhatItsProgramsNeed) {
  const std::string text =
      "uroce segment member 1\n"
      "host up\n"
      "mac 02:75:00:00:00:09\n"
      "role uplink\n"
      "mtu 1500\n"
      "qps 64\n"
      "lanes 20\n"
      "link down\n"
      "netdev eth0\n"
      "pid 1\n"
      "program uroced\n"
      "end\n";
  const auto card = parse_card(text);
  ASSERT_TRUE(card);
  EXPECT_EQ(card->role, Role::kUplink);
  EXPECT_EQ(card->mtu, 1500u);
  EXPECT_EQ(card->qps_max, 64u);
  EXPECT_EQ(card->lanes_max, 20u);
  EXPECT_FALSE(card->link_up);
  EXPECT_EQ(card->netdev, "eth0");
  EXPECT_EQ(to_text(*card), text);
}

TEST(MemberCard, IsNothingUnlessWhole) {
  const std::string text = kText;
  for (size_t bytes = 0; bytes < text.size(); bytes++) EXPECT_FALSE(parse_card(text.substr(0, bytes))) << bytes;
  EXPECT_FALSE(parse_card(text + "x"));
  EXPECT_FALSE(parse_card(text + text));
}

TEST(MemberCard, WithALineThatMakesNoSenseIsNothing) {
  const std::string bad[] = {"block 0",
                             "block 4095",
                             "block 99999999999",
                             "block x",
                             "mac 03:00:00:00:00:01",
                             "mac x",
                             "host a/b",
                             "host ",
                             "address 1.2.3",
                             "pid -1",
                             "colour red",
                             "role king",
                             "mtu 575",
                             "mtu 65536",
                             "qps x",
                             "link maybe",
                             "netdev ../eth0",
                             "netdev a-name-too-long-",
                             ""};
  for (const std::string& line : bad) {
    std::string text = kText;
    text.insert(text.find("pid"), line + "\n");
    EXPECT_FALSE(parse_card(text)) << line;
  }
}

TEST(MemberCard, KeepsALineALine) {
  MemberCard card = the_card();
  card.program = "a\nblock 5";
  const auto read = parse_card(to_text(card));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->program, "a?block 5");
  EXPECT_EQ(read->blocks, card.blocks);
}

}  // namespace
}  // namespace uroce::segment
