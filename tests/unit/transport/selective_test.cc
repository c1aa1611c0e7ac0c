// Selective repeat between our own peers, packet by packet: what is held, what is told, what is sent again.
#include <gmock/gmock.h>

#include <algorithm>

#include "packet/signature.h"
#include "rig.h"
#include "transport/responder.h"

namespace uroce::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

RigOptions with(LossRecovery recovery) {
  RigOptions options;
  options.engine.loss_recovery = recovery;
  options.engine.ack_delay = Duration{0};
  options.cap = {64, 64, 4, 4, 64};
  return options;
}
RigOptions selective() { return with(LossRecovery::kSelective); }

/// A frame from a peer that has selective repeat.
Bytes signed_frame(Rig& rig, const Packet& packet) {
  Bytes frame = rig.frame(packet);
  PacketView view;
  EXPECT_EQ(parse_frame(frame, view), ParseResult::kOk);
  const auto offset = static_cast<size_t>(view.bth_bytes - frame.data());
  const Bytes body(frame.begin() + static_cast<std::ptrdiff_t>(offset), frame.end() - kIcrcBytes);
  RouteHeader path(rig.path_from_peer());
  path.sign(Signature(Rig::kPeerQpn, rig.qp().qpn()));
  path.write(frame.data(), static_cast<uint32_t>(body.size()) + kIcrcBytes, packet.bth.psn);
  uint32_t state = icrc_begin(frame.data() + path.l3_offset(), path.ipv6());
  state = crc32_update(state, body.data() + Bth::kBytes, body.size() - Bth::kBytes);
  icrc_store(frame.data() + offset + body.size(), state);
  return frame;
}

// The responder

TEST(SelectiveResponder, HoldsTellsAndCarriesOutInOrder) {
  Rig rig(selective());
  for (uint64_t i = 1; i <= 4; i++) rig.receive(i);
  rig.arrive(send(kOpSendOnly, 0x101, 16));
  EXPECT_THAT(rig.sent(), ElementsAre("SACK 0000ff msn 0 000101..000101"));
  rig.arrive(send(kOpSendOnly, 0x103, 16));
  EXPECT_THAT(rig.sent(), ElementsAre("SACK 0000ff msn 0 000103..000103 000101..000101"));
  EXPECT_THAT(rig.completed(), IsEmpty());
  EXPECT_EQ(rig.counted(), "out_of_sequence 2, tx_sack 2, rx_out_of_order_held 2");
  rig.arrive(send(kOpSendOnly, 0x100, 16));
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: success, 16 bytes", "recv 2: success, 16 bytes"));
  EXPECT_THAT(rig.sent(), ElementsAre("SACK 000101 msn 2 000103..000103"));
  rig.arrive(send(kOpSendOnly, 0x102, 16));
  EXPECT_THAT(rig.completed(), ElementsAre("recv 3: success, 16 bytes", "recv 4: success, 16 bytes"));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000103 msn 4"));
  EXPECT_EQ(rig.qp().responder()->packets_held(), 0u);
}

TEST(SelectiveResponder, NothingReachesMemoryBeforeItsTurn) {
  Rig rig(selective());
  rig.arrive(write(kOpWriteOnly, 0x101, rig.remote_va(8), rig.rkey(), 4, 4));
  EXPECT_NE(rig.remote()[8], payload_byte(0x101, 0));
  rig.arrive(write(kOpWriteOnly, 0x100, rig.remote_va(8), rig.rkey(), 4, 4));
  EXPECT_EQ(rig.remote()[8], payload_byte(0x101, 0));  // the later one is stored last
}

TEST(SelectiveResponder, KeysAreCheckedWhenItsTurnComes) {
  Rig rig(selective());
  rig.receive(1);
  rig.arrive(write(kOpWriteOnly, 0x101, rig.remote_va(8), rig.rkey() ^ 1, 4, 4));
  rig.arrive(send(kOpSendOnly, 0x102, 4));
  rig.sent();
  EXPECT_EQ(rig.qp().state(), QpState::kRts);
  rig.arrive(write(kOpWriteOnly, 0x100, rig.remote_va(0), rig.rkey(), 4, 4));
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000101 remote access error msn 1"));
  EXPECT_EQ(rig.qp().state(), QpState::kErr);
  EXPECT_EQ(rig.qp().responder()->packets_held(), 0u);
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: work request flushed"));
}

TEST(SelectiveResponder, WhatIsHeldIsNotHeldTwice) {
  Rig rig(selective());
  rig.arrive(send(kOpSendOnly, 0x102, 16));
  rig.arrive(send(kOpSendOnly, 0x102, 16));
  EXPECT_THAT(rig.sent(), SizeIs(2));  // sent twice, as the first SACK may be lost
  EXPECT_EQ(rig.counted(), "out_of_sequence 2, tx_sack 2, rx_out_of_order_held 1, rx_drop_held_already 1");
  EXPECT_EQ(rig.qp().responder()->packets_held(), 1u);
}

TEST(SelectiveResponder, AReadHoldsAllOfItsNumbers) {
  Rig rig(selective());
  rig.receive(1);
  rig.arrive({read(0x101, rig.remote_va(), rig.rkey(), 700), send(kOpSendOnly, 0x104, 4)});
  EXPECT_THAT(rig.sent(), ElementsAre("SACK 0000ff msn 0 000101..000104"));
  rig.arrive(write(kOpWriteOnly, 0x100, rig.remote_va(8), rig.rkey(), 4, 4));
  EXPECT_THAT(rig.sent(),
              ElementsAre("READ_RESPONSE_FIRST 000101 msn 2 bytes 256", "READ_RESPONSE_MIDDLE 000102 bytes 256",
                          "READ_RESPONSE_LAST 000103 msn 2 bytes 188", "ACK 000104 msn 3"));
}

TEST(SelectiveResponder, ReceiverNotReadyDropsWhatIsHeld) {
  Rig rig(selective());
  rig.arrive({send(kOpSendOnly, 0x101, 4), send(kOpSendOnly, 0x102, 4)});
  rig.sent();
  rig.arrive(send(kOpSendOnly, 0x100, 4));
  EXPECT_THAT(rig.sent(), ElementsAre("RNR NAK 000100 timer 12 msn 0"));
  EXPECT_EQ(rig.qp().responder()->packets_held(), 0u);
  rig.arrive(send(kOpSendOnly, 0x103, 4));  // behind a refused packet: silence, as always
  EXPECT_THAT(rig.sent(), IsEmpty());
  for (uint64_t i = 1; i <= 4; i++) rig.receive(i);
  rig.arrive({send(kOpSendOnly, 0x100, 4), send(kOpSendOnly, 0x102, 4)});
  EXPECT_THAT(rig.sent(), ElementsAre("SACK 000100 msn 1 000102..000102"));
}

TEST(SelectiveResponder, AFullPoolMeansGoBackN) {
  RigOptions options = selective();
  options.engine.reorder_packets = 4;  // half of them for one QP
  Rig rig(options);
  for (uint32_t psn = 0x101; psn < 0x104; psn++) rig.arrive(send(kOpSendOnly, psn, 4));
  EXPECT_EQ(rig.counted(), "out_of_sequence 3, tx_sack 3, rx_out_of_order_held 2, rx_drop_reorder_full 1");
  options.engine.reorder_packets = 0;
  Rig none(options);
  none.arrive(send(kOpSendOnly, 0x101, 4));
  EXPECT_THAT(none.sent(), ElementsAre("NAK 000100 sequence error msn 0"));
}

TEST(SelectiveResponder, ResetForgetsWhatIsHeld) {
  Rig rig(selective());
  rig.arrive(send(kOpSendOnly, 0x101, 4));
  EXPECT_EQ(rig.qp().responder()->packets_held(), 1u);
  EXPECT_EQ(rig.modify(QpState::kReset), ModifyResult::kOk);
  EXPECT_EQ(rig.qp().responder()->packets_held(), 0u);
}

// Discovery

TEST(SelectiveDiscovery, ThreeSignedPacketsInARow) {
  Rig rig(with(LossRecovery::kAuto));
  for (uint64_t i = 1; i <= 16; i++) rig.receive(i);
  for (uint32_t psn = 0x100; psn < 0x102; psn++) rig.arrive(signed_frame(rig, send(kOpSendOnly, psn, 4)));
  rig.sent();
  rig.arrive(signed_frame(rig, send(kOpSendOnly, 0x103, 4)));  // the third, and the first behind a gap
  EXPECT_THAT(rig.sent(), ElementsAre(HasSubstr("SACK 000101")));
}

TEST(SelectiveDiscovery, TwoAreNotEnough) {
  Rig rig(with(LossRecovery::kAuto));
  for (uint64_t i = 1; i <= 16; i++) rig.receive(i);
  rig.arrive(signed_frame(rig, send(kOpSendOnly, 0x100, 4)));
  rig.sent();
  rig.arrive(signed_frame(rig, send(kOpSendOnly, 0x102, 4)));
  EXPECT_THAT(rig.sent(), ElementsAre(HasSubstr("NAK 000101")));
}

TEST(SelectiveDiscovery, AnUnsignedPacketIsAStrangers) {
  Rig rig(with(LossRecovery::kAuto));
  for (uint64_t i = 1; i <= 16; i++) rig.receive(i);
  for (uint32_t psn = 0x100; psn < 0x103; psn++) rig.arrive(signed_frame(rig, send(kOpSendOnly, psn, 4)));
  rig.arrive(signed_frame(rig, send(kOpSendOnly, 0x104, 4)));
  EXPECT_EQ(rig.qp().responder()->packets_held(), 1u);
  rig.sent();
  rig.arrive(send(kOpSendOnly, 0x105, 4));  // the peer restarted without selective repeat, with the same numbers
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000103 sequence error msn 3"));
  EXPECT_EQ(rig.qp().responder()->packets_held(), 0u);
}

TEST(SelectiveDiscovery, GoBackNNeitherSignsNorListens) {
  Rig rig(with(LossRecovery::kGoBackN));
  for (uint64_t i = 1; i <= 16; i++) rig.receive(i);
  for (uint32_t psn = 0x100; psn < 0x104; psn++) rig.arrive(signed_frame(rig, send(kOpSendOnly, psn, 4)));
  for (const Bytes& frame : rig.sent_frames()) {
    PacketView view;
    ASSERT_EQ(parse_frame(frame, view), ParseResult::kOk);
    EXPECT_EQ(view.flow_id, 0u);
  }
  rig.arrive(signed_frame(rig, send(kOpSendOnly, 0x105, 4)));
  EXPECT_THAT(rig.sent(), ElementsAre(HasSubstr("NAK 000104")));
  rig.post(rig.send_wr(4));
  rig.sent();
  rig.counted();
  rig.arrive(sack(0x1ff, 0, {{0x201, 0x201}}));
  EXPECT_EQ(rig.counted(), "rx_drop_unknown_opcode 1");
}

TEST(SelectiveDiscovery, ASelectiveAckCountsFromOneWhoSignsIt) {
  Rig rig(with(LossRecovery::kAuto));
  for (uint64_t i = 0; i < 5; i++) rig.post(rig.send_wr(4, i));
  rig.sent();
  rig.counted();
  rig.arrive(sack(0x1ff, 0, {{0x201, 0x203}}));
  EXPECT_EQ(rig.counted(), "rx_drop_unknown_opcode 1");
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.arrive(signed_frame(rig, sack(0x1ff, 0, {{0x201, 0x203}})));  // the first SACK from this peer
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000200 bytes 4 ack"));
}

TEST(SelectiveDiscovery, WhatWeSendIsSigned) {
  for (const bool ipv6 : {false, true}) {
    RigOptions options = with(LossRecovery::kAuto);
    options.ipv6 = ipv6;
    Rig rig(options);
    rig.receive(1);
    rig.post(rig.send_wr(600));
    rig.arrive(send(kOpSendOnly, 0x100, 4));
    const std::vector<Bytes> frames = rig.sent_frames();
    EXPECT_EQ(frames.size(), 4u);  // three packets and an ACK
    for (const Bytes& frame : frames) {
      PacketView view;
      ASSERT_EQ(parse_frame(frame, view), ParseResult::kOk);
      EXPECT_TRUE(view.signed_with(Signature(rig.qp().qpn(), Rig::kPeerQpn)));
    }
  }
}

// The requester

/// Ten SENDs of one packet each are under way from 0x200 on.
class SelectiveRequester : public testing::Test {
 protected:
  SelectiveRequester() : rig_(options()) {
    for (uint64_t i = 0; i < 10; i++) rig_.post(rig_.send_wr(4, i));
    EXPECT_THAT(rig_.sent(), SizeIs(10));
    rig_.counted();
    rig_.advance(microseconds(20));
  }
  static RigOptions options() {
    RigOptions options = selective();
    options.engine.ack_delay = microseconds(20);
    return options;
  }
  Rig rig_;
};

TEST_F(SelectiveRequester, SendsExactlyWhatIsLost) {
  rig_.arrive(sack(0x1ff, 0, {{0x201, 0x202}}));
  EXPECT_THAT(rig_.sent(), IsEmpty());
  rig_.arrive(sack(0x1ff, 0, {{0x204, 0x206}, {0x201, 0x202}}));
  EXPECT_THAT(rig_.sent(), ElementsAre("SEND_ONLY 000200 bytes 4 ack", "SEND_ONLY 000203 bytes 4 ack"));
  EXPECT_EQ(rig_.counted(), "retransmits 2, rx_sack 2, selective_retransmits 2");
  EXPECT_THAT(rig_.completed(), IsEmpty());
  EXPECT_EQ(rig_.qp().requester()->retry_timer().retries_left(), 3);
  rig_.arrive(ack(0x209, 10));
  EXPECT_THAT(rig_.completed(), SizeIs(10));
  EXPECT_THAT(rig_.sent(), IsEmpty());
}

TEST_F(SelectiveRequester, TheCumulativePartCompletes) {
  rig_.arrive(sack(0x203, 4, {{0x205, 0x209}}));
  EXPECT_THAT(rig_.completed(), SizeIs(4));
  EXPECT_THAT(rig_.sent(), ElementsAre("SEND_ONLY 000204 bytes 4 ack"));
}

TEST_F(SelectiveRequester, OvertakenAndStillNotThereAfterARoundTrip) {
  rig_.arrive(sack(0x207, 8, {{0x209, 0x209}}));
  EXPECT_THAT(rig_.sent(), IsEmpty());
  rig_.advance(microseconds(12));  // a quarter of the round trip, and its variation
  EXPECT_THAT(rig_.sent(), IsEmpty());
  rig_.advance(microseconds(1));
  EXPECT_THAT(rig_.sent(), ElementsAre("SEND_ONLY 000208 bytes 4 ack"));
  EXPECT_EQ(rig_.counted(), "retransmits 1, rx_sack 1, selective_retransmits 1");
}

TEST_F(SelectiveRequester, ProbesForALostTail) {
  rig_.arrive(ack(0x207, 8));
  // Twice the round trip, the time of a delayed ACK, and a little.
  rig_.advance(microseconds(69));
  EXPECT_THAT(rig_.sent(), IsEmpty());
  rig_.advance(microseconds(1));
  EXPECT_THAT(rig_.sent(), ElementsAre("SEND_ONLY 000209 bytes 4 ack"));
  EXPECT_EQ(rig_.counted(), "retransmits 1, tail_loss_probes 1");
  rig_.advance(microseconds(20));
  rig_.arrive(sack(0x207, 8, {{0x209, 0x209}}));
  EXPECT_THAT(rig_.sent(), ElementsAre("SEND_ONLY 000208 bytes 4 ack"));
}

TEST_F(SelectiveRequester, ProbesAreFurtherAndFurtherApart) {
  rig_.arrive(ack(0x207, 8));
  rig_.sent();
  rig_.advance(microseconds(70));
  EXPECT_THAT(rig_.sent(), ElementsAre("SEND_ONLY 000209 bytes 4 ack"));
  rig_.advance(microseconds(139));
  EXPECT_THAT(rig_.sent(), IsEmpty());
  rig_.advance(microseconds(1));
  EXPECT_THAT(rig_.sent(), ElementsAre("SEND_ONLY 000208 bytes 4 ack"));  // then the first
  rig_.advance(microseconds(280));
  EXPECT_THAT(rig_.sent(), ElementsAre("SEND_ONLY 000209 bytes 4 ack"));
}

/// The responder executed 0x200, had no receive for the next, and dropped the packets that it held; its RNR NAK was
/// lost.
TEST_F(SelectiveRequester, WhatThePeerHeldAndDroppedIsSentAgainAtOnce) {
  rig_.arrive(sack(0x1ff, 0, {{0x201, 0x209}}));
  EXPECT_THAT(rig_.sent(), ElementsAre("SEND_ONLY 000200 bytes 4 ack"));
  rig_.arrive(ack(0x200, 1));
  EXPECT_THAT(rig_.completed(), SizeIs(1));
  const std::vector<std::string> again = rig_.sent();
  ASSERT_THAT(again, SizeIs(9));
  EXPECT_EQ(again.front(), "SEND_ONLY 000201 bytes 4 ack");
  EXPECT_EQ(again.back(), "SEND_ONLY 000209 bytes 4 ack");
  rig_.arrive(ack(0x200, 1));  // the same state: once is enough
  EXPECT_THAT(rig_.sent(), IsEmpty());
  EXPECT_EQ(rig_.qp().requester()->retry_timer().retries_left(), 3);
}

TEST_F(SelectiveRequester, TheSameByASelectiveAck) {
  rig_.arrive(sack(0x1ff, 0, {{0x201, 0x203}, {0x205, 0x209}}));
  EXPECT_THAT(rig_.sent(), SizeIs(2));
  rig_.arrive(sack(0x200, 1, {{0x204, 0x204}}));
  EXPECT_THAT(rig_.sent(), SizeIs(8));
}

TEST_F(SelectiveRequester, AnOldAckDoesNotContradict) {
  rig_.arrive(sack(0x202, 3, {{0x204, 0x209}}));
  EXPECT_THAT(rig_.sent(), ElementsAre("SEND_ONLY 000203 bytes 4 ack"));
  rig_.arrive(ack(0x201, 2));
  rig_.arrive(ack(0x202, 3));
  EXPECT_THAT(rig_.sent(), IsEmpty());
}

TEST_F(SelectiveRequester, ANakIsGoBackN) {
  rig_.arrive(sack(0x1ff, 0, {{0x201, 0x204}}));
  EXPECT_THAT(rig_.sent(), SizeIs(1));
  rig_.arrive(nak(0x200, NakCode::kPsnSequenceError));
  EXPECT_THAT(rig_.sent(), SizeIs(10));
}

TEST_F(SelectiveRequester, ImpossibleRangesAreDropped) {
  for (const auto& range : std::vector<std::pair<uint32_t, uint32_t>>{
           {0x200, 0x201}, {0x1f0, 0x204}, {0x208, 0x20a}, {0x205, 0x203}, {0x205, 0x205 + 0x800000}}) {
    rig_.arrive(sack(0x1ff, 0, {range}));
    EXPECT_EQ(rig_.counted(), "rx_sack 1, rx_drop_bad_sack 1") << range.first;
  }
  Packet odd = sack(0x1ff, 0, {{0x201, 0x201}});
  odd.payload.pop_back();
  rig_.arrive(odd);
  EXPECT_EQ(rig_.counted(), "rx_drop_bad_sack 1");
  rig_.arrive(sack(0x250, 0, {{0x252, 0x252}}));  // no such PSN was sent
  EXPECT_EQ(rig_.counted(), "rx_drop_ghost_ack 1");
  EXPECT_THAT(rig_.sent(), IsEmpty());
  EXPECT_EQ(rig_.qp().state(), QpState::kRts);
}

/// The peer may hold a packet of a stranger's, or of an earlier connection, and report it in every answer.
TEST_F(SelectiveRequester, AnImpossibleRangeDoesNotHideTheOthers) {
  rig_.arrive(sack(0x1ff, 0, {{0x100000, 0x100000}, {0x201, 0x209}}));
  EXPECT_EQ(rig_.counted(), "retransmits 1, rx_sack 1, selective_retransmits 1, rx_drop_bad_sack 1");
  EXPECT_THAT(rig_.sent(), ElementsAre("SEND_ONLY 000200 bytes 4 ack"));
}

TEST_F(SelectiveRequester, TheEndComesWhenItWasPromised) {
  // Even with all that is sent besides the timer's retransmissions: the peer is gone.
  rig_.arrive(sack(0x203, 4, {{0x205, 0x209}}));
  const Instant last_progress = rig_.now();
  rig_.completed();
  const int64_t timeout = 1'048'576;
  const int64_t budget = timeout * (1 + 2 + 4 + 4);  // three retransmissions
  const Instant end = last_progress + nanoseconds(budget);
  for (Instant next = rig_.engine().next_timeout(); next < end; next = rig_.engine().next_timeout()) {
    rig_.advance(std::max(next - rig_.now(), nanoseconds(1)));
  }
  rig_.advance(nanoseconds((end - rig_.now()).ns - 1));
  EXPECT_THAT(rig_.completed(), IsEmpty());
  rig_.advance(nanoseconds(1));
  EXPECT_THAT(rig_.completed(), ElementsAre("send 4: transport retry counter exceeded", "send 5: work request flushed",
                                            "send 6: work request flushed", "send 7: work request flushed",
                                            "send 8: work request flushed", "send 9: work request flushed"));
  EXPECT_EQ((rig_.now() - last_progress).ns, budget);
}

/// Round trips are also measured with packets behind a gap, and while others are retransmitted.
TEST(SelectiveCongestion, HearsOfRoundTripsFromSelectiveAcks) {
  RigOptions options = selective();
  options.engine.congestion.algorithm = CongestionAlgorithm::kDcqcn;
  options.engine.congestion.link_bits_per_second = 1'000'000'000;
  options.engine.congestion.has_win = true;
  options.engine.congestion.var_win = false;
  options.engine.congestion.base_rtt = Duration{0};  // the shortest one that was measured
  Rig rig(options);
  for (uint64_t i = 0; i < 4; i++) rig.post(rig.send_wr(4, i));
  EXPECT_EQ(rig.qp().congestion()->window_bytes(), 0u);
  rig.advance(microseconds(40));
  rig.arrive(sack(0x1ff, 0, {{0x201, 0x202}}));
  EXPECT_EQ(rig.qp().congestion()->window_bytes(), 5'000u);  // 1 Gb/s for 40 us
  rig.advance(microseconds(15));                             // 0x200 is sent again
  rig.post(rig.send_wr(4, 4));
  rig.advance(microseconds(24));
  rig.arrive(sack(0x1ff, 0, {{0x204, 0x204}, {0x201, 0x202}}));
  EXPECT_EQ(rig.qp().congestion()->window_bytes(), 3'000u);
  rig.arrive(ack(0x204, 5));
  EXPECT_EQ(rig.qp().congestion()->window_bytes(), 3'000u);  // which copy of 0x200 it acknowledges is unknown
}

// Responses at the requester

class SelectiveReader : public testing::Test {
 protected:
  SelectiveReader() : rig_(selective()) {}
  Rig rig_;
};

TEST_F(SelectiveReader, OnlyTheMissingPartIsAskedForAgain) {
  rig_.post(rig_.read_wr(256 * 8, 1));
  const std::vector<std::string> sent = rig_.sent();
  ASSERT_THAT(sent, SizeIs(1));
  rig_.advance(microseconds(20));
  rig_.arrive(read_response(kOpReadResponseFirst, 0x200, 256));
  for (uint32_t psn = 0x203; psn < 0x206; psn++) rig_.arrive(read_response(kOpReadResponseMiddle, psn, 256));
  const std::vector<std::string> again = rig_.sent();
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_THAT(again[0], AllOf(HasSubstr("READ_REQUEST 000201"), HasSubstr("len 512")));
  // The peer answers the part as if it were a READ.
  rig_.arrive(read_response(kOpReadResponseFirst, 0x201, 256));
  rig_.arrive(read_response(kOpReadResponseLast, 0x202, 256));
  rig_.arrive(read_response(kOpReadResponseMiddle, 0x206, 256));
  EXPECT_THAT(rig_.completed(), IsEmpty());
  rig_.arrive(read_response(kOpReadResponseLast, 0x207, 256));
  EXPECT_THAT(rig_.completed(), ElementsAre("read 1: success, 2048 bytes"));
  for (uint32_t i = 0; i < 8; i++) {
    EXPECT_EQ(rig_.local()[256 * i], payload_byte(0x200 + i, 0)) << i;
  }
  EXPECT_THAT(rig_.sent(), IsEmpty());
}

TEST_F(SelectiveReader, ALostAtomicResponseIsAskedForAgain) {
  rig_.post(rig_.atomic_wr(WrOpcode::kFetchAdd, 1));
  rig_.post(rig_.read_wr(256 * 3, 2));
  EXPECT_THAT(rig_.sent(), SizeIs(2));
  rig_.advance(microseconds(20));
  for (uint32_t i = 0; i < 3; i++) {
    constexpr uint8_t kLows[] = {kOpReadResponseFirst, kOpReadResponseMiddle, kOpReadResponseLast};
    rig_.arrive(read_response(kLows[i], 0x201 + i, 256));
  }
  EXPECT_THAT(rig_.completed(), IsEmpty());
  EXPECT_THAT(rig_.sent(), ElementsAre(HasSubstr("FETCH_ADD 000200")));
  rig_.arrive(atomic_ack(0x200, 5));
  EXPECT_THAT(rig_.completed(), SizeIs(2));
}

TEST_F(SelectiveReader, ALostReadRequestIsSentWhole) {
  rig_.post(rig_.read_wr(256 * 4, 1));
  for (uint64_t i = 2; i < 6; i++) rig_.post(rig_.send_wr(4, i));
  EXPECT_THAT(rig_.sent(), SizeIs(5));
  rig_.advance(microseconds(20));
  rig_.arrive(sack(0x1ff, 0, {{0x204, 0x206}}));
  const std::vector<std::string> again = rig_.sent();
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_THAT(again[0], AllOf(HasSubstr("READ_REQUEST 000200"), HasSubstr("len 1024")));
}

/// An ACK may stop short of READs at the end, so it does not tell whether the held READ was executed.
TEST_F(SelectiveReader, AReadThatWasHeldAndIsNotAnsweredIsProbedFor) {
  rig_.post(rig_.send_wr(4, 1));
  rig_.post(rig_.read_wr(256 * 3, 2));
  EXPECT_THAT(rig_.sent(), SizeIs(2));
  rig_.advance(microseconds(20));
  rig_.arrive(sack(0x1ff, 0, {{0x201, 0x203}}));
  rig_.advance(microseconds(20));
  EXPECT_THAT(rig_.sent(), ElementsAre("SEND_ONLY 000200 bytes 4 ack"));
  rig_.advance(microseconds(20));
  rig_.arrive(ack(0x200, 1));
  EXPECT_THAT(rig_.sent(), IsEmpty());
  rig_.advance(microseconds(100));
  EXPECT_THAT(rig_.sent(), ElementsAre(AllOf(HasSubstr("READ_REQUEST 000201"), HasSubstr("len 768"))));
  EXPECT_EQ(rig_.counted(), "retransmits 2, rx_sack 1, selective_retransmits 1, tail_loss_probes 1");
}

TEST_F(SelectiveReader, AnAckFromBeyondIsNoNak) {
  rig_.post(rig_.read_wr(256 * 2, 1));
  rig_.post(rig_.send_wr(4, 2));
  rig_.sent();
  rig_.advance(microseconds(20));
  rig_.arrive(ack(0x202, 2));  // both responses are late or lost
  EXPECT_THAT(rig_.sent(), IsEmpty());
  rig_.arrive(read_response(kOpReadResponseFirst, 0x200, 256));
  rig_.arrive(read_response(kOpReadResponseLast, 0x201, 256));
  EXPECT_THAT(rig_.completed(), ElementsAre("read 1: success, 512 bytes", "send 2: success"));
  EXPECT_THAT(rig_.sent(), IsEmpty());
}

TEST_F(SelectiveReader, AnAnsweredPartDoesNotEndTheReadOfAStranger) {
  // Without selective repeat a LAST in the middle is an error, as always.
  Rig rig(with(LossRecovery::kGoBackN));
  rig.post(rig.read_wr(256 * 4, 1));
  rig.arrive(read_response(kOpReadResponseFirst, 0x200, 256));
  rig.arrive(read_response(kOpReadResponseLast, 0x201, 256));
  EXPECT_THAT(rig.completed(), ElementsAre(Not(HasSubstr("success"))));
}

}  // namespace
}  // namespace uroce::test
