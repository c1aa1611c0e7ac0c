// What pause frames do to the QPs of an engine, and when the engine sends some itself.
#include <gmock/gmock.h>

#include <array>

#include "engine/priority_flow_control.h"
#include "packet/packet.h"
#include "rig.h"
#include "sim/testbed.h"
#include "transport/address_handle.h"
#include "transport/counters.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint8_t kDscp24 = 24 << 2;  // priority 3

// At 512 Gbit/s a quantum is a nanosecond.
RigOptions lossless(uint8_t traffic_class = kDscp24) {
  RigOptions options;
  options.engine.pfc.lossless = 0b1000;
  options.engine.pfc.bits_per_second = 512'000'000'000;
  options.engine.traffic_class = traffic_class;
  options.attributes.timeout = 0;
  return options;
}

Bytes pause(uint8_t priorities, uint16_t quanta) {
  Pause pause;
  pause.priorities = priorities;
  pause.quanta.fill(quanta);
  Bytes frame(kPauseFrameBytes);
  encode_pause(frame, pause);
  return frame;
}

TEST(Pauses, AQpWaitsUntilItsPriorityMayGoOn) {
  Rig rig(lossless());
  rig.arrive(pause(0b1000, 1000));
  rig.post(rig.send_wr(16));
  rig.advance(nanoseconds(999));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_FALSE(rig.engine().wants_transmit()) << "nothing to poll for";
  EXPECT_EQ(rig.engine().next_timeout(), rig.now() + nanoseconds(1));
  rig.advance(nanoseconds(1));
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000200 bytes 16 ack"));
}

TEST(Pauses, ZeroQuantaLetItGoAtOnce) {
  Rig rig(lossless());
  rig.arrive(pause(0b1000, 65535));
  rig.post(rig.send_wr(16));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.arrive(pause(0b1000, 0));
  EXPECT_THAT(rig.sent(), SizeIs(1));
}

TEST(Pauses, AnswersWaitToo) {
  Rig rig(lossless());
  rig.receive(1);
  rig.arrive(pause(0b1000, 1000));
  rig.arrive(send(kOpSendOnly, 0x100, 16));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_THAT(rig.completed(), SizeIs(1));
  rig.advance(nanoseconds(1000));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 1"));
}

TEST(Pauses, OtherPrioritiesGoOn) {
  Rig rig(lossless(0));
  rig.arrive(pause(0b1001, 1000));
  rig.post(rig.send_wr(16));
  EXPECT_THAT(rig.sent(), SizeIs(1)) << "priority 0 is not lossless: its pauses do not count";
}

/// A datagram has the priority of its address handle, whatever other datagrams of the QP have.
TEST(Pauses, DatagramsHaveThePriorityOfTheirHandle) {
  RigOptions options = lossless(0);
  options.type = QpType::kUd;
  Rig rig(options);
  AddressVector av;
  av.dgid = rig.path_from_peer().src_ip;
  av.sgid_index = 1;
  auto common = rig.engine().create_ah(rig.pd(), av, rig.now());
  av.traffic_class = kDscp24;
  auto lossless_one = rig.engine().create_ah(rig.pd(), av, rig.now());
  rig.resolve_peer();
  rig.sent();
  const auto to = [&](const AddressHandle& ah) {
    SendWr wr = rig.send_wr(16);
    wr.ah = &ah;
    wr.remote_qpn = Rig::kPeerQpn;
    wr.remote_qkey = Rig::kQkey;
    return wr;
  };
  EXPECT_EQ(rig.qp().priority(), 0) << "nothing to send";
  rig.arrive(pause(0b1000, 1000));
  rig.post(to(*common));
  EXPECT_THAT(rig.sent(), SizeIs(1));
  rig.post(to(*lossless_one));
  EXPECT_EQ(rig.qp().priority(), 3);
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.advance(nanoseconds(1000));
  EXPECT_THAT(rig.sent(), SizeIs(1));
  EXPECT_EQ(rig.qp().priority(), 0) << "nothing to send again";
  rig.engine().destroy_ah(common.get());
  rig.engine().destroy_ah(lossless_one.get());
}

TEST(Pauses, AQpThatWaitsCanBeDestroyed) {
  Rig rig(lossless());
  rig.arrive(pause(0b1000, 1000));
  rig.post(rig.send_wr(16));
  rig.turn();
  Qp* another = rig.engine().create_qp(rig.qp_init(), nullptr);
  ASSERT_NE(another, nullptr);
  rig.engine().destroy_qp(&rig.qp(), rig.now());
  rig.advance(milliseconds(1));
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST(Pauses, TheLastOfManyMayBeTheOneThatWaits) {
  EngineConfig config = sim::simple_config(1);
  config.pfc.lossless = 0b1000;
  sim::Testbed bed(1, {}, config);
  sim::Side four, four_peer;
  sim::QpOptions options;
  bed.connect(four, four_peer, options);
  sim::Side sixteen = four, sixteen_peer = four_peer, waits = four, waits_peer = four_peer;
  bed.add_qps(sixteen, sixteen_peer, options);
  options.attributes.av.traffic_class = kDscp24;
  bed.add_qps(waits, waits_peer, options);
  ASSERT_EQ(waits.qp->priority(), 3);
  ASSERT_TRUE(bed.world.run_until_idle());
  bed.a.port().deliver(sim::Frame(pause(0b1000, 65535)));
  SendWr wr;
  wr.opcode = WrOpcode::kRdmaWrite;
  wr.flags = kSendSignaled;
  // A burst of four, and then one that the second QP fills alone: only the paused QP is left in the schedule.
  for (int i = 0; i < 4; i++) four.send(wr);
  for (int i = 0; i < 16; i++) sixteen.send(wr);
  waits.send(wr);
  ASSERT_TRUE(bed.world.run_until_idle());
  EXPECT_THAT(sim::Side::drain(*four.send_cq), SizeIs(21)) << "one completion queue for all of them";
}

TEST(Pauses, TheTrafficClassIsTheProgramsIfItHasOne) {
  RigOptions options = lossless(0x80);
  options.attributes.av.traffic_class = 0x60;
  Rig rig(options);
  rig.post(rig.send_wr(16));
  const auto frames = rig.sent_frames();
  ASSERT_THAT(frames, SizeIs(1));
  PacketView view;
  ASSERT_EQ(parse_frame(frames[0], view), ParseResult::kOk);
  EXPECT_EQ(view.traffic_class, 0x60);
  EXPECT_EQ(rig.qp().priority(), 3);
}

TEST(Pauses, AProgramThatIsBehindPausesItsNeighbour) {
  RigOptions options = lossless();
  options.engine.pfc.xoff_frames = 128;
  options.engine.pfc.xon_frames = 64;
  Rig rig(options);
  rig.arrive(std::vector<Packet>(2 * 64, send(kOpSendOnly, 0x900, 0)));
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000100 sequence error msn 0")) << "two turns were full, and that was all";
  EXPECT_EQ(rig.engine().counters().tx_pause_frames, 0u);
  rig.arrive(std::vector<Packet>(2 * 64 + 10, send(kOpSendOnly, 0x900, 0)));
  EXPECT_EQ(rig.engine().counters().tx_pause_frames, 1u) << "known in the third turn, which empties the port";
  EXPECT_TRUE(rig.engine().flow_control().pausing());
  EXPECT_LE(rig.engine().next_timeout(), rig.now() + nanoseconds(32767));
  rig.turn();
  EXPECT_EQ(rig.engine().counters().tx_pause_frames, 2u);
  EXPECT_FALSE(rig.engine().flow_control().pausing());
}

}  // namespace
}  // namespace uroce::test
