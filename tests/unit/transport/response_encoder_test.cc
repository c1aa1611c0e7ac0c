// What a responder sends, byte for byte as the parser of packets reads it.
#include "transport/response_encoder.h"
#include "transport/counters.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "packet/icrc.h"
#include "rig.h"
#include "transport/frame_builder.h"

namespace uroce::test {
namespace {

class ResponseEncoderTest : public testing::Test {
 protected:
  static constexpr uint32_t kMtu = 256;

  ResponseEncoderTest() {
    context_.attributes.dest_qpn = 0x123456;
    context_.header = context_.data_header = RouteHeader(rig_.qp().path());
  }
  /// The frame that was filled: a valid packet for the peer's QP.
  PacketView sent() {
    PacketView packet;
    EXPECT_EQ(parse_frame({frame_.data, frame_.bytes}, packet), ParseResult::kOk);
    EXPECT_TRUE(icrc_matches(packet));
    EXPECT_TRUE(padding_fits(packet));
    EXPECT_EQ(packet.bth.dest_qp, 0x123456u);
    return packet;
  }
  PacketView read_response(const Reply& reply, uint32_t bytes) {
    EXPECT_TRUE(encode_read_response(context_, reply, memory_.data(), bytes, frame_));
    const PacketView packet = sent();
    EXPECT_EQ(packet.payload_bytes, bytes);
    EXPECT_EQ(std::memcmp(packet.payload, memory_.data(), bytes), 0);
    EXPECT_EQ(packet.bth.psn, reply.psn);
    return packet;
  }

  Rig rig_;
  Counters counters_;
  TransportEnv env_{rig_.engine().memory(), counters_, rig_.observer()};
  QpContext context_{rig_.qp(), rig_.qp().init(), 7, env_};
  std::array<uint8_t, kMtu> memory_ = [] {
    std::array<uint8_t, kMtu> bytes;
    for (uint32_t i = 0; i < kMtu; i++) bytes[i] = static_cast<uint8_t>(i * 7 + 1);
    return bytes;
  }();
  std::array<uint8_t, kMaxFrameOverhead + kMtu> bytes_;
  TxFrame frame_{bytes_.data(), static_cast<uint32_t>(bytes_.size())};
};

constexpr uint8_t kPlainAck = 0x1F;  // with no credits
constexpr uint8_t kSequenceNak = 0x60;

TEST_F(ResponseEncoderTest, AcksAndNaks) {
  for (const uint8_t syndrome : {kPlainAck, kSequenceNak, uint8_t{0x2E}}) {
    encode_acknowledge(context_, Psn(0xABCDEF), {syndrome, 0x010203}, frame_);
    const PacketView packet = sent();
    EXPECT_EQ(packet.info->operation, Operation::kAcknowledge);
    EXPECT_EQ(packet.bth.psn, Psn(0xABCDEF));
    EXPECT_EQ(packet.aeth().syndrome, syndrome);
    EXPECT_EQ(packet.aeth().msn, 0x010203u);
    EXPECT_EQ(packet.payload_bytes, 0u);
  }
}

TEST_F(ResponseEncoderTest, SelectiveAcks) {
  const std::array<SackRange, 3> ranges{SackRange{Psn(9), Psn(12)}, {Psn(20), Psn(21)}, {Psn(0xFFFFFF), Psn(3)}};
  for (uint32_t count = 1; count <= ranges.size(); count++) {
    encode_selective_ack(context_, Psn(5), {kPlainAck, 4}, {ranges.data(), count}, frame_);
    const PacketView packet = sent();
    EXPECT_EQ(packet.bth.opcode, kOpcodeSack);
    EXPECT_EQ(packet.bth.psn, Psn(5));
    EXPECT_EQ(packet.aeth().msn, 4u);
    ASSERT_EQ(packet.payload_bytes, count * SackRange::kBytes);
    for (uint32_t i = 0; i < count; i++) {
      const SackRange range = SackRange::decode(packet.payload + i * SackRange::kBytes);
      EXPECT_EQ(range.first, ranges[i].first);
      EXPECT_EQ(range.end, ranges[i].end);
    }
  }
}

TEST_F(ResponseEncoderTest, AtomicResults) {
  Reply reply;
  reply.atomic = true;
  reply.psn = Psn(77);
  reply.msn = 0xFF000005;  // 24 bits of it
  reply.original = 0x1122334455667788;
  encode_atomic_response(context_, reply, frame_);
  const PacketView packet = sent();
  EXPECT_EQ(packet.info->operation, Operation::kAtomicAcknowledge);
  EXPECT_EQ(packet.bth.psn, Psn(77));
  EXPECT_EQ(packet.aeth().syndrome, kPlainAck);
  EXPECT_EQ(packet.aeth().msn, 5u);
  EXPECT_EQ(packet.atomic_ack_eth().original, 0x1122334455667788u);
}

TEST_F(ResponseEncoderTest, ReadResponsesFromFirstToLast) {
  const auto low = [](const PacketView& packet) { return packet.bth.opcode & 0x1F; };
  Reply reply;
  reply.psn = Psn(0xFFFFFF);
  reply.msn = 9;
  reply.remaining = 2 * kMtu + 5;
  PacketView packet = read_response(reply, kMtu);
  EXPECT_EQ(low(packet), kOpReadResponseFirst);
  EXPECT_EQ(packet.aeth().syndrome, kPlainAck);
  EXPECT_EQ(packet.aeth().msn, 9u);
  reply.begun = true;
  reply.remaining -= kMtu;
  EXPECT_EQ(low(read_response(reply, kMtu)), kOpReadResponseMiddle);
  reply.remaining -= kMtu;
  packet = read_response(reply, 5);
  EXPECT_EQ(low(packet), kOpReadResponseLast);
  EXPECT_EQ(packet.aeth().msn, 9u);
  reply.begun = false;
  EXPECT_EQ(low(read_response(reply, 5)), kOpReadResponseOnly);
  reply.remaining = 0;
  EXPECT_EQ(low(read_response(reply, 0)), kOpReadResponseOnly);
}

TEST_F(ResponseEncoderTest, ReadResponsesAreDataForSwitches) {
  Route marked = rig_.qp().path();
  marked.traffic_class = 2;  // ECT(0)
  context_.data_header = RouteHeader(marked);
  Reply reply;
  reply.remaining = 8;
  EXPECT_EQ(read_response(reply, 8).traffic_class & 3, 2);
  encode_acknowledge(context_, Psn(1), {kPlainAck, 0}, frame_);
  EXPECT_NE(sent().traffic_class & 3, 2);
}

}  // namespace
}  // namespace uroce::test
