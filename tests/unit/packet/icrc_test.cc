#include "packet/icrc.h"

#include <gtest/gtest.h>

#include "bytes.h"
#include "packet/packet.h"
#include "roce_frame.h"

namespace uroce {
namespace {

using test::Bytes;
using test::frame_of;
using test::ipv4_path;
using test::ipv6_path;
using test::on_vlan;

bool holds(const Bytes& frame) {
  PacketView view;
  EXPECT_EQ(parse_frame(frame, view), ParseResult::kOk);
  return icrc_matches(view);
}

Bytes sample(const Route& path, size_t payload_bytes) {
  Bytes payload(payload_bytes);
  for (size_t i = 0; i < payload.size(); i++) payload[i] = static_cast<uint8_t>(i * 7 + 3);
  return frame_of(path, Bth{.opcode = 0x04, .dest_qp = 0x11, .psn = Psn(0x123400)}, {}, payload);
}

TEST(Icrc, StoresTheLeastSignificantByteFirst) {
  uint8_t where[4];
  icrc_store(where, ~0x01020304u);
  EXPECT_EQ(test::to_hex(where), "04030201");
}

TEST(Icrc, LiteralFramesOfAnotherStack) {
  const Bytes compare_swap = test::from_hex(
      "525400770001 525400770002 0800"
      "45000048b8904000401166be c0a84d03 c0a84d02"
      "c9c4 12b7 0034 0000"
      "13 00 ffff 00 000032 80 123400"
      "00007fbe24c6f000 00002309 2222222222222222 1111111111111111"
      "72b829cb");
  EXPECT_TRUE(holds(compare_swap));
  const Bytes ack_over_ipv6 = test::from_hex(
      "52540077000252540077000186dd"
      "60000000001c1140fd770000000000000000000000000002fd770000000000000000000000000003"
      "d72912b7001c0000"
      "1100ffff0000004d00123401"
      "1f000001"
      "a695ebbd");
  EXPECT_TRUE(holds(ack_over_ipv6));
}

TEST(Icrc, EveryPayloadLength) {
  for (const Route& path : {ipv4_path(), ipv6_path(), on_vlan(ipv4_path(), 3), on_vlan(ipv6_path(), 3)}) {
    for (size_t bytes = 0; bytes <= 300; bytes++) ASSERT_TRUE(holds(sample(path, bytes))) << bytes;
    for (const size_t bytes : {511, 512, 1023, 1024, 2048, 4095, 4096}) ASSERT_TRUE(holds(sample(path, bytes)));
  }
}

/// A byte that a router may change: its offset, and the bits.
struct Mutable {
  size_t offset;
  uint8_t bits;
};

void expect_only_these_may_change(const Bytes& frame, std::initializer_list<Mutable> allowed, size_t begin,
                                  size_t end) {
  PacketView view;
  ASSERT_EQ(parse_frame(frame, view), ParseResult::kOk);
  for (size_t at = begin; at < end; at++) {
    for (int bit = 0; bit < 8; bit++) {
      const auto mask = static_cast<uint8_t>(1 << bit);
      bool may = false;
      for (const Mutable& m : allowed) may |= m.offset == at && (m.bits & mask) != 0;
      Bytes changed = frame;
      changed[at] ^= mask;
      PacketView moved = view;  // the same view of the changed bytes, without parsing them
      moved.l3 = changed.data() + (view.l3 - view.l2);
      moved.ext = changed.data() + (view.ext - view.l2);
      moved.payload = changed.data() + (view.payload - view.l2);
      ASSERT_EQ(icrc_matches(moved), may) << "bit " << bit << " of byte " << at;
    }
  }
}

TEST(Icrc, CoversEveryBitButThoseThatRoutersChangeIpv4) {
  const Bytes frame = sample(ipv4_path(), 33);
  expect_only_these_may_change(frame,
                               {{14 + 1, 0xff},            // TOS
                                {14 + 8, 0xff},            // TTL
                                {14 + 10, 0xff},           // header checksum
                                {14 + 11, 0xff},           //
                                {14 + 20 + 6, 0xff},       // UDP checksum
                                {14 + 20 + 7, 0xff},       //
                                {14 + 20 + 8 + 4, 0xff}},  // BTH resv8a
                               14, frame.size());
}

TEST(Icrc, CoversEveryBitButThoseThatRoutersChangeIpv6) {
  const Bytes frame = sample(ipv6_path(), 33);
  expect_only_these_may_change(frame,
                               {{14 + 0, 0x0f},            // traffic class
                                {14 + 1, 0xff},            // traffic class, flow label
                                {14 + 2, 0xff},            //
                                {14 + 3, 0xff},            //
                                {14 + 7, 0xff},            // hop limit
                                {14 + 40 + 6, 0xff},       // UDP checksum
                                {14 + 40 + 7, 0xff},       //
                                {14 + 40 + 8 + 4, 0xff}},  // BTH resv8a
                               14, frame.size());
}

TEST(Icrc, ItMayBeTakenUpBehindTheHeadOfTheBth) {
  for (const Route& path : {ipv4_path(), ipv6_path(), on_vlan(ipv4_path(), 3), on_vlan(ipv6_path(), 3)}) {
    for (const size_t bytes : {0, 1, 8, 63, 1024}) {
      Bytes frame = sample(path, bytes);
      for (size_t at = 0; at < frame.size(); at++) {
        frame[at] ^= 0x5a;
        PacketView view;
        if (parse_frame(frame, view) == ParseResult::kOk) {
          const uint32_t state = icrc_to_bth_head(view.l3, view.ipv6);
          ASSERT_EQ(icrc_matches(view, state), icrc_matches(view)) << at;
          ASSERT_EQ(crc32_update(state, view.bth_bytes + Bth::kHeadBytes, 4), icrc_begin(view.l3, view.ipv6)) << at;
        }
        frame[at] ^= 0x5a;
      }
    }
  }
}

TEST(Icrc, CopyingWhileSummingGivesTheSame) {
  const Bytes frame = sample(ipv4_path(), 1000);
  PacketView view;
  ASSERT_EQ(parse_frame(frame, view), ParseResult::kOk);
  Bytes copy(view.payload_bytes);
  uint32_t state = icrc_begin(view.l3, view.ipv6);
  state = crc32_copy(state, copy.data(), view.payload, view.payload_bytes);
  uint8_t stored[4];
  icrc_store(stored, state);
  EXPECT_EQ(test::to_hex(stored), test::to_hex({view.payload + view.payload_bytes, 4}));
}

}  // namespace
}  // namespace uroce
