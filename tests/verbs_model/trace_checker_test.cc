// What the engines send is looked at by TraceChecker: it has to see what breaks a rule, and nothing else.
#include "verbs_model/trace_checker.h"

#include <gtest/gtest.h>

#include "packet/opcode.h"
#include "transport/frame_builder.h"

namespace uroce::model {
namespace {

constexpr uint32_t kQpn = 0x123456;

std::vector<uint8_t> answer(uint32_t psn, AethKind kind, uint32_t msn) {
  Route spec;
  spec.src_ip = IpAddress::v4(0x0A000001);
  spec.dst_ip = IpAddress::v4(0x0A000002);
  const RouteHeader path(spec);
  Bth bth;
  bth.opcode = kOpAcknowledge;
  bth.dest_qp = kQpn;
  bth.psn = Psn(psn);
  std::vector<uint8_t> frame(kMaxFrameOverhead);
  TxFrame out{frame.data(), kMaxFrameOverhead, 0, nullptr};
  FrameBuilder builder(out, path, bth, Aeth::kBytes, 0);
  Aeth{make_syndrome(kind, 0), msn}.encode(builder.ext());
  builder.finish();
  frame.resize(out.bytes);
  return frame;
}

class TraceCheckers : public ::testing::Test {
 protected:
  void send(const std::vector<uint8_t>& frame) { checker_.on_frame(Direction::kSent, Instant{}, frame); }
  void ack(uint32_t psn, uint32_t msn) { send(answer(psn, AethKind::kAck, msn)); }
  void nak(uint32_t psn, uint32_t msn) { send(answer(psn, AethKind::kNak, msn)); }
  std::string verdict() const { return verdict_.text(); }

  Verdict verdict_;
  TraceChecker checker_{verdict_};
};

/// A NAK has the next PSN, also behind READs that an ACK leaves out.
TEST_F(TraceCheckers, LetAnswersGoOnBeyondTheWrap) {
  ack(0xFFFFFE, 0xFFFFFF);
  ack(0xFFFFFE, 0xFFFFFF);
  nak(3, 0);
  ack(1, 0);
  nak(5, 1);
  EXPECT_EQ(verdict(), "");
}

TEST_F(TraceCheckers, FindAnAckThatGoesBack) {
  ack(2, 1);
  ack(0xFFFFFF, 1);
  EXPECT_EQ(verdict(), "to QP 123456: the answer went back from 000003 to 000000");
}

TEST_F(TraceCheckers, FindANakThatGoesBack) {
  nak(7, 1);
  nak(6, 1);
  EXPECT_EQ(verdict(), "to QP 123456: the NAK went back from 000007 to 000006");
}

TEST_F(TraceCheckers, FindAMessageThatIsUncounted) {
  ack(1, 0);
  ack(2, 0xFFFFFF);
  EXPECT_EQ(verdict(), "to QP 123456: the MSN went back from 000000 to ffffff");
}

TEST_F(TraceCheckers, FindAWrongIcrc) {
  std::vector<uint8_t> frame = answer(1, AethKind::kAck, 1);
  frame.back() ^= 1;
  send(frame);
  EXPECT_NE(verdict().find("was sent with a wrong iCRC"), std::string::npos) << verdict();
}

TEST_F(TraceCheckers, FindAPacketThatIsNone) {
  std::vector<uint8_t> frame = answer(1, AethKind::kAck, 1);
  frame.resize(frame.size() - 8);
  send(frame);
  EXPECT_NE(verdict().find("a bad packet was sent"), std::string::npos) << verdict();
}

TEST_F(TraceCheckers, CountAnewForANewConnection) {
  ack(9, 9);
  checker_.forget(kQpn);
  ack(1, 1);
  EXPECT_EQ(verdict(), "");
}

/// Received frames are not checked: their sender's checker does that.
TEST_F(TraceCheckers, DoNotLookAtWhatComes) {
  ack(9, 9);
  checker_.on_frame(Direction::kReceived, Instant{}, answer(1, AethKind::kAck, 1));
  EXPECT_EQ(verdict(), "");
}

}  // namespace
}  // namespace uroce::model
