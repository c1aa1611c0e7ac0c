// Messages as packets: opcodes as numbers, for every MTU.
#include <gmock/gmock.h>

#include <numeric>

#include "rig.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;

struct Seen {
  std::vector<int> opcodes;
  std::vector<uint32_t> bytes;
  Bytes payload;
  int ack_requests = 0;
};

Seen look(Rig& rig) {
  Seen seen;
  for (const Bytes& frame : rig.sent_frames()) {
    PacketView view;
    EXPECT_EQ(parse_frame(frame, view), ParseResult::kOk);
    EXPECT_TRUE(icrc_matches(view));
    EXPECT_EQ(view.bth.dest_qp, Rig::kPeerQpn);
    EXPECT_EQ(view.bth.pkey, 0xFFFF);
    EXPECT_EQ(view.bth.pad_count, -view.payload_bytes & 3u);
    EXPECT_FALSE(view.bth.mig_req);
    seen.opcodes.push_back(view.bth.opcode);
    seen.bytes.push_back(view.payload_bytes);
    seen.payload.insert(seen.payload.end(), view.payload, view.payload + view.payload_bytes);
    seen.ack_requests += view.bth.ack_req ? 1 : 0;
  }
  return seen;
}

class Segmentation : public testing::TestWithParam<uint32_t> {
 protected:
  static RigOptions options() {
    RigOptions o;
    o.mtu = GetParam();
    return o;
  }
};

INSTANTIATE_TEST_SUITE_P(Mtu, Segmentation, testing::Values(256, 512, 1024, 2048, 4096));

TEST_P(Segmentation, Send) {
  const uint32_t mtu = GetParam();
  struct Case {
    uint32_t bytes;
    std::vector<int> opcodes;
    std::vector<uint32_t> lengths;
  };
  const Case cases[] = {{0, {0x04}, {0}},
                        {1, {0x04}, {1}},
                        {mtu - 1, {0x04}, {mtu - 1}},
                        {mtu, {0x04}, {mtu}},
                        {mtu + 1, {0x00, 0x02}, {mtu, 1}},
                        {2 * mtu, {0x00, 0x02}, {mtu, mtu}},
                        {2 * mtu + 1, {0x00, 0x01, 0x02}, {mtu, mtu, 1}},
                        {4 * mtu - 1, {0x00, 0x01, 0x01, 0x02}, {mtu, mtu, mtu, mtu - 1}}};
  for (const Case& c : cases) {
    Rig rig(options());
    rig.post(rig.send_wr(c.bytes));
    const Seen seen = look(rig);
    EXPECT_EQ(seen.opcodes, c.opcodes) << c.bytes;
    EXPECT_EQ(seen.bytes, c.lengths) << c.bytes;
    EXPECT_TRUE(std::equal(seen.payload.begin(), seen.payload.end(), rig.local()));
    EXPECT_EQ(seen.ack_requests, 1);
  }
}

TEST_P(Segmentation, OpcodesOfEveryOperation) {
  const uint32_t mtu = GetParam();
  struct Case {
    WrOpcode opcode;
    std::vector<int> one, three;
  };
  const Case cases[] = {{WrOpcode::kSend, {0x04}, {0x00, 0x01, 0x02}},
                        {WrOpcode::kSendWithImm, {0x05}, {0x00, 0x01, 0x03}},
                        {WrOpcode::kSendWithInv, {0x17}, {0x00, 0x01, 0x16}},
                        {WrOpcode::kRdmaWrite, {0x0a}, {0x06, 0x07, 0x08}},
                        {WrOpcode::kRdmaWriteWithImm, {0x0b}, {0x06, 0x07, 0x09}},
                        {WrOpcode::kRdmaRead, {0x0c}, {0x0c}}};
  for (const Case& c : cases) {
    for (const bool three : {false, true}) {
      Rig rig(options());
      SendWr wr = rig.write_wr(three ? 2 * mtu + 4 : 4);
      wr.opcode = c.opcode;
      rig.post(wr);
      EXPECT_EQ(look(rig).opcodes, three ? c.three : c.one) << static_cast<int>(c.opcode);
    }
  }
}

TEST_P(Segmentation, ReadResponses) {
  const uint32_t mtu = GetParam();
  struct Case {
    uint32_t bytes;
    std::vector<int> opcodes;
  };
  const Case cases[] = {{0, {0x10}}, {mtu, {0x10}}, {mtu + 1, {0x0d, 0x0f}}, {3 * mtu, {0x0d, 0x0e, 0x0f}}};
  for (const Case& c : cases) {
    Rig rig(options());
    rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), c.bytes));
    const Seen seen = look(rig);
    EXPECT_EQ(seen.opcodes, c.opcodes);
    EXPECT_TRUE(std::equal(seen.payload.begin(), seen.payload.end(), rig.remote()));
    EXPECT_EQ(seen.payload.size(), c.bytes);
    EXPECT_EQ(seen.ack_requests, 0);
  }
}

TEST(SegmentationOnce, GatherAcrossPackets) {
  Rig rig;
  const Sge sges[] = {rig.local_sge(1000, 100), rig.local_sge(0, 0), rig.local_sge(5000, 300), rig.local_sge(7, 1)};
  SendWr wr = rig.send_wr(0);
  wr.sges = sges;
  wr.num_sge = 4;
  rig.post(wr);
  const Seen seen = look(rig);
  EXPECT_EQ(seen.bytes, (std::vector<uint32_t>{256, 145}));
  Bytes expected(rig.local() + 1000, rig.local() + 1100);
  expected.insert(expected.end(), rig.local() + 5000, rig.local() + 5300);
  expected.push_back(rig.local()[7]);
  EXPECT_EQ(seen.payload, expected);
}

TEST(SegmentationOnce, ScatterAcrossReceives) {
  Rig rig;
  const Sge sges[] = {rig.local_sge(40000, 10), rig.local_sge(50000, 0), rig.local_sge(41000, 300)};
  const RecvWr receive{5, sges, 3};
  ASSERT_EQ(rig.engine().post_recv(rig.qp(), receive, rig.now()), PostResult::kOk);
  rig.arrive({send(kOpSendFirst, 0x100, 256), send(kOpSendLast, 0x101, 44)});
  EXPECT_THAT(rig.completed(), ElementsAre("recv 5: success, 300 bytes"));
  for (uint32_t i = 0; i < 300; i++) {
    const uint8_t want = payload_byte(0x100 + i / 256, i % 256);
    ASSERT_EQ(i < 10 ? rig.local()[40000 + i] : rig.local()[41000 + i - 10], want) << i;
  }
}

TEST(SegmentationOnce, InlineDataIsTakenAtOnceAndNeedsNoKey) {
  Rig rig;
  uint8_t data[64];
  std::iota(data, data + 64, uint8_t{1});
  const Sge sge{reinterpret_cast<uint64_t>(data), 64, 0};
  SendWr wr = rig.send_wr(0);
  wr.sges = &sge;
  wr.flags |= kSendInline;
  ASSERT_EQ(rig.engine().post_send(rig.qp(), wr, rig.now()), PostResult::kOk);
  std::fill(data, data + 64, uint8_t{0});
  rig.turn();
  const Seen seen = look(rig);
  ASSERT_EQ(seen.payload.size(), 64u);
  EXPECT_EQ(seen.payload[0], 1);
  EXPECT_EQ(seen.payload[63], 64);
}

TEST(SegmentationOnce, LimitsOfAPost) {
  Rig rig;
  SendWr wr = rig.send_wr(65);
  wr.flags |= kSendInline;
  EXPECT_EQ(rig.post(wr), PostResult::kInlineTooLong);
  Sge sges[5] = {};
  wr = rig.send_wr(0);
  wr.sges = sges;
  wr.num_sge = 5;
  EXPECT_EQ(rig.post(wr), PostResult::kTooManySges);
  sges[0].length = sges[1].length = 0x40000001;
  wr.num_sge = 2;
  EXPECT_EQ(rig.post(wr), PostResult::kTooLong);
  EXPECT_EQ(rig.post(rig.atomic_wr(WrOpcode::kFetchAdd)), PostResult::kOk);
  SendWr atomic = rig.atomic_wr(WrOpcode::kFetchAdd);
  const Sge four = rig.local_sge(0, 4);
  atomic.sges = &four;
  EXPECT_EQ(rig.post(atomic), PostResult::kTooLong);
}

/// Lengths whose sum wraps 32 bits (a bug of librxe): refused, and nothing is copied.
TEST(SegmentationOnce, InlineLengthsThatWrap) {
  Rig rig;
  const Sge sges[3] = {{0x1000, 0xFFFFFFFF, 0}, {0x1000, 1, 0}, {0x1000, 8, 0}};
  SendWr wr = rig.send_wr(0);
  wr.sges = sges;
  wr.num_sge = 3;
  wr.flags |= kSendInline;
  EXPECT_EQ(rig.post(wr), PostResult::kTooLong);
  EXPECT_EQ(rig.qp().send_queue().ring().size(), 0u);
}

TEST(SegmentationOnce, FullQueues) {
  Rig rig;
  for (uint64_t i = 0; i < 16; i++) ASSERT_EQ(rig.post(rig.send_wr(0, i)), PostResult::kOk);
  EXPECT_EQ(rig.post(rig.send_wr(0, 16)), PostResult::kQueueFull);
  rig.arrive(ack(0x200, 1));
  EXPECT_EQ(rig.post(rig.send_wr(0, 16)), PostResult::kQueueFull);
  EXPECT_THAT(rig.completed(), ElementsAre("send 0: success"));
  EXPECT_EQ(rig.post(rig.send_wr(0, 16)), PostResult::kOk);
  for (uint64_t i = 0; i < 16; i++) ASSERT_EQ(rig.receive(i), PostResult::kOk);
  EXPECT_EQ(rig.receive(16), PostResult::kQueueFull);
}

TEST(SegmentationOnce, Solicited) {
  Rig rig;
  SendWr wr = rig.send_wr(300);
  wr.flags |= kSendSolicited;
  rig.post(wr);
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_FIRST 000200 bytes 256", "SEND_LAST 000201 bytes 44 ack solicited"));
}

TEST(SegmentationOnce, LongMessagesAskForAcksOnTheWay) {
  RigOptions options;
  options.cap.max_send_wr = 4;
  Rig rig(options);
  rig.post(rig.write_wr(256 * 100));
  const Seen seen = look(rig);
  EXPECT_EQ(seen.opcodes.size(), 100u);
  EXPECT_GE(seen.ack_requests, 3);
}

}  // namespace
}  // namespace uroce::test
