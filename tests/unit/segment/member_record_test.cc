#include "segment/member_record.h"

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

MemberRecord the_record() {
  MemberRecord record = record_of("node-7", 9);
  record.addresses.push_back(*parse_local_address("fd00::9/64"));
  record.blocks = {17, 4094};
  record.pid = 4711;
  record.program = "ib_write_bw";
  return record;
}

TEST(MemberRecord, IsWrittenAsText) { EXPECT_EQ(to_text(the_record()), kText); }

TEST(MemberRecord, IsReadAsWritten) {
  const auto record = parse_record(kText);
  ASSERT_TRUE(record);
  EXPECT_EQ(*record, the_record());
}

TEST(MemberRecord, SaysWhatItsMemberListensTo) {
  MemberRecord record = the_record();
  record.listens = {{0x0000000001061c06, 0xFFFFFFFFFFFFFFFF}, {0x1000000000000000, 0xFF00000000000000}};
  record.groups = {{{0x01, 0x00, 0x5e, 1, 2, 3}}};
  const std::string lines =
      "listen 0000000001061c06 ffffffffffffffff\n"
      "listen 1000000000000000 ff00000000000000\n"
      "group 01:00:5e:01:02:03\n";
  std::string text = kText;
  text.insert(text.find("pid"), lines);
  EXPECT_EQ(to_text(record), text);
  EXPECT_EQ(parse_record(text), record);
  for (const char* wrong : {"group 02:00:00:00:00:01\n", "listen\n", "listen 1 2\n", "listen 0000000001061c06\n",
                            "listen 0000000001061c06 fffffffffffffffg\n", "listen 0000000001061c06-ffffffffffffffff\n",
                            "listen 0000000001061c06 fffffffffffffffff\n"}) {
    std::string bad = kText;
    EXPECT_FALSE(parse_record(bad.insert(bad.find("pid"), wrong))) << wrong;
  }
}

TEST(MemberRecord, OfAnUplinkSaysWhatItsProgramsNeed) {
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
  const auto record = parse_record(text);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->role, Role::kUplink);
  EXPECT_EQ(record->mtu, 1500u);
  EXPECT_EQ(record->quotas.qps_max, 64u);
  EXPECT_EQ(record->quotas.lanes_max, 20u);
  EXPECT_FALSE(record->link_up);
  EXPECT_EQ(record->netdev, "eth0");
  EXPECT_EQ(to_text(*record), text);
}

TEST(MemberRecord, IsNothingUnlessWhole) {
  const std::string text = kText;
  for (size_t bytes = 0; bytes < text.size(); bytes++) EXPECT_FALSE(parse_record(text.substr(0, bytes))) << bytes;
  EXPECT_FALSE(parse_record(text + "x"));
  EXPECT_FALSE(parse_record(text + text));
}

TEST(MemberRecord, WithALineThatMakesNoSenseIsNothing) {
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
    EXPECT_FALSE(parse_record(text)) << line;
  }
}

TEST(MemberRecord, FromAnybodyHasNothingThatIsNotPrintable) {
  SeededRandom random(4711);
  for (int i = 0; i < 20'000; i++) {
    std::string text = kText;
    for (uint32_t changes = 1 + random.below(8); changes != 0; changes--) {
      // Mostly in the free text, and mostly characters that a terminal obeys.
      const size_t at = random.below(4) != 0 ? text.find("program ") + 8 + random.below(11)
                                             : random.below(static_cast<uint32_t>(text.size()));
      static constexpr char kEvil[] = "\x1b\r\t\x07\x9b\x7f\0[2J";
      text[at] = random.below(2) != 0 ? kEvil[random.below(sizeof kEvil - 1)] : static_cast<char>(random.below(256));
    }
    const auto record = parse_record(text);
    if (!record) continue;
    for (const std::string& shown : {record->program, record->host, record->netdev}) {
      for (const char c : shown) ASSERT_TRUE(c >= 0x20 && c < 0x7f) << "byte " << (c & 0xff) << " of " << text;
    }
  }
}

TEST(MemberRecord, HasAProgramOfAnyName) {
  MemberRecord record = the_record();
  record.program = "\x1b]0;title\x07";
  std::string text = to_text(record);
  EXPECT_EQ(parse_record(text)->program, "?]0;title?");
  text.replace(text.find("?]0"), 1, "\x1b");
  EXPECT_EQ(parse_record(text)->program, "?]0;title?") << "whoever wrote it did not clean it";
  EXPECT_FALSE(parse_record(text.insert(text.find("pid"), "netdev eth\x1b[\n")));
}

TEST(MemberRecord, OfTheMostThatThereCanBeIsRead) {
  MemberRecord record = the_record();
  record.addresses.clear();
  record.blocks.clear();
  for (unsigned i = 0; i < kAddressesMax; i++) {
    const std::string row = std::to_string(1000 + i);
    record.addresses.push_back(*parse_local_address("fd00:1111:2222:3333:4444:5555:6666:" + row + "/128"));
    record.addresses.back().vlan_id = 4094;
  }
  for (unsigned i = 0; i < kBlocksMax; i++) record.blocks.push_back(3000 + i);
  record.listens.assign(kListensMax, {0x0000000001061c06, ~uint64_t{0}});
  record.groups.assign(kGroupsMax, {{0x01, 0x00, 0x5e, 1, 2, 3}});
  record.raw.macs.assign(kRawMacsMax, {{0x01, 0x00, 0x5e, 1, 2, 3}});
  record.raw.all = true;
  record.leads_out = true;
  record.shut = true;
  record.program.assign(kProgramBytesMax, 'p');
  EXPECT_EQ(parse_record(to_text(record)), record);
  EXPECT_LT(to_text(record).size(), kRecordBytesMax - 64);
  // One more line of any kind is refused on reading; it is never written.
  for (const char* line : {"address 10.9.9.9/24\n", "block 1\n", "listen 0000000001061c06 ffffffffffffffff\n",
                           "group 01:00:5e:01:02:03\n", "raw 01:00:5e:01:02:03\n"}) {
    std::string more = to_text(record);
    EXPECT_FALSE(parse_record(more.insert(more.find("pid"), line))) << line;
  }
  MemberRecord more = record;
  more.addresses.push_back(*parse_local_address("10.9.9.9/24"));
  more.blocks.push_back(1);
  more.listens.push_back(more.listens.front());
  more.groups.push_back(more.groups.front());
  more.raw.macs.push_back(more.raw.macs.front());
  more.program += "p";
  EXPECT_EQ(parse_record(to_text(more)), record);
}

TEST(MemberRecord, KeepsALineALine) {
  MemberRecord record = the_record();
  record.program = "a\nblock 5";
  const auto read = parse_record(to_text(record));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->program, "a?block 5");
  EXPECT_EQ(read->blocks, record.blocks);
}

}  // namespace
}  // namespace uroce::segment
