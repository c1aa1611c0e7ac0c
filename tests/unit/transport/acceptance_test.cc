// What is dropped before a QP sees it, and under which name.
#include <gmock/gmock.h>

#include "engine/address_table.h"
#include "rig.h"
#include "transport/responder.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The frame increments this one counter and nothing else, and the QP is not affected.
void expect_dropped(Rig& rig, const Bytes& frame, const std::string& counter) {
  const Psn epsn = rig.qp().responder()->epsn();
  rig.counted();
  rig.arrive(frame);
  EXPECT_EQ(rig.counted(), counter + " 1");
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.qp().responder()->epsn(), epsn);
  EXPECT_THAT(rig.completed(), IsEmpty());
}

Bth good_bth(Rig& rig) {
  Bth bth = send(kOpSendOnly, 0x100, 0).bth;
  bth.dest_qp = rig.qp().qpn();
  return bth;
}

TEST(Acceptance, BaseTransportHeader) {
  Rig rig;
  rig.receive(1);
  Bth bth = good_bth(rig);
  bth.tver = 1;
  expect_dropped(rig, frame_of(rig.path_from_peer(), bth, {}, {}), "rx_drop_bad_tver");
  bth = good_bth(rig);
  bth.dest_qp = 0;
  expect_dropped(rig, frame_of(rig.path_from_peer(), bth, {}, {}), "rx_drop_no_qp");
  bth.dest_qp = 1;  // for management datagrams only
  expect_dropped(rig, frame_of(rig.path_from_peer(), bth, {}, {}), "rx_drop_qp_service");
  bth.dest_qp = 0xFFFFFF;  // multicast
  expect_dropped(rig, frame_of(rig.path_from_peer(), bth, {}, {}), "rx_drop_no_qp");
  bth.dest_qp = rig.qp().qpn() ^ 0x400;
  expect_dropped(rig, frame_of(rig.path_from_peer(), bth, {}, {}), "rx_drop_no_qp");
  rig.arrive(send(kOpSendOnly, 0x100, 0));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 1"));
}

TEST(Acceptance, ServicesThatAreNotTheQps) {
  Rig rig;
  const Service others[] = {Service::kUc, Service::kUd, Service::kXrc};
  for (const Service service : others) {
    Packet p = send(kOpSendOnly, 0x100, 0, service);
    p.extension.resize(opcode_info(p.bth.opcode).header_bytes);
    expect_dropped(rig, rig.frame(p), "rx_drop_qp_service");
  }
}

TEST(Acceptance, EveryReservedOpcode) {
  Rig rig;
  for (unsigned opcode = 0; opcode < 256; opcode++) {
    if (opcode_info(static_cast<uint8_t>(opcode)).operation != Operation::kReserved) continue;
    Bth bth = good_bth(rig);
    bth.opcode = static_cast<uint8_t>(opcode);
    expect_dropped(rig, frame_of(rig.path_from_peer(), bth, {}, Bytes(64)), "rx_drop_unknown_opcode");
  }
}

TEST(Acceptance, PartitionKeys) {
  Rig rig;
  for (uint64_t i = 1; i <= 2; i++) rig.receive(i);
  Packet p = send(kOpSendOnly, 0x100, 0);
  p.bth.pkey = 0xFFFF;  // full member
  rig.arrive(p);
  p = send(kOpSendOnly, 0x101, 0);
  p.bth.pkey = 0x7FFF;  // limited member: matches our full membership
  rig.arrive(p);
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 1", "ACK 000101 msn 2"));
  rig.completed();
  for (const uint16_t pkey : std::initializer_list<uint16_t>{0x0000, 0x8000, 0xFFFE, 0x7FFE, 0x1234}) {
    p = send(kOpSendOnly, 0x102, 0);
    p.bth.pkey = pkey;
    expect_dropped(rig, rig.frame(p), "rx_drop_bad_pkey");
  }
}

TEST(Acceptance, ThePeerMustBeThePeer) {
  Rig rig;
  const Route good = rig.path_from_peer();
  Route path = good;
  path.src_ip = IpAddress::v4(0x0a000003);
  expect_dropped(rig, frame_of(path, good_bth(rig), {}, {}), "rx_drop_wrong_peer");
  path = good;
  path.dst_ip = rig.engine().addresses().gids()[0].ip;  // ours, but not the one that the QP uses
  path.src_ip = link_local_of(path.src_mac);
  expect_dropped(rig, frame_of(path, good_bth(rig), {}, {}), "rx_drop_wrong_peer");
  path = good;
  path.dst_ip = IpAddress::v4(0x0a000009);
  expect_dropped(rig, frame_of(path, good_bth(rig), {}, {}), "rx_drop_not_for_us");
  path = good;
  path.vlan_id = 7;
  expect_dropped(rig, frame_of(path, good_bth(rig), {}, {}), "rx_drop_not_for_us");
}

TEST(Acceptance, MovablePartsOfThePathMayDiffer) {
  Rig rig;
  rig.receive(1);
  Route path = rig.path_from_peer();
  path.src_mac = {{2, 2, 2, 2, 2, 2}};  // a router's
  path.hop_limit = 3;
  path.traffic_class = 0x68;
  path.udp_src_port = 0xD00D;
  rig.set_path_from_peer(path);
  Packet p = send(kOpSendOnly, 0x100, 4);
  p.bth.mig_req = true;  // some cards set it, some do not
  rig.arrive(p);
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 1"));
}

TEST(Acceptance, InvariantCrc) {
  Rig rig;
  rig.receive(1);
  const Bytes good = rig.frame(send(kOpSendOnly, 0x100, 16));
  // Every bit of the transport headers, payload and iCRC that does not change how the frame is parsed.
  for (size_t byte = 14 + 20 + 8 + 9; byte < good.size(); byte++) {
    for (unsigned bit = 0; bit < 8; bit++) {
      Bytes bad = good;
      bad[byte] = static_cast<uint8_t>(bad[byte] ^ (1u << bit));
      expect_dropped(rig, bad, "rx_icrc_encapsulated");
    }
  }
}

TEST(Acceptance, StatesThatTakeRequestsAndResponses) {
  struct Case {
    QpState state;
    bool request, response;
  };
  for (const Case& c : {Case{QpState::kReset, false, false},
                        {QpState::kInit, false, false},
                        {QpState::kRtr, true, false},
                        {QpState::kRts, true, true}}) {
    RigOptions options;
    options.state = c.state;
    Rig rig(options);
    // In RESET there is no path yet, so the state must be checked first.
    rig.arrive(send(kOpSendOnly, 0x105, 0));
    rig.arrive(ack(0x1ff, 0));
    const std::string counted = rig.counted();
    const int drops = (c.request ? 0 : 1) + (c.response ? 0 : 1);
    const std::string expected = drops == 0 ? "" : "rx_drop_qp_state " + std::to_string(drops);
    EXPECT_EQ(counted.find("rx_drop_qp_state") == std::string::npos, drops == 0) << counted;
    if (drops != 0) {
      EXPECT_NE(counted.find(expected), std::string::npos) << counted;
    }
  }
}

TEST(Acceptance, CongestionNotification) {
  Rig rig;
  Bth bth = good_bth(rig);
  bth.opcode = kOpcodeCnp;
  rig.arrive(frame_of(rig.path_from_peer(), bth, Bytes(16), {}));
  EXPECT_EQ(rig.counted(), "rp_cnp_ignored 1");  // no congestion control is set
  EXPECT_THAT(rig.sent(), IsEmpty());            // never answered
}

TEST(Acceptance, CongestionExperiencedIsCounted) {
  Rig rig;
  rig.receive(1);
  Route path = rig.path_from_peer();
  path.traffic_class = 3;
  rig.set_path_from_peer(path);
  rig.arrive(send(kOpSendOnly, 0x100, 0));
  EXPECT_EQ(rig.counted(), "rx_sends 1, sent_acks 1, np_ecn_marked_roce_packets 1");
}

TEST(Acceptance, Ipv6) {
  RigOptions options;
  options.ipv6 = true;
  Rig rig(options);
  rig.receive(1);
  rig.arrive(send(kOpSendOnly, 0x100, 5));
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: success, 5 bytes"));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 1"));
}

TEST(Acceptance, ADestroyedQpsNumber) {
  Rig rig;
  const Bytes late = rig.frame(send(kOpSendOnly, 0x100, 0));
  rig.engine().destroy_qp(&rig.qp(), rig.now());
  rig.counted();
  rig.arrive(late);
  EXPECT_EQ(rig.counted(), "rx_drop_no_qp 1");
}

}  // namespace
}  // namespace uroce::test
