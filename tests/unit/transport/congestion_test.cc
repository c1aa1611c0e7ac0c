// Marks, CNPs and the pacer, packet by packet.
#include <gmock/gmock.h>

#include "congestion/algorithms.h"
#include "congestion/parameters.h"
#include "engine/bring_up.h"
#include "packet/packet.h"
#include "rig.h"
#include "sim/testbed.h"
#include "transport/address_handle.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint8_t kMarked = 3;

RigOptions options_with(CongestionAlgorithm algorithm, QpType type = QpType::kRc) {
  RigOptions options;
  options.type = type;
  options.engine.congestion.algorithm = algorithm;
  options.engine.congestion.link_bits_per_second = 1'000'000'000;
  options.engine.congestion.burst_bytes = 0;
  options.attributes.max_rd_atomic = options.attributes.max_dest_rd_atomic = 4;
  return options;
}

RigOptions dcqcn(QpType type = QpType::kRc) { return options_with(CongestionAlgorithm::kDcqcn, type); }

void set_traffic_class(Rig& rig, uint8_t traffic_class) {
  Route path = rig.path_from_peer();
  path.traffic_class = traffic_class;
  rig.set_path_from_peer(path);
}

Bytes cnp_to(Rig& rig, uint32_t qpn) {
  Bth bth;
  bth.opcode = kOpcodeCnp;
  bth.resv8a = 0x40;
  bth.dest_qp = qpn;
  return frame_of(rig.path_from_peer(), bth, Bytes(16), {});
}

void arrive_cnp(Rig& rig) { rig.arrive(cnp_to(rig, rig.qp().qpn())); }

std::vector<PacketView> views(const std::vector<Bytes>& frames) {
  std::vector<PacketView> all;
  for (const Bytes& frame : frames) {
    PacketView view;
    EXPECT_EQ(parse_frame(frame, view), ParseResult::kOk);
    all.push_back(view);
  }
  return all;
}

// Notification point.

TEST(Notification, AMarkedPacketCausesACnpBeforeTheAck) {
  Rig rig(dcqcn());
  rig.receive(1);
  set_traffic_class(rig, kMarked);
  rig.arrive(send(kOpSendOnly, 0x100, 0));
  EXPECT_EQ(rig.counted(), "rx_sends 1, sent_acks 1, np_ecn_marked_roce_packets 1, np_cnp_sent 1");
  const std::vector<Bytes> frames = rig.sent_frames();
  ASSERT_THAT(frames, SizeIs(2));
  const PacketView cnp = views(frames)[0];
  EXPECT_EQ(cnp.bth.opcode, kOpcodeCnp);
  EXPECT_EQ(cnp.bth.dest_qp, Rig::kPeerQpn);
  EXPECT_EQ(cnp.bth.resv8a, 0x40);  // BECN, and not FECN
  EXPECT_EQ(cnp.bth.psn, Psn(0));
  EXPECT_FALSE(cnp.bth.ack_req || cnp.bth.solicited);
  EXPECT_EQ(cnp.traffic_class, 48 << 2);
  EXPECT_THAT(Bytes(cnp.ext, cnp.ext + 16), testing::Each(0));
}

TEST(Notification, WithoutAnAlgorithmThereIsNone) {
  Rig rig;
  rig.receive(1);
  set_traffic_class(rig, kMarked);
  rig.arrive(send(kOpSendOnly, 0x100, 0));
  EXPECT_EQ(rig.counted(), "rx_sends 1, sent_acks 1, np_ecn_marked_roce_packets 1");
}

TEST(Notification, PerQpAtMostOneInItsTime) {
  Rig rig(dcqcn());
  set_traffic_class(rig, kMarked);
  uint32_t psn = 0x100;
  const auto marked = [&] {
    rig.receive(1);
    rig.arrive(send(kOpSendOnly, psn++, 0).no_ack_request());
    return rig.sent().size();
  };
  EXPECT_EQ(marked(), 1u);
  EXPECT_EQ(marked(), 0u);
  rig.advance(nanoseconds(49'999));
  EXPECT_EQ(marked(), 0u);
  rig.advance(nanoseconds(1));
  EXPECT_EQ(marked(), 1u);
  EXPECT_EQ(marked(), 0u);
  EXPECT_EQ(rig.counted(), "rx_sends 5, np_ecn_marked_roce_packets 5, np_cnp_sent 2");
}

TEST(Notification, ForAMarkedReadResponseToo) {
  Rig rig(dcqcn());
  rig.post(rig.read_wr(16));
  rig.sent();
  set_traffic_class(rig, kMarked);
  rig.arrive(read_response(kOpReadResponseOnly, 0x200, 16, 1));
  EXPECT_EQ(rig.counted(), "np_ecn_marked_roce_packets 1, np_cnp_sent 1");
}

TEST(Notification, ForUcButNotForUd) {
  Rig uc(dcqcn(QpType::kUc));
  uc.receive(1);
  set_traffic_class(uc, kMarked);
  uc.arrive(send(kOpSendOnly, 0x100, 0, Service::kUc));
  EXPECT_EQ(uc.counted(), "rx_sends 1, np_ecn_marked_roce_packets 1, np_cnp_sent 1");
  Rig ud(dcqcn(QpType::kUd));
  ud.receive(1);
  set_traffic_class(ud, kMarked);
  ud.arrive(datagram(0x100, 16, Rig::kQkey, 0x123));
  EXPECT_EQ(ud.counted(), "rx_sends 1, np_ecn_marked_roce_packets 1");
  EXPECT_THAT(ud.sent(), IsEmpty());
}

TEST(Notification, ACnpIsNeverAnswered) {
  Rig rig(dcqcn());
  set_traffic_class(rig, kMarked);
  arrive_cnp(rig);  // itself marked, which no switch should do
  rig.advance(milliseconds(1));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.counted(), "rp_cnp_handled 1");
}

TEST(Notification, ABadPacketIsNoReason) {
  Rig rig(dcqcn());
  set_traffic_class(rig, kMarked);
  Bytes frame = rig.frame(send(kOpSendOnly, 0x100, 16));
  frame.back() ^= 1;
  rig.arrive(frame);
  EXPECT_EQ(rig.counted(), "rx_icrc_encapsulated 1");
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST(Notification, APortWithoutRoomSendsItLater) {
  Rig rig(dcqcn());
  rig.receive(1);
  set_traffic_class(rig, kMarked);
  rig.port().set_tx_room(0);
  rig.arrive(send(kOpSendOnly, 0x100, 0).no_ack_request());
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_TRUE(rig.engine().wants_transmit());
  rig.port().set_tx_room(4);
  rig.turn();
  EXPECT_THAT(rig.sent(), SizeIs(1));
}

TEST(Notification, NoneFromAQpThatWasReset) {
  Rig rig(dcqcn());
  rig.receive(1);
  set_traffic_class(rig, kMarked);
  rig.port().set_tx_room(0);
  rig.arrive(send(kOpSendOnly, 0x100, 0).no_ack_request());
  EXPECT_EQ(rig.modify(QpState::kReset), ModifyResult::kOk);
  rig.port().set_tx_room(4);
  rig.turn();
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.engine().destroy_qp(&rig.qp(), rig.now());
  rig.turn();
}

TEST(Notification, DestroyedWithACnpStillToSend) {
  Rig rig(dcqcn());
  rig.receive(1);
  set_traffic_class(rig, kMarked);
  rig.port().set_tx_room(0);
  rig.arrive(send(kOpSendOnly, 0x100, 0).no_ack_request());
  rig.engine().destroy_qp(&rig.qp(), rig.now());
  rig.port().set_tx_room(4);
  rig.turn();
  EXPECT_THAT(rig.sent(), IsEmpty());
}

// Packets that may be marked.

TEST(Ect, OnPacketsWithPayloadOnly) {
  Rig rig(dcqcn());
  rig.receive(1);
  rig.post(rig.send_wr(16));
  rig.post(rig.write_wr(16));
  rig.post(rig.read_wr(16));
  rig.arrive(send(kOpSendOnly, 0x100, 0));                       // answered by an ACK
  rig.arrive(read(0x101, rig.remote_va(), rig.rkey(), 16));      // by a READ response
  rig.arrive(fetch_add(0x102, rig.remote_va(), rig.rkey(), 1));  // by an atomic response
  std::vector<std::pair<Operation, int>> seen;
  const std::vector<Bytes> frames = rig.sent_frames();
  for (const PacketView& view : views(frames)) seen.emplace_back(view.info->operation, view.traffic_class & 3);
  using Seen = std::pair<Operation, int>;
  EXPECT_THAT(seen, ElementsAre(Seen(Operation::kSend, 2), Seen(Operation::kWrite, 2), Seen(Operation::kReadRequest, 0),
                                Seen(Operation::kAcknowledge, 0), Seen(Operation::kReadResponse, 2),
                                Seen(Operation::kAtomicAcknowledge, 0)));
}

TEST(Ect, NotWithoutAnAlgorithmAndNotOnDatagrams) {
  Rig none;
  none.post(none.send_wr(16));
  Rig ud(dcqcn(QpType::kUd));
  AddressVector av;
  av.dgid = ud.path_from_peer().src_ip;
  av.sgid_index = 1;
  const auto ah = ud.engine().create_ah(ud.pd(), av, ud.now());
  ASSERT_NE(ah, nullptr);
  ud.resolve_peer();  // an answer counts only if the handle has asked
  SendWr wr = ud.send_wr(16);
  wr.ah = ah.get();
  wr.remote_qpn = 0x123;
  EXPECT_EQ(ud.post(wr), PostResult::kOk);
  for (Rig* rig : {&none, &ud}) {
    const std::vector<Bytes> frames = rig->sent_frames();
    ASSERT_THAT(frames, SizeIs(1));
    EXPECT_EQ(views(frames)[0].traffic_class & 3, 0);
  }
  ud.engine().destroy_ah(ah.get());
}

// Reaction point.

TEST(Reaction, OnlyThePeerCanSlowUsDown) {
  Rig rig(dcqcn());
  const Bytes right = cnp_to(rig, rig.qp().qpn());
  rig.arrive(cnp_to(rig, rig.qp().qpn() ^ 1));
  EXPECT_EQ(rig.counted(), "rx_drop_no_qp 1");
  Route stranger = rig.path_from_peer();
  stranger.src_ip = IpAddress::v4(0x0A000063);
  const Route peer = rig.path_from_peer();
  rig.set_path_from_peer(stranger);
  arrive_cnp(rig);
  EXPECT_EQ(rig.counted(), "rx_drop_wrong_peer 1");
  rig.set_path_from_peer(peer);
  Bytes broken = right;
  broken.back() ^= 1;
  rig.arrive(broken);
  EXPECT_EQ(rig.counted(), "rx_icrc_encapsulated 1");
  EXPECT_FALSE(rig.qp().congestion()->limited());
  rig.arrive(right);
  EXPECT_EQ(rig.counted(), "rp_cnp_handled 1");
  EXPECT_EQ(rig.qp().congestion()->rate_bits_per_second(), 500'000'000u);
}

TEST(Reaction, IgnoredWhereNobodyListens) {
  for (const auto algorithm : {CongestionAlgorithm::kNone, CongestionAlgorithm::kTimely, CongestionAlgorithm::kSwift}) {
    Rig rig(options_with(algorithm));
    arrive_cnp(rig);
    EXPECT_EQ(rig.counted(), "rp_cnp_ignored 1");
  }
  Rig ud(dcqcn(QpType::kUd));
  arrive_cnp(ud);
  EXPECT_EQ(ud.counted(), "rx_drop_qp_service 1");
}

/// Frame bytes of a 256-byte middle packet: Ethernet, IPv4, UDP, BTH, iCRC.
constexpr int64_t kMiddleBytes = 14 + 20 + 8 + 12 + 256 + 4;

TEST(Reaction, PacketsAreSpacedAfterACnp) {
  Rig rig(dcqcn());
  arrive_cnp(rig);  // 500 Mbit/s: 16 ns a byte
  rig.post(rig.send_wr(1024));
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_FIRST 000200 bytes 256"));
  for (const char* next :
       {"SEND_MIDDLE 000201 bytes 256", "SEND_MIDDLE 000202 bytes 256", "SEND_LAST 000203 bytes 256 ack"}) {
    rig.advance(nanoseconds(kMiddleBytes * 16 - 1));
    EXPECT_THAT(rig.sent(), IsEmpty());
    EXPECT_FALSE(rig.engine().wants_transmit());
    EXPECT_EQ(rig.engine().next_timeout(), rig.now() + nanoseconds(1));
    rig.advance(nanoseconds(1));
    EXPECT_THAT(rig.sent(), ElementsAre(next));
  }
}

TEST(Reaction, NothingToSendMeansNoTimer) {
  Rig rig(dcqcn());
  arrive_cnp(rig);
  rig.post(rig.send_wr(16));
  rig.sent();
  rig.arrive(ack(0x200, 1));
  rig.advance(microseconds(1));  // a lazy timer would fire now
  rig.advance(milliseconds(10));
  EXPECT_EQ(rig.qp().next_timeout(), Instant::never());
}

TEST(Reaction, ReadResponsesKeepToTheRateAndAcksDoNot) {
  Rig rig(dcqcn());
  rig.receive(1);
  arrive_cnp(rig);
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), 512));
  EXPECT_THAT(rig.sent(), ElementsAre("READ_RESPONSE_FIRST 000100 msn 1 bytes 256"));
  rig.advance(microseconds(1));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.advance(microseconds(5));
  EXPECT_THAT(rig.sent(), ElementsAre("READ_RESPONSE_LAST 000101 msn 1 bytes 256"));
  rig.arrive(send(kOpSendOnly, 0x102, 16));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000102 msn 2"));  // not delayed
  rig.arrive(fetch_add(0x103, rig.remote_va(), rig.rkey(), 1));
  EXPECT_THAT(rig.sent(), SizeIs(1));
  rig.arrive(read(0x104, rig.remote_va(), rig.rkey(), 16));
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST(Reaction, AnAckDoesNotOvertakeAReadResponse) {
  Rig rig(dcqcn());
  rig.receive(1);
  arrive_cnp(rig);
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), 512));
  rig.arrive(send(kOpSendOnly, 0x102, 16));
  EXPECT_THAT(rig.sent(), ElementsAre("READ_RESPONSE_FIRST 000100 msn 1 bytes 256"));
  rig.advance(microseconds(6));
  EXPECT_THAT(rig.sent(), ElementsAre("READ_RESPONSE_LAST 000101 msn 1 bytes 256", "ACK 000102 msn 2"));
}

TEST(Reaction, UcKeepsToTheRateToo) {
  Rig rig(dcqcn(QpType::kUc));
  arrive_cnp(rig);
  rig.post(rig.send_wr(512));
  EXPECT_THAT(rig.sent(), SizeIs(1));
  rig.advance(nanoseconds(kMiddleBytes * 16 - 1));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.advance(nanoseconds(1));
  EXPECT_THAT(rig.sent(), SizeIs(1));
}

TEST(Reaction, AWaitIsShortenedWhenTheRateRises) {
  RigOptions options = dcqcn();
  options.engine.congestion.link_bits_per_second = 2'000'000;
  options.engine.congestion.dcqcn.rpg_min_rate = 1;
  options.attributes.timeout = 14;
  Rig rig(options);
  arrive_cnp(rig);  // 1 Mbit/s: a packet takes 2.5 ms
  rig.post(rig.send_wr(512));
  EXPECT_THAT(rig.sent(), SizeIs(1));
  rig.advance(microseconds(56));  // recovery begins: 1.5, 1.75 Mbit/s, ...
  for (int i = 0; i < 24; i++) rig.advance(microseconds(55));
  EXPECT_THAT(rig.sent(), SizeIs(1));  // before 1.4 ms
}

TEST(Reaction, TheResetOfAQpForgetsItsRate) {
  Rig rig(dcqcn());
  arrive_cnp(rig);
  EXPECT_TRUE(rig.qp().congestion()->limited());
  EXPECT_EQ(rig.modify(QpState::kReset), ModifyResult::kOk);
  EXPECT_FALSE(rig.qp().congestion()->limited());
}

/// The packets, too: nothing has to update the rate first, and the window is new.
TEST(Reaction, AfterAResetPacketsGoAtTheFullRateAtOnce) {
  RigOptions options = dcqcn();
  options.engine.congestion.has_win = true;
  options.engine.congestion.base_rtt = microseconds(8);  // four packets of 256
  Rig rig(options);
  for (int i = 0; i < 4; i++) {
    arrive_cnp(rig);
    rig.advance(microseconds(50));
  }
  const QpAttributes attributes = rig.qp().attributes();
  EXPECT_EQ(rig.modify(QpState::kReset), ModifyResult::kOk);
  ASSERT_EQ(bring_up(rig.engine(), rig.qp(), attributes, QpState::kRts, rig.now()), ModifyResult::kOk);
  rig.post(rig.send_wr(256 * 10));
  EXPECT_THAT(rig.sent(), SizeIs(4));
}

TEST(Reaction, ARetransmissionKeepsToTheRateAsWell) {
  Rig rig(dcqcn());
  arrive_cnp(rig);
  rig.post(rig.send_wr(512));
  rig.advance(microseconds(6));
  EXPECT_THAT(rig.sent(), SizeIs(2));
  rig.arrive(nak(0x200, NakCode::kPsnSequenceError));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.advance(microseconds(6));
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_FIRST 000200 bytes 256"));
}

// The window.

TEST(WindowCap, HoldsBackUntilAnAck) {
  RigOptions options = dcqcn();
  options.engine.congestion.has_win = true;
  options.engine.congestion.base_rtt = microseconds(8);  // 1000 bytes at 1 Gbit/s: four packets of 256
  Rig rig(options);
  rig.post(rig.send_wr(256 * 10));
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_FIRST 000200 bytes 256", "SEND_MIDDLE 000201 bytes 256 ack",
                                      "SEND_MIDDLE 000202 bytes 256", "SEND_MIDDLE 000203 bytes 256 ack"));
  rig.arrive(ack(0x201, 0));
  EXPECT_THAT(rig.sent(), SizeIs(2));
  EXPECT_FALSE(rig.engine().wants_transmit());
}

/// When the cap shrinks below packets in flight that asked for no ACK, the QP must not wait for ever.
TEST(WindowCap, ShrinkingAsksForAnAck) {
  RigOptions options = dcqcn();
  options.engine.congestion.has_win = true;
  options.engine.congestion.base_rtt = microseconds(800);  // 390 packets: more than window_packets
  options.attributes.timeout = 14;
  Rig rig(options);
  arrive_cnp(rig);
  rig.post(rig.send_wr(256 * 100));
  for (int i = 0; i < 20; i++) rig.advance(microseconds(5));
  std::vector<std::string> sent = rig.sent();
  EXPECT_THAT(sent, testing::AllOf(SizeIs(testing::Gt(10u)), testing::Each(testing::Not(testing::EndsWith(" ack")))));
  for (int i = 0; i < 8; i++) {
    arrive_cnp(rig);
    rig.advance(microseconds(50));
  }
  EXPECT_LT(rig.qp().congestion()->window_bytes(), 10 * 256u);
  for (int i = 0; i < 20; i++) rig.advance(microseconds(5));
  sent = rig.sent();
  ASSERT_FALSE(sent.empty());
  EXPECT_THAT(sent.back(), testing::EndsWith(" ack"));
}

TEST(Delay, TimelyAndSwiftSlowDownWhenRoundTripsGrow) {
  for (const auto algorithm : {CongestionAlgorithm::kTimely, CongestionAlgorithm::kSwift}) {
    Rig rig(options_with(algorithm));
    for (uint32_t i = 0; i < 10; i++) {
      rig.post(rig.send_wr(16));
      rig.advance(microseconds(100 + 50 * i));
      rig.arrive(ack(0x200 + i, i + 1));
    }
    EXPECT_TRUE(rig.qp().congestion()->limited()) << congestion_algorithm_name(algorithm);
    EXPECT_EQ(rig.counted(), "");
  }
}

TEST(Pacing, ARateThatRecoveredInSilenceIsNoRate) {
  RigOptions options = dcqcn();
  options.engine.congestion.burst_bytes = 512;
  Rig rig(options);
  arrive_cnp(rig);
  rig.post(rig.send_wr(16));
  EXPECT_THAT(rig.sent(), SizeIs(1));
  rig.arrive(ack(Rig::kOurPsn, 1));
  rig.advance(milliseconds(10));
  rig.post(rig.send_wr(256 * 10));
  EXPECT_THAT(rig.sent(), SizeIs(10)) << "a burst at the old rate is two";
}

}  // namespace
}  // namespace uroce::test
