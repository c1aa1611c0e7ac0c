// Where address vectors lead: GIDs, VLANs, LIDs, ourselves.
#include <gmock/gmock.h>

#include <cstring>

#include "engine/address_table.h"
#include "engine/bring_up.h"
#include "engine/neighbours.h"
#include "engine/queue_pairs.h"
#include "rig.h"
#include "transport/address_handle.h"
#include "transport/counters.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;

QpAttributes attributes_to(const IpAddress& dgid, uint8_t sgid_index) {
  QpAttributes attributes;
  attributes.path_mtu_bytes = 256;
  attributes.dest_qpn = Rig::kPeerQpn;
  attributes.rq_psn = Psn(0x100);
  attributes.sq_psn = Psn(0x200);
  attributes.access = kRemoteRead | kRemoteWrite;
  attributes.av.dgid = dgid;
  attributes.av.sgid_index = sgid_index;
  return attributes;
}

RigOptions unconnected() {
  RigOptions options;
  options.state = QpState::kReset;
  options.engine.addresses.push_back({IpAddress::v4(0x0A006401), 24, 100});  // 10.0.100.1@100
  return options;
}

ModifyResult connect(Rig& rig, const QpAttributes& attributes) {
  return bring_up(rig.engine(), rig.qp(), attributes, QpState::kRts, rig.now());
}

TEST(Routes, GidTable) {
  Rig rig(unconnected());
  const auto gids = rig.engine().addresses().gids();
  ASSERT_EQ(gids.size(), 4u);
  EXPECT_EQ(to_string(gids[0].ip), "fe80::ff:fe00:1");
  EXPECT_EQ(to_string(gids[1].ip), "10.0.0.1");
  EXPECT_EQ(to_string(gids[2].ip), "fd00::1");
  EXPECT_EQ(to_string(gids[3].ip), "10.0.100.1");
  EXPECT_EQ(gids[3].vlan_id, 100);
}

TEST(Routes, SourceGidMustExist) {
  Rig rig(unconnected());
  EXPECT_EQ(connect(rig, attributes_to(IpAddress::v4(0x0A000002), 4)), ModifyResult::kNoRoute);
  EXPECT_EQ(rig.qp().state(), QpState::kInit);
}

TEST(Routes, AddressFamiliesMustAgree) {
  Rig rig(unconnected());
  EXPECT_EQ(connect(rig, attributes_to(IpAddress::v4(0x0A000002), 2)), ModifyResult::kNoRoute);
  EXPECT_EQ(connect(rig, attributes_to(IpAddress{}, 1)), ModifyResult::kNoRoute);
}

TEST(Routes, VlanGid) {
  Rig rig(unconnected());
  ASSERT_EQ(connect(rig, attributes_to(IpAddress::v4(0x0A006402), 3)), ModifyResult::kOk);
  Route from = rig.path_from_peer();
  from.src_ip = IpAddress::v4(0x0A006402);
  from.dst_ip = IpAddress::v4(0x0A006401);
  from.vlan_id = 100;
  rig.set_path_from_peer(from);
  rig.resolve_peer();
  ASSERT_TRUE(rig.qp().path_resolved());
  rig.receive(1);
  rig.arrive(send(kOpSendOnly, 0x100, 4));
  const auto frames = rig.sent_frames();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(describe(frames[0]), "ACK 000100 msn 1");
  EXPECT_EQ(load_be16(frames[0].data() + 12), 0x8100);
  EXPECT_EQ(load_be16(frames[0].data() + 14) & 0xFFF, 100);
  // The same packet without its tag is not for this QP.
  from.vlan_id = 0;
  rig.set_path_from_peer(from);
  rig.counted();
  rig.arrive(send(kOpSendOnly, 0x101, 4));
  EXPECT_EQ(rig.counted(), "rx_drop_not_for_us 1");
}

/// The service level is the tag's priority.
TEST(Routes, ServiceLevelIsThePriorityOfTheTag) {
  for (const uint8_t sl : {uint8_t{0}, uint8_t{5}, uint8_t{7}, uint8_t{11}}) {
    Rig rig(unconnected());
    QpAttributes attributes = attributes_to(IpAddress::v4(0x0A006402), 3);
    attributes.av.sl = sl;
    ASSERT_EQ(connect(rig, attributes), ModifyResult::kOk);
    Route from = rig.path_from_peer();
    from.src_ip = IpAddress::v4(0x0A006402);
    from.dst_ip = IpAddress::v4(0x0A006401);
    from.vlan_id = 100;
    rig.set_path_from_peer(from);
    rig.resolve_peer();
    rig.post(rig.send_wr(4));
    const auto frames = rig.sent_frames();
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(load_be16(frames[0].data() + 14), (sl & 7) << 13 | 100);
    EXPECT_EQ(rig.qp().priority(), sl & 7);
  }
  Rig rig(unconnected());
  ASSERT_EQ(connect(rig, attributes_to(IpAddress::v4(0x0A006402), 3)), ModifyResult::kOk);
  EXPECT_EQ(rig.qp().priority(), 0) << "who says nothing";
}

TEST(Routes, WithoutATagThereIsNoPlaceForTheServiceLevel) {
  Rig rig(unconnected());
  QpAttributes attributes = attributes_to(rig.path_from_peer().src_ip, 1);
  attributes.av.sl = 5;
  ASSERT_EQ(connect(rig, attributes), ModifyResult::kOk);
  EXPECT_EQ(rig.qp().priority(), 0);
}

/// Whichever other handles were destroyed, in any order.
TEST(Routes, HandlesHearOfTheirNeighbour) {
  for (const auto& order : std::vector<std::vector<size_t>>{{}, {0}, {0, 3}, {0, 3, 2}, {1, 0}, {3, 2}, {2, 1, 3}}) {
    Rig rig(unconnected());
    AddressVector av;
    av.dgid = rig.path_from_peer().src_ip;
    av.sgid_index = 1;
    std::vector<std::unique_ptr<AddressHandle>> handles;
    for (int i = 0; i < 4; i++) handles.push_back(rig.engine().create_ah(rig.pd(), av, rig.now()));
    for (const size_t gone : order) {
      rig.engine().destroy_ah(handles[gone].get());
      handles[gone].reset();
    }
    rig.resolve_peer();
    for (const auto& handle : handles) {
      if (!handle) continue;
      EXPECT_TRUE(handle->resolved);
      rig.engine().destroy_ah(handle.get());
    }
  }
}

std::vector<std::string> table_of(const Engine& engine) {
  std::vector<std::string> rows;
  for (const LocalAddress& row : engine.addresses().gids()) rows.push_back(row.ip.is_zero() ? "-" : to_string(row.ip));
  return rows;
}

TEST(Routes, AddressesComeAndGoAndKeepTheirRows) {
  Rig rig(unconnected());
  Engine& engine = rig.engine();
  const LocalAddress v4{IpAddress::v4(0x0A000001), 24, 0};
  const LocalAddress later{IpAddress::v4(0x0A000909), 24, 0};
  const std::vector<LocalAddress> now(engine.addresses().gids().begin() + 1, engine.addresses().gids().end());
  EXPECT_FALSE(engine.set_addresses(now)) << "nothing new";
  EXPECT_TRUE(engine.set_addresses(std::vector{v4}));
  EXPECT_THAT(table_of(engine), ElementsAre("fe80::ff:fe00:1", "10.0.0.1", "-", "-"));
  EXPECT_TRUE(engine.set_addresses(std::vector{later, v4}));
  EXPECT_THAT(table_of(engine), ElementsAre("fe80::ff:fe00:1", "10.0.0.1", "10.0.9.9", "-"));
  EXPECT_FALSE(engine.set_addresses(std::vector{v4, later}));
  // An unused index leads nowhere, as a source and as a destination.
  EXPECT_EQ(connect(rig, attributes_to(IpAddress::v4(0x0A000002), 3)), ModifyResult::kNoRoute);
  EXPECT_EQ(connect(rig, attributes_to(IpAddress{}, 1)), ModifyResult::kNoRoute);
  EXPECT_EQ(engine.neighbours().lookup(later.ip, 0), engine.addresses().mac()) << "ours";
  EXPECT_EQ(engine.neighbours().lookup(IpAddress{}, 0), std::nullopt);
  EXPECT_TRUE(engine.set_addresses({}));
  EXPECT_THAT(table_of(engine), ElementsAre("fe80::ff:fe00:1", "-", "-", "-"));
  EXPECT_EQ(engine.neighbours().lookup(later.ip, 0), std::nullopt);
  EXPECT_EQ(engine.addresses().lid(), 0);
  // No more than there is room for.
  std::vector<LocalAddress> many;
  for (uint32_t i = 0; i < 300; i++) many.push_back({IpAddress::v4(0x0A010000 + i), 23, 0});
  EXPECT_TRUE(engine.set_addresses(many));
  EXPECT_EQ(engine.addresses().gids().size(), AddressTable::kGidsMax);
  EXPECT_EQ(to_string(engine.addresses().gids()[AddressTable::kGidsMax - 1].ip), "10.1.0.254");
  EXPECT_FALSE(engine.set_addresses(many)) << "the rest has still no room";
}

TEST(Routes, AnAddressThatIsGoneReceivesNothing) {
  Rig rig;
  rig.receive(1);
  rig.arrive(send(kOpSendOnly, 0x100, 4));
  EXPECT_EQ(rig.completed().size(), 1u);
  rig.counted();
  ASSERT_TRUE(rig.engine().set_addresses({}));
  rig.receive(2);
  rig.arrive(send(kOpSendOnly, 0x101, 4));
  EXPECT_EQ(rig.counted(), "rx_drop_not_for_us 1");
  EXPECT_TRUE(rig.completed().empty());
}

TEST(Routes, LidIsTheLowHalfOfAnIpv4Address) {
  Rig rig(unconnected());
  EXPECT_EQ(rig.engine().addresses().lid(), 0x0001);
  QpAttributes attributes = attributes_to(IpAddress{}, 0);
  attributes.av.is_global = false;
  attributes.av.dlid = 0x0002;
  ASSERT_EQ(connect(rig, attributes), ModifyResult::kOk);
  EXPECT_EQ(to_string(rig.qp().path().dst_ip), "10.0.0.2");
  EXPECT_EQ(to_string(rig.qp().path().src_ip), "10.0.0.1");
  rig.resolve_peer();
  rig.receive(1);
  rig.arrive(send(kOpSendOnly, 0x100, 4));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 1"));
}

TEST(Routes, LidZeroLeadsNowhere) {
  Rig rig(unconnected());
  QpAttributes attributes = attributes_to(IpAddress{}, 0);
  attributes.av.is_global = false;
  EXPECT_EQ(connect(rig, attributes), ModifyResult::kNoRoute);
}

TEST(Routes, PathFieldsReachTheWire) {
  Rig rig(unconnected());
  QpAttributes attributes = attributes_to(rig.path_from_peer().src_ip, 1);
  attributes.av.traffic_class = 0x68;
  attributes.av.hop_limit = 5;
  ASSERT_EQ(connect(rig, attributes), ModifyResult::kOk);
  rig.resolve_peer();
  rig.post(rig.send_wr(4));
  const auto frames = rig.sent_frames();
  ASSERT_EQ(frames.size(), 1u);
  PacketView view;
  ASSERT_EQ(parse_frame(frames[0], view), ParseResult::kOk);
  EXPECT_EQ(view.traffic_class, 0x68);
  EXPECT_EQ(view.hop_limit, 5);
  EXPECT_GE(view.udp_src_port, 0xC000);
  EXPECT_EQ(std::memcmp(frames[0].data(), "\x02\0\0\0\0\x02", 6), 0);
}

TEST(Routes, MtusThatAreNone) {
  for (const uint32_t mtu : {0u, 255u, 300u, 1500u, 8192u}) {
    Rig rig(unconnected());
    QpAttributes attributes = attributes_to(rig.path_from_peer().src_ip, 1);
    attributes.path_mtu_bytes = mtu;
    EXPECT_EQ(connect(rig, attributes), ModifyResult::kBadValue) << mtu;
  }
}

TEST(Routes, MtuFitsThePortsFrames) {
  struct Case {
    uint32_t frame_bytes, mtu;
  };
  for (const Case& c : {Case{1518, 1024}, {2048, 1024}, {2200, 2048}, {9000, 4096}, {600, 256}}) {
    RigOptions options = unconnected();
    options.engine.max_frame_bytes = c.frame_bytes;
    Rig rig(options);
    EXPECT_EQ(rig.engine().qps().active_mtu_bytes(), c.mtu) << c.frame_bytes;
    QpAttributes attributes = attributes_to(rig.path_from_peer().src_ip, 1);
    attributes.path_mtu_bytes = 2 * c.mtu;
    EXPECT_EQ(connect(rig, attributes), ModifyResult::kBadValue);
  }
}

// To ourselves.

class Loopback : public testing::Test {
 protected:
  void SetUp() override {
    other_ = rig_.engine().create_qp(rig_.qp_init(), nullptr);
    QpAttributes attributes = attributes_to(rig_.engine().addresses().gids()[1].ip, 1);
    attributes.timeout = 8;
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 4;
    attributes.rq_psn = attributes.sq_psn = Psn(0x100);
    attributes.dest_qpn = other_->qpn();
    ASSERT_EQ(bring_up(rig_.engine(), rig_.qp(), attributes, QpState::kRts, rig_.now()), ModifyResult::kOk);
    attributes.dest_qpn = rig_.qp().qpn();
    ASSERT_EQ(bring_up(rig_.engine(), *other_, attributes, QpState::kRts, rig_.now()), ModifyResult::kOk);
    rig_.sent();
  }

  Rig rig_{unconnected()};
  Qp* other_ = nullptr;
};

TEST_F(Loopback, NothingReachesThePort) {
  SendWr wr = rig_.write_wr(1000, 1);
  wr.remote_addr = rig_.remote_va();
  wr.rkey = rig_.rkey();
  rig_.post(wr);
  for (int i = 0; i < 10; i++) rig_.turn();
  EXPECT_EQ(rig_.completed(), (std::vector<std::string>{"write 1: success"}));
  EXPECT_EQ(std::memcmp(rig_.local(), rig_.remote(), 1000), 0);
  EXPECT_TRUE(rig_.sent().empty());
}

/// A driver that sleeps when the engine has nothing to do must not sleep while frames wait in the loopback.
TEST_F(Loopback, FramesThatWaitInsideAreWork) {
  SendWr wr = rig_.read_wr(1000, 1);
  wr.remote_addr = rig_.remote_va();
  wr.rkey = rig_.rkey();
  ASSERT_EQ(rig_.engine().post_send(rig_.qp(), wr, rig_.now()), PostResult::kOk);
  for (int turns = 0; turns < 20 && rig_.engine().wants_transmit(); turns++) rig_.engine().turn(rig_.now());
  EXPECT_EQ(rig_.completed(), (std::vector<std::string>{"read 1: success, 1000 bytes"}));
}

TEST_F(Loopback, MoreThanItHolds) {
  SendWr wr = rig_.read_wr(Rig::kMemoryBytes, 1);
  wr.remote_addr = rig_.remote_va();
  wr.rkey = rig_.rkey();
  rig_.post(wr);
  SendWr write = rig_.write_wr(Rig::kMemoryBytes, 2);
  write.remote_addr = rig_.remote_va();
  write.rkey = rig_.rkey();
  write.flags |= kSendFence;
  rig_.post(write);
  for (int i = 0; i < 100; i++) rig_.turn();
  EXPECT_EQ(rig_.completed(), (std::vector<std::string>{"read 1: success, 65536 bytes", "write 2: success"}));
  EXPECT_EQ(rig_.engine().counters().loopback_full, 0u);
  EXPECT_EQ(rig_.engine().counters().retransmits, 0u);
}

// Sharing the port.

TEST(Scheduling, AFullPortLosesNothing) {
  Rig rig;
  rig.port().set_tx_room(0);
  for (uint64_t i = 1; i <= 3; i++) rig.post(rig.send_wr(4, i));
  EXPECT_TRUE(rig.sent().empty());
  EXPECT_TRUE(rig.engine().wants_transmit());
  rig.port().set_tx_room(1);
  rig.engine().turn(rig.now());
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000200 bytes 4 ack"));
  rig.port().set_tx_room(64);
  rig.turn();
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000201 bytes 4 ack", "SEND_ONLY 000202 bytes 4 ack"));
  EXPECT_EQ(rig.engine().counters().retransmits, 0u);
}

TEST(Scheduling, QpsTakeTurns) {
  Rig rig;
  Qp* other = rig.engine().create_qp(rig.qp_init(), nullptr);
  QpAttributes attributes = attributes_to(rig.path_from_peer().src_ip, 1);
  attributes.dest_qpn = 0x888;
  ASSERT_EQ(bring_up(rig.engine(), *other, attributes, QpState::kRts, rig.now()), ModifyResult::kOk);
  rig.port().set_tx_room(0);
  rig.post(rig.write_wr(256 * 100, 1));
  ASSERT_EQ(rig.engine().post_send(*other, rig.write_wr(256 * 100, 2), rig.now()), PostResult::kOk);
  rig.port().set_tx_room(32);
  rig.engine().turn(rig.now());
  int first = 0;
  int second = 0;
  for (const Bytes& frame : rig.sent_frames()) {
    PacketView view;
    ASSERT_EQ(parse_frame(frame, view), ParseResult::kOk);
    (view.bth.dest_qp == 0x888 ? second : first)++;
  }
  EXPECT_GE(first, 16);
  EXPECT_GE(second, 16);
  EXPECT_LE(std::abs(first - second), 16);
}

/// A peer that reads a lot does not keep the QP from sending its own requests.
TEST(Scheduling, RequestsAndAnswersOfAQpTakeTurns) {
  Rig rig;
  rig.port().set_tx_room(0);
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), 256 * 40));
  rig.post(rig.write_wr(256 * 40, 1));
  rig.port().set_tx_room(10);
  rig.engine().turn(rig.now());
  int answers = 0;
  int requests = 0;
  for (const std::string& line : rig.sent()) (line.find("READ_RESPONSE") == 0 ? answers : requests)++;
  EXPECT_GE(answers, 5);
  EXPECT_GE(requests, 5);
  EXPECT_LE(std::abs(answers - requests), 2);
}

}  // namespace
}  // namespace uroce::test
