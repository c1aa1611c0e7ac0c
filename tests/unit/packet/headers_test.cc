// Each header against bytes written out by hand, in both directions.
#include "packet/headers.h"

#include <gtest/gtest.h>

#include "bytes.h"

namespace uroce {
namespace {

using test::from_hex;
using test::to_hex;

/// The encoded `header`; fails when encode() writes beyond its kBytes.
template <typename Header>
std::string encoded(const Header& header) {
  uint8_t room[Header::kBytes + 8];
  std::memset(room, 0xee, sizeof room);
  header.encode(room);
  for (uint32_t i = Header::kBytes; i < sizeof room; i++) EXPECT_EQ(room[i], 0xee) << "byte " << i;
  return to_hex({room, Header::kBytes});
}

TEST(Bth, LiteralBytes) {
  const auto bytes = from_hex("0a e1 1234 00 abcdef 80 fedcba");
  ASSERT_EQ(bytes.size(), Bth::kBytes);
  const Bth h = Bth::decode(bytes.data());
  EXPECT_EQ(h.opcode, 0x0a);
  EXPECT_TRUE(h.solicited);
  EXPECT_TRUE(h.mig_req);
  EXPECT_EQ(h.pad_count, 2);
  EXPECT_EQ(h.tver, 1);
  EXPECT_EQ(h.pkey, 0x1234);
  EXPECT_EQ(h.resv8a, 0);
  EXPECT_EQ(h.dest_qp, 0xabcdefu);
  EXPECT_TRUE(h.ack_req);
  EXPECT_EQ(h.resv7, 0);
  EXPECT_EQ(h.psn, Psn(0xfedcba));
  EXPECT_EQ(encoded(h), to_hex(bytes));
}

TEST(Bth, EachFlagAlone) {
  Bth h;
  h.pkey = 0;
  EXPECT_EQ(encoded(h), "000000000000000000000000");
  h.solicited = true;
  EXPECT_EQ(encoded(h), "008000000000000000000000");
  h = Bth{.mig_req = true, .pkey = 0};
  EXPECT_EQ(encoded(h), "004000000000000000000000");
  h = Bth{.pad_count = 3, .pkey = 0};
  EXPECT_EQ(encoded(h), "003000000000000000000000");
  h = Bth{.tver = 15, .pkey = 0};
  EXPECT_EQ(encoded(h), "000f00000000000000000000");
  h = Bth{.resv8a = 0xc0};
  EXPECT_EQ(encoded(h), "0000ffffc000000000000000");
  h = Bth{.pkey = 0, .ack_req = true};
  EXPECT_EQ(encoded(h), "000000000000000080000000");
  h = Bth{.pkey = 0, .resv7 = 0x7f};
  EXPECT_EQ(encoded(h), "00000000000000007f000000");
}

TEST(Bth, AnyTwelveBytesSurvive) {
  for (unsigned seed = 0; seed < 256; seed++) {
    uint8_t bytes[Bth::kBytes];
    for (unsigned i = 0; i < sizeof bytes; i++) bytes[i] = static_cast<uint8_t>(seed * 37 + i * 101);
    EXPECT_EQ(encoded(Bth::decode(bytes)), to_hex(bytes));
  }
}

TEST(Reth, LiteralBytes) {
  const auto bytes = from_hex("0123456789abcdef 11223344 00010000");
  const Reth h = Reth::decode(bytes.data());
  EXPECT_EQ(h.va, 0x0123456789abcdefu);
  EXPECT_EQ(h.rkey, 0x11223344u);
  EXPECT_EQ(h.dma_length, 65536u);
  EXPECT_EQ(encoded(h), to_hex(bytes));
}

TEST(Aeth, LiteralBytes) {
  const auto bytes = from_hex("63 0a0b0c");
  const Aeth h = Aeth::decode(bytes.data());
  EXPECT_EQ(h.syndrome, 0x63);
  EXPECT_EQ(h.msn, 0x0a0b0cu);
  EXPECT_EQ(encoded(h), to_hex(bytes));
}

TEST(Aeth, Syndromes) {
  EXPECT_EQ(aeth_kind(0x1f), AethKind::kAck);
  EXPECT_EQ(aeth_value(0x1f), kCreditsInvalid);
  EXPECT_EQ(aeth_kind(0x2c), AethKind::kRnrNak);
  EXPECT_EQ(aeth_value(0x2c), 12);
  EXPECT_EQ(aeth_kind(0x45), AethKind::kReserved);
  EXPECT_EQ(aeth_kind(0x61), AethKind::kNak);
  EXPECT_EQ(make_syndrome(AethKind::kNak, static_cast<uint8_t>(NakCode::kPsnSequenceError)), 0x60);
  EXPECT_EQ(make_syndrome(AethKind::kNak, static_cast<uint8_t>(NakCode::kInvalidRequest)), 0x61);
  EXPECT_EQ(make_syndrome(AethKind::kNak, static_cast<uint8_t>(NakCode::kRemoteAccessError)), 0x62);
  EXPECT_EQ(make_syndrome(AethKind::kNak, static_cast<uint8_t>(NakCode::kRemoteOperationalError)), 0x63);
  EXPECT_EQ(make_syndrome(AethKind::kRnrNak, 31), 0x3f);
  EXPECT_EQ(make_syndrome(AethKind::kAck, kCreditsInvalid), 0x1f);
  // The top bit is reserved and ignored.
  EXPECT_EQ(aeth_kind(0x9f), AethKind::kAck);
}

TEST(AtomicEth, LiteralBytes) {
  const auto bytes = from_hex("0123456789abcdef 11223344 a0a1a2a3a4a5a6a7 b0b1b2b3b4b5b6b7");
  const AtomicEth h = AtomicEth::decode(bytes.data());
  EXPECT_EQ(h.va, 0x0123456789abcdefu);
  EXPECT_EQ(h.rkey, 0x11223344u);
  EXPECT_EQ(h.swap_add, 0xa0a1a2a3a4a5a6a7u);
  EXPECT_EQ(h.compare, 0xb0b1b2b3b4b5b6b7u);
  EXPECT_EQ(encoded(h), to_hex(bytes));
}

TEST(AtomicAckEth, LiteralBytes) {
  const auto bytes = from_hex("c0c1c2c3c4c5c6c7");
  const AtomicAckEth h = AtomicAckEth::decode(bytes.data());
  EXPECT_EQ(h.original, 0xc0c1c2c3c4c5c6c7u);
  EXPECT_EQ(encoded(h), to_hex(bytes));
}

TEST(ImmDt, KeepsTheWireBytes) {
  const auto bytes = from_hex("01020304");
  const ImmDt h = ImmDt::decode(bytes.data());
  uint8_t as_a_program_sees_it[4];
  std::memcpy(as_a_program_sees_it, &h.imm, 4);
  EXPECT_EQ(to_hex(as_a_program_sees_it), "01020304");
  EXPECT_EQ(encoded(h), "01020304");
}

TEST(Ieth, LiteralBytes) {
  const auto bytes = from_hex("deadbeef");
  EXPECT_EQ(Ieth::decode(bytes.data()).rkey, 0xdeadbeefu);
  EXPECT_EQ(encoded(Ieth{0xdeadbeef}), "deadbeef");
}

TEST(Deth, LiteralBytes) {
  const auto bytes = from_hex("80010000 00 000102");
  const Deth h = Deth::decode(bytes.data());
  EXPECT_EQ(h.qkey, 0x80010000u);
  EXPECT_EQ(h.src_qp, 0x000102u);
  EXPECT_EQ(encoded(h), to_hex(bytes));
  // The reserved byte is ignored, and sent as zero.
  EXPECT_EQ(Deth::decode(from_hex("80010000 ff 000102").data()).src_qp, 0x102u);
}

}  // namespace
}  // namespace uroce
