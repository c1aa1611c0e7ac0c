// Reports and queries of multicast groups, byte for byte as Scapy 2.5 writes them.
#include "packet/group_frames.h"

#include <gtest/gtest.h>

#include <array>

#include "bytes.h"

namespace uroce::test {
namespace {

const MacAddress kSource = *parse_mac("52:54:00:77:00:01");

std::string written(const GroupReport& report, uint16_t vlan_id = 0) {
  std::array<uint8_t, 128> out;
  out.fill(0xee);
  const uint32_t bytes = encode_group_report(out, kSource, vlan_id, report);
  return to_hex({out.data(), bytes});
}

std::string igmp(GroupNews news, bool old) {
  return written({news, *parse_ip("239.1.2.3"), *parse_ip("192.168.77.2"), old});
}

std::string mld(GroupNews news, bool old) {
  return written({news, *parse_ip("ff0e::1:2:3"), *parse_ip("fe80::5054:ff:fe77:1"), old});
}

TEST(GroupFrames, Igmp3) {
  EXPECT_EQ(igmp(GroupNews::kJoined, false),
            "01005e000016525400770001080046c00028000040000102f64ec0a84d02e0000016940400002200e8f90000000104000000"
            "ef010203000000000000");
  EXPECT_EQ(igmp(GroupNews::kWanted, false),
            "01005e000016525400770001080046c00028000040000102f64ec0a84d02e0000016940400002200eaf90000000102000000"
            "ef010203000000000000");
  EXPECT_EQ(igmp(GroupNews::kNotWanted, false),
            "01005e000016525400770001080046c00028000040000102f64ec0a84d02e0000016940400002200e9f90000000103000000"
            "ef010203000000000000");
}

TEST(GroupFrames, Igmp2) {
  const char* const report =
      "01005e010203525400770001080046c00020000040000102e568c0a84d02ef010203940400001600f8faef01020300000000"
      "00000000000000000000";
  EXPECT_EQ(igmp(GroupNews::kJoined, true), report);
  EXPECT_EQ(igmp(GroupNews::kWanted, true), report);
  EXPECT_EQ(igmp(GroupNews::kNotWanted, true),
            "01005e000002525400770001080046c00020000040000102f66ac0a84d02e0000002940400001700f7faef01020300000000"
            "00000000000000000000");
}

TEST(GroupFrames, Mld2) {
  EXPECT_EQ(mld(GroupNews::kJoined, false),
            "33330000001652540077000186dd6000000000240001fe80000000000000505400fffe770001ff0200000000000000000000"
            "000000163a000502000001008f00202d0000000104000000ff0e0000000000000000000100020003");
  EXPECT_EQ(mld(GroupNews::kWanted, false),
            "33330000001652540077000186dd6000000000240001fe80000000000000505400fffe770001ff0200000000000000000000"
            "000000163a000502000001008f00222d0000000102000000ff0e0000000000000000000100020003");
  EXPECT_EQ(mld(GroupNews::kNotWanted, false),
            "33330000001652540077000186dd6000000000240001fe80000000000000505400fffe770001ff0200000000000000000000"
            "000000163a000502000001008f00212d0000000103000000ff0e0000000000000000000100020003");
}

TEST(GroupFrames, Mld1) {
  EXPECT_EQ(mld(GroupNews::kJoined, true),
            "33330002000352540077000186dd6000000000200001fe80000000000000505400fffe770001ff0e00000000000000000001"
            "000200033a000502000001008300303600000000ff0e0000000000000000000100020003");
  EXPECT_EQ(mld(GroupNews::kNotWanted, true),
            "33330000000252540077000186dd6000000000200001fe80000000000000505400fffe770001ff0200000000000000000000"
            "000000023a0005020000010084002f4600000000ff0e0000000000000000000100020003");
}

TEST(GroupFrames, OnAVlan) {
  const std::string frame =
      written({GroupNews::kJoined, *parse_ip("239.1.2.3"), *parse_ip("192.168.77.2"), false}, 100);
  EXPECT_EQ(frame.substr(0, 44),
            "01005e000016"
            "525400770001"
            "8100"
            "0064"
            "0800"
            "46c00028");
  EXPECT_EQ(frame.substr(44), "000040000102f64ec0a84d02e0000016940400002200e8f90000000104000000ef0102030000")
      << "padded to 60 bytes";
}

TEST(GroupFrames, WhatDoesNotFitIsNotWritten) {
  std::array<uint8_t, 89> out;
  const GroupReport report{GroupNews::kJoined, *parse_ip("ff0e::1:2:3"), *parse_ip("fe80::1"), false};
  EXPECT_EQ(encode_group_report(out, kSource, 0, report), 0u);
}

/// A frame is padded to 60 bytes, and may fill its buffer.
TEST(GroupFrames, MayFillTheirBuffersToTheLastByte) {
  const GroupReport four{GroupNews::kJoined, *parse_ip("239.1.2.3"), *parse_ip("192.168.77.2"), false};
  const GroupReport six{GroupNews::kJoined, *parse_ip("ff0e::1:2:3"), *parse_ip("fe80::1"), false};
  std::array<uint8_t, 94> out;
  const auto fit = [&out](const GroupReport& report, uint16_t vlan_id, size_t room) {
    return encode_group_report(std::span(out).first(room), kSource, vlan_id, report);
  };
  EXPECT_EQ(fit(four, 0, 60), 60u);
  EXPECT_EQ(fit(four, 0, 59), 0u);
  EXPECT_EQ(fit(six, 0, 90), 90u);
  EXPECT_EQ(fit(six, 0, 89), 0u);
  EXPECT_EQ(fit(six, 7, 94), 94u);
  EXPECT_EQ(fit(six, 7, 93), 0u);
}

std::optional<GroupQuery> read(std::vector<uint8_t> frame) { return decode_group_query(*decode_link(frame)); }

const char* const kIgmp3General =
    "01005e000001525400770009080046c00024123400000102242dc0a84d09e0000001940400001164ec1e00000000027d0000"
    "00000000000000000000";
const char* const kMld2General =
    "33330000000152540077000986dd6000000000240001fe800000000000000000000000000009ff0200000000000000000000"
    "000000013a000502000001008200568e2710000000000000000000000000000000000000027d0000";

TEST(GroupFrames, QueriesAreRead) {
  auto query = read(from_hex(kIgmp3General));
  ASSERT_TRUE(query);
  EXPECT_TRUE(query->group.is_zero());
  EXPECT_FALSE(query->old);
  EXPECT_FALSE(query->ipv6);
  EXPECT_EQ(query->patience.ns, milliseconds(10'000).ns);
  query =
      read(from_hex("01005e010203525400770009080046c00024123400000102132ac0a84d09ef01020394040000118ffaeeef010203"
                    "027d000000000000000000000000"));
  ASSERT_TRUE(query) << "for one group, with a long patience";
  EXPECT_EQ(query->group, *parse_ip("239.1.2.3"));
  EXPECT_EQ(query->patience.ns, milliseconds(24'800).ns);
  query =
      read(from_hex("01005e000001525400770009080046c000201234000001022431c0a84d09e0000001940400001132eecd00000000"
                    "0000000000000000000000000000"));
  ASSERT_TRUE(query) << "version 2";
  EXPECT_TRUE(query->old);
  EXPECT_EQ(query->patience.ns, milliseconds(5000).ns);
  query = read(from_hex(kMld2General));
  ASSERT_TRUE(query);
  EXPECT_TRUE(query->ipv6);
  EXPECT_FALSE(query->old);
  EXPECT_EQ(query->patience.ns, milliseconds(10'000).ns);
  query =
      read(from_hex("33330000000152540077000986dd6000000000200001fe800000000000000000000000000009ff020000000000000000"
                    "0000000000013a0005020000010082006c971388000000000000000000000000000000000000"));
  ASSERT_TRUE(query) << "version 1";
  EXPECT_TRUE(query->old);
  EXPECT_EQ(query->patience.ns, milliseconds(5000).ns);
}

/// A fragment, the first or a later one, is no query, even with a good header checksum.
TEST(GroupFrames, AFragmentOfAQueryIsNone) {
  const auto with = [](const char* flags_and_offset, const char* checksum) {
    std::string frame = kIgmp3General;
    frame.replace(2 * (14 + 6), 4, flags_and_offset);
    frame.replace(2 * (14 + 10), 4, checksum);
    return read(from_hex(frame)).has_value();
  };
  EXPECT_TRUE(with("0000", "242d"));
  EXPECT_TRUE(with("4000", "e42c")) << "that must not be fragmented";
  EXPECT_FALSE(with("2000", "042d")) << "more fragments follow";
  EXPECT_FALSE(with("0001", "242c")) << "the last fragment";
}

TEST(GroupFrames, WhatIsNoQueryOrIsDamagedIsNone) {
  for (const char* const good : {kIgmp3General, kMld2General}) {
    const auto frame = from_hex(good);
    const size_t end = good == kIgmp3General ? 14 + 36 : frame.size();
    for (size_t bytes = 14; bytes < end; bytes++) {
      EXPECT_FALSE(read({frame.begin(), frame.begin() + static_cast<long>(bytes)})) << bytes;
    }
    auto damaged = frame;
    damaged[end - 4] ^= 0x40;
    EXPECT_FALSE(read(damaged)) << "the checksum";
  }
  EXPECT_FALSE(read(from_hex(igmp(GroupNews::kJoined, false)))) << "a report";
  EXPECT_FALSE(read(from_hex(mld(GroupNews::kJoined, false))));
}

}  // namespace
}  // namespace uroce::test
