// Selective ACKs and signatures, as literal bytes.
#include "packet/sack.h"

#include <gtest/gtest.h>

#include <set>

#include "bytes.h"
#include "packet/packet.h"
#include "packet/signature.h"
#include "roce_frame.h"

namespace uroce {
namespace {

using test::to_hex;

TEST(Sack, RangeLiteralBytes) {
  uint8_t bytes[SackRange::kBytes];
  SackRange{Psn(0x123456), Psn(0x123459)}.encode(bytes);
  EXPECT_EQ(to_hex(bytes), "0012345600123459");
  const uint8_t wire[] = {0xee, 0xff, 0xff, 0xfe, 0xdd, 0x00, 0x00, 0x01};  // the first bytes are reserved
  const SackRange range = SackRange::decode(wire);
  EXPECT_EQ(range.first, Psn(0xfffffe));
  EXPECT_EQ(range.end, Psn(1));
}

TEST(Sack, OneToSixteenWholeRanges) {
  for (uint32_t bytes = 0; bytes < 300; bytes++) {
    EXPECT_EQ(sack_length_holds(bytes), bytes >= 8 && bytes <= 128 && bytes % 8 == 0) << bytes;
  }
}

TEST(Sack, PacketIsParsed) {
  const uint8_t body[] = {0xc0, 0x00, 0xff, 0xff, 0x00, 0x00, 0x07, 0x77, 0x00, 0x00, 0x01, 0x05,  // BTH, PSN 0x105
                          0x1f, 0x00, 0x00, 0x03,                                                  // AETH
                          0x00, 0x00, 0x01, 0x07, 0x00, 0x00, 0x01, 0x09};                         // 0x107, 0x108
  const test::Bytes frame = test::frame_of(test::ipv4_path(), {std::begin(body), std::end(body)});
  PacketView view;
  ASSERT_EQ(parse_frame(frame, view), ParseResult::kOk);
  EXPECT_TRUE(view.info->is_response());
  EXPECT_EQ(view.bth.psn, Psn(0x105));
  EXPECT_EQ(view.aeth().msn, 3u);
  EXPECT_EQ(view.payload_bytes, 8u);
  EXPECT_EQ(SackRange::decode(view.payload).end, Psn(0x109));
  EXPECT_TRUE(icrc_matches(view));
}

// Numbers that a second implementation (Python, from the description in doc/adr/0015) computed.
TEST(Signature, KnownValues) {
  const Signature signature(0x000011, 0x000777);
  EXPECT_EQ(signature.identification(Psn(0)), 0xc020);
  EXPECT_EQ(signature.identification(Psn(1)), 0x4b98);
  EXPECT_EQ(signature.identification(Psn(0xffffff)), 0xe155);
  EXPECT_EQ(signature.flow_label(), 0x80d14u);
  EXPECT_EQ(Signature(0x000777, 0x000011).identification(Psn(1)), 0x9b63);
  EXPECT_TRUE(signature.is_set());
  EXPECT_FALSE(Signature().is_set());
}

/// What other stacks put there: nothing, a constant, or a count.
TEST(Signature, NoStrangerMatchesThreeTimesInARow) {
  for (uint32_t qpn = 2; qpn < 400; qpn++) {
    const Signature signature(qpn, 0x000777);
    for (const uint32_t step : {0u, 1u, 2u, 256u}) {
      uint32_t in_a_row = 0;
      for (uint32_t i = 0; i < 1000; i++) {
        const bool same = signature.identification(Psn(i)) == static_cast<uint16_t>(qpn * 7919 + i * step);
        in_a_row = same ? in_a_row + 1 : 0;
        ASSERT_LT(in_a_row, 3u);
      }
    }
  }
}

TEST(Signature, LabelsAreSpreadAndNeverZero) {
  std::set<uint32_t> labels;
  for (uint32_t qpn = 0; qpn < 1000; qpn++) {
    const uint32_t label = Signature(qpn, 5).flow_label();
    ASSERT_NE(label, 0u);
    ASSERT_LE(label, 0xFFFFFu);
    labels.insert(label);
  }
  EXPECT_GT(labels.size(), 990u);
}

PacketView parsed(const RouteHeader& path, uint8_t* frame, Psn psn) {
  path.write(frame, Bth::kBytes + kIcrcBytes, psn);
  Bth bth;
  bth.opcode = kOpSendOnly;
  bth.psn = psn;
  bth.encode(frame + path.bytes());
  PacketView view;
  EXPECT_EQ(parse_frame({frame, path.bytes() + Bth::kBytes + kIcrcBytes}, view), ParseResult::kOk);
  return view;
}

TEST(Signature, OnTheWire) {
  const Signature signature(0x000011, 0x000777);
  for (const bool ipv6 : {false, true}) {
    uint8_t frame[128] = {};
    RouteHeader path(ipv6 ? test::ipv6_path() : test::ipv4_path());
    EXPECT_EQ(parsed(path, frame, Psn(1)).flow_id, 0u);
    EXPECT_FALSE(parsed(path, frame, Psn(1)).signed_with(signature));
    path.sign(signature);
    for (uint32_t psn = 0; psn < 100; psn++) {
      const PacketView view = parsed(path, frame, Psn(psn));  // and the IPv4 checksum holds
      EXPECT_TRUE(view.signed_with(signature));
      EXPECT_FALSE(view.signed_with(Signature(0x000012, 0x000777)));
    }
  }
}

TEST(Signature, ALabelThatWasAskedForStays) {
  Route spec = test::ipv6_path();
  spec.flow_label = 0x12345;
  RouteHeader path(spec);
  path.sign(Signature(1, 2));
  uint8_t frame[128] = {};
  EXPECT_EQ(parsed(path, frame, Psn(1)).flow_id, 0x12345u);
}

}  // namespace
}  // namespace uroce
