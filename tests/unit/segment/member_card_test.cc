#include "segment/member_card.h"

#include <gtest/gtest.h>

#include "base/random.h"
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

TEST(MemberCard, FromAnybodyHasNothingThatIsNotPrintable) {
  SeededRandom random(4711);
  for (int i = 0; i < 20'000; i++) {
    std::string text = kText;
    for (uint32_t changes = 1 + random.below(8); changes != 0; changes--) {
      // Mostly in the free text, and mostly what a terminal would obey.
      const size_t at = random.below(4) != 0 ? text.find("program ") + 8 + random.below(11)
                                             : random.below(static_cast<uint32_t>(text.size()));
      static constexpr char kEvil[] = "\x1b\r\t\x07\x9b\x7f\0[2J";
      text[at] = random.below(2) != 0 ? kEvil[random.below(sizeof kEvil - 1)] : static_cast<char>(random.below(256));
    }
    const auto card = parse_card(text);
    if (!card) continue;
    for (const std::string& shown : {card->program, card->host, card->netdev}) {
      for (const char c : shown) ASSERT_TRUE(c >= 0x20 && c < 0x7f) << "byte " << (c & 0xff) << " of " << text;
    }
  }
}

TEST(MemberCard, HasAProgramOfAnyName) {
  MemberCard card = the_card();
  card.program = "\x1b]0;title\x07";
  std::string text = to_text(card);
  EXPECT_EQ(parse_card(text)->program, "?]0;title?");
  text.replace(text.find("?]0"), 1, "\x1b");
  EXPECT_EQ(parse_card(text)->program, "?]0;title?") << "whoever wrote it did not clean it";
  EXPECT_FALSE(parse_card(text.insert(text.find("pid"), "netdev eth\x1b[\n")));
}

TEST(MemberCard, OfTheMostThatThereCanBeIsRead) {
  MemberCard card = the_card();
  card.addresses.clear();
  card.blocks.clear();
  for (unsigned i = 0; i < kAddressesMax; i++) {
    const std::string row = std::to_string(1000 + i);
    card.addresses.push_back(*parse_local_address("fd00:1111:2222:3333:4444:5555:6666:" + row + "/128"));
    card.addresses.back().vlan_id = 4094;
  }
  for (unsigned i = 0; i < kBlocksMax; i++) card.blocks.push_back(3000 + i);
  card.listens.assign(kListensMax, {0x0000000001061c06, ~uint64_t{0}});
  card.groups.assign(kGroupsMax, {{0x01, 0x00, 0x5e, 1, 2, 3}});
  card.raw.assign(kRawMacsMax, {{0x01, 0x00, 0x5e, 1, 2, 3}});
  card.raw_all = true;
  card.program.assign(kProgramBytesMax, 'p');
  EXPECT_EQ(parse_card(to_text(card)), card);
  EXPECT_LT(to_text(card).size(), kCardBytesMax - 64);
  // One more of anything is not read; nobody writes it.
  for (const char* line : {"address 10.9.9.9/24\n", "block 1\n", "listen 0000000001061c06 ffffffffffffffff\n",
                           "group 01:00:5e:01:02:03\n", "raw 01:00:5e:01:02:03\n"}) {
    std::string more = to_text(card);
    EXPECT_FALSE(parse_card(more.insert(more.find("pid"), line))) << line;
  }
  MemberCard more = card;
  more.addresses.push_back(*parse_local_address("10.9.9.9/24"));
  more.blocks.push_back(1);
  more.listens.push_back(more.listens.front());
  more.groups.push_back(more.groups.front());
  more.raw.push_back(more.raw.front());
  more.program += "p";
  EXPECT_EQ(parse_card(to_text(more)), card);
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
