// Management datagrams through an engine. The frames that arrive are those of two Linux hosts with rxe: rping's REQ,
// and the REP that answered it.
#include "engine/management.h"
#include "base/random.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "bytes.h"
#include "engine/engine.h"
#include "engine/neighbours.h"
#include "engine/qpn_blocks.h"
#include "listed_blocks.h"
#include "packet/host_frames.h"
#include "packet/icrc.h"
#include "roce_frame.h"
#include "scribbled_port.h"
#include "transport/counters.h"
#include "transport/observer.h"
#include "uroce/memory_port.h"

namespace uroce::test {
namespace {

constexpr Instant kNow{1'000'000};

const char* const kReq =
    "525400770001525400770002080045000134fbd840004011228ac0a84d03c0a84d02d87212b7012000006400ffff0000000180000000"
    "8001000000000001010702030000000000000002a04e30d10010000000000000d1304ea0000000000000000001061c06505400fffe77"
    "0002000000000000000000009f0100000001000000a0248993a7ffff57f0ffffffff00000000000000000000ffffc0a84d0300000000"
    "000000000000ffffc0a84d02a55950000040009800000000000000000000000000000000000000000000000000000000000000000000"
    "000000000000000000000040d891000000000000000000000000c0a84d03000000000000000000000000c0a84d020000000000000000"
    "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000370c2c27";
const char* const kRep =
    "5254007700025254007700010800450001346c9e40004011b1c4c0a84d02c0a84d03d87212b7012000006400ffff0000000180000000"
    "8001000000000001010702030000000000000002a04e30d100130000000000007521b665d1304ea00000000000009f0000000000e36a"
    "4d00010178e0505400fffe77000100000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000064e25af5";
constexpr size_t kMadAt = 14 + 20 + 8 + 12 + 8;
constexpr uint64_t kRpingService = 0x0000000001061c06;  // RDMA_PS_TCP, port 7174

Bytes mad_of(const char* frame) {
  const Bytes bytes = from_hex(frame);
  return {bytes.begin() + kMadAt, bytes.end() - kIcrcBytes};
}
std::span<const uint8_t, kManagementBytes> as_mad(const Bytes& bytes) {
  return std::span<const uint8_t, kManagementBytes>(bytes.data(), kManagementBytes);
}

struct Sink final : ManagementSink {
  void on_mad(const IncomingMad& mad, Instant) override {
    mads.emplace_back(mad.bytes.begin(), mad.bytes.end());
    last = to_string(mad.src_ip) + " " + to_string(mad.dst_ip) + " " + std::to_string(mad.src_qpn);
    if (answer != nullptr) answer->send_mad(answer_av, as_mad(mads.back()), kNow);
  }
  bool takes_request(uint64_t service_id) override { return service_id == listens; }

  std::vector<Bytes> mads;
  std::string last;
  uint64_t listens = kRpingService;
  Engine* answer = nullptr;
  AddressVector answer_av;
};

/// The server of the capture.
class ManagementTest : public testing::Test, protected Observer {
 protected:
  static EngineConfig config(QpnBlocks* blocks) {
    EngineConfig config;
    config.mac = *parse_mac("52:54:00:77:00:01");
    config.addresses = {{*parse_ip("192.168.77.2"), 24, 0}};
    config.max_qps = 256;
    config.qpn_blocks = blocks;
    return config;
  }
  explicit ManagementTest(bool shared = false)
      : engine_(config(shared ? &blocks_ : nullptr), scribbled_, random_, *this) {
    engine_.set_management(&sink_);
    engine_.turn(kNow);
    port_.discard();  // the frames of its start
  }
  void arrive(const Bytes& frame) {
    ASSERT_TRUE(port_.deliver(frame));
    engine_.turn(kNow);
  }
  /// The REQ with some bytes changed, and a valid iCRC.
  static Bytes changed(const std::vector<std::pair<size_t, uint8_t>>& bytes, size_t shorter = 0) {
    Bytes frame = from_hex(kReq);
    Route path;
    path.dst_mac = *parse_mac("52:54:00:77:00:01");
    path.src_mac = *parse_mac("52:54:00:77:00:02");
    path.src_ip = *parse_ip("192.168.77.3");
    path.dst_ip = *parse_ip("192.168.77.2");
    Bytes body(frame.begin() + 42, frame.end() - kIcrcBytes);
    for (const auto& [at, value] : bytes) body[at] = value;
    body.resize(body.size() - shorter);
    return frame_of(path, body);
  }
  void send(const char* to, const Bytes& mad) {
    AddressVector av;
    av.dgid = *parse_ip(to);
    av.sgid_index = 1;
    engine_.send_mad(av, as_mad(mad), kNow);
  }
  /// RoCE frames that left; others are discarded.
  std::vector<Bytes> sent() {
    std::vector<Bytes> frames;
    while (const auto frame = port_.take()) {
      PacketView packet;
      if (parse_frame(*frame, packet) == ParseResult::kOk) frames.emplace_back(frame->begin(), frame->end());
    }
    return frames;
  }
  const Counters& counters() { return engine_.counters(); }

  ListedBlocks blocks_{{0x752}};
  MemoryPort port_;
  ScribbledPort scribbled_{port_};
  SeededRandom random_{1};
  Sink sink_;
  Engine engine_;
};

TEST_F(ManagementTest, WhatLinuxSendsComesIn) {
  arrive(from_hex(kReq));
  ASSERT_EQ(sink_.mads.size(), 1u);
  EXPECT_EQ(sink_.mads[0], mad_of(kReq));
  EXPECT_EQ(sink_.last, "192.168.77.3 192.168.77.2 1");
  EXPECT_EQ(counters().rx_mads, 1u);
}

TEST_F(ManagementTest, WhatIsWrongIsACountedDrop) {
  Bytes flipped = from_hex(kReq);
  flipped[100] ^= 1;
  arrive(flipped);
  EXPECT_EQ(counters().rx_icrc_encapsulated, 1u);
  arrive(changed({{12, 0x00}}));  // the Q_Key
  EXPECT_EQ(counters().rx_drop_bad_qkey, 1u);
  arrive(changed({}, 4));
  EXPECT_EQ(counters().rx_drop_mad_length, 1u);
  arrive(changed({{2, 0x12}, {3, 0x34}}));  // the P_Key
  EXPECT_EQ(counters().rx_drop_bad_pkey, 1u);
  arrive(changed({{0, 0x04}}));  // an RC SEND
  EXPECT_EQ(counters().rx_drop_qp_service, 1u);
  engine_.set_management(nullptr);
  arrive(changed({}));
  EXPECT_EQ(counters().rx_drop_mad_nobody, 1u);
  EXPECT_TRUE(sink_.mads.empty());
  engine_.set_management(&sink_);
  arrive(changed({}));
  EXPECT_EQ(sink_.mads.size(), 1u) << "the same frame, as it should be";
}

TEST_F(ManagementTest, WhatIsSentIsADatagramFromQueuePairOne) {
  engine_.neighbours().set_static(*parse_ip("192.168.77.3"), 0, *parse_mac("52:54:00:77:00:02"));
  send("192.168.77.3", mad_of(kRep));
  send("192.168.77.3", mad_of(kRep));
  EXPECT_TRUE(engine_.wants_transmit());
  engine_.turn(kNow);
  EXPECT_FALSE(engine_.wants_transmit());
  const auto frames = sent();
  ASSERT_EQ(frames.size(), 2u);
  const Bytes linux = from_hex(kRep);
  ASSERT_EQ(frames[0].size(), linux.size());
  EXPECT_EQ(to_hex({frames[0].data(), 14}), to_hex({linux.data(), 14})) << "Ethernet";
  EXPECT_EQ(to_hex({&frames[0][26], 8}), to_hex({&linux[26], 8})) << "IP addresses";
  EXPECT_EQ(to_hex({&frames[0][36], 4}), "12b70120") << "UDP port and length";
  // Linux asks for an acknowledgement, which no datagram has.
  EXPECT_EQ(to_hex({&frames[0][42], 20}),
            "6400ffff"
            "00000001"
            "00000000"
            "80010000"
            "00000001");
  EXPECT_EQ(to_hex({&frames[1][42], 20}),
            "6400ffff"
            "00000001"
            "00000001"
            "80010000"
            "00000001")
      << "the next PSN";
  EXPECT_EQ(to_hex({&frames[0][kMadAt], 256}), to_hex({&linux[kMadAt], 256}));
  PacketView packet;
  ASSERT_EQ(parse_frame(frames[0], packet), ParseResult::kOk);
  EXPECT_TRUE(icrc_matches(packet));
  EXPECT_EQ(counters().tx_mads, 2u);
}

TEST_F(ManagementTest, ADatagramWaitsForTheMac) {
  send("192.168.77.3", mad_of(kRep));
  engine_.turn(kNow);
  const auto question = port_.take();
  ASSERT_TRUE(question);
  const auto asked = decode_arp(*decode_link(*question));
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->target_ip, *parse_ip("192.168.77.3"));
  EXPECT_TRUE(sent().empty());
  Arp reply;
  reply.operation = Arp::kReply;
  reply.sender_mac = *parse_mac("52:54:00:77:00:02");
  reply.sender_ip = *parse_ip("192.168.77.3");
  reply.target_mac = *parse_mac("52:54:00:77:00:01");
  reply.target_ip = *parse_ip("192.168.77.2");
  Bytes frame(128);
  frame.resize(encode_arp(frame, {reply.target_mac, reply.sender_mac, 0}, reply));
  arrive(frame);
  EXPECT_EQ(sent().size(), 1u);
  const Instant later = kNow + milliseconds(2000);
  AddressVector av;
  av.dgid = *parse_ip("192.168.77.3");
  av.sgid_index = 1;
  engine_.send_mad(av, as_mad(mad_of(kRep)), later);
  engine_.turn(later);
  const auto verifies = decode_arp(*decode_link(*port_.take()));
  ASSERT_TRUE(verifies) << "the host may have another MAC by now";
  EXPECT_EQ(verifies->target_ip, *parse_ip("192.168.77.3"));
  EXPECT_EQ(sent().size(), 1u) << "which is not waited for";
}

TEST_F(ManagementTest, NotForEver) {
  send("192.168.77.3", mad_of(kRep));
  engine_.turn({kNow.ns + Management::kPatience.ns - 1});
  EXPECT_EQ(counters().tx_drop_mad_unresolved, 0u);
  EXPECT_LE(engine_.next_timeout(), kNow + Management::kPatience);
  engine_.turn(kNow + Management::kPatience);
  EXPECT_EQ(counters().tx_drop_mad_unresolved, 1u);
}

TEST_F(ManagementTest, WhoIsManyHostsThatNobodyKnowsKeepsNobodyFromBeingAnswered) {
  engine_.neighbours().set_static(*parse_ip("192.168.77.3"), 0, *parse_mac("52:54:00:77:00:02"));
  for (uint32_t i = 0; i < 100; i++) send(("192.168.77." + std::to_string(100 + i)).c_str(), mad_of(kRep));
  EXPECT_EQ(counters().tx_drop_mad_full, 100 - Management::kUnresolvedMax);
  for (uint32_t i = 0; i < Management::kWaitingMax - Management::kUnresolvedMax; i++)
    send("192.168.77.3", mad_of(kRep));
  EXPECT_EQ(counters().tx_drop_mad_full, 100 - Management::kUnresolvedMax);
  send("192.168.77.3", mad_of(kRep));
  EXPECT_EQ(counters().tx_drop_mad_full, 101 - Management::kUnresolvedMax) << "no room at all";
}

TEST_F(ManagementTest, AndNotMoreThanThereIsRoomFor) {
  for (uint32_t i = 0; i < Management::kUnresolvedMax + 3; i++) send("192.168.77.3", mad_of(kRep));
  EXPECT_EQ(counters().tx_drop_mad_full, 3u);
  engine_.neighbours().set_static(*parse_ip("192.168.77.3"), 0, *parse_mac("52:54:00:77:00:02"));
  for (int i = 0; i < 4; i++) engine_.turn(kNow);
  EXPECT_EQ(sent().size(), Management::kUnresolvedMax);
  send("192.168.77.3", mad_of(kRep));
  engine_.turn(kNow);
  EXPECT_EQ(sent().size(), 1u) << "there is room again";
}

/// The neighbour table has a limited number of entries: none is taken for a host whose datagram finds no room.
TEST_F(ManagementTest, ForWhatHasNoRoomNobodyIsAsked) {
  const auto ask = [&] {
    engine_.turn(kNow);
    return counters().arp_tx;
  };
  for (uint32_t i = 0; i < Management::kUnresolvedMax; i++) send("192.168.77.3", mad_of(kRep));
  const uint64_t asked = ask();
  send("192.168.77.4", mad_of(kRep));
  EXPECT_EQ(counters().tx_drop_mad_full, 1u);
  EXPECT_EQ(ask(), asked);
  engine_.neighbours().set_static(*parse_ip("192.168.77.3"), 0, *parse_mac("52:54:00:77:00:02"));
  for (int i = 0; i < 4; i++) engine_.turn(kNow);
  send("192.168.77.4", mad_of(kRep));
  EXPECT_EQ(ask(), asked + 1) << "now there is room";
}

TEST_F(ManagementTest, OneThatWaitsDoesNotHoldUpTheOthers) {
  send("192.168.77.9", mad_of(kReq));
  engine_.neighbours().set_static(*parse_ip("192.168.77.3"), 0, *parse_mac("52:54:00:77:00:02"));
  send("192.168.77.3", mad_of(kRep));
  engine_.turn(kNow);
  const auto frames = sent();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(Bytes(frames[0].begin() + kMadAt, frames[0].end() - 4), mad_of(kRep));
}

TEST_F(ManagementTest, WhereNoWayLeadsItIsDropped) {
  send("fd00::1", mad_of(kReq));
  engine_.turn(kNow);
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(counters().tx_drop_mad_unresolved, 1u);
}

TEST_F(ManagementTest, ToOurselvesItStaysHere) {
  for (const char* itself : {"127.0.0.1", "192.168.77.2"}) {
    send(itself, mad_of(kReq));
    for (int i = 0; i < 3; i++) engine_.turn(kNow);
    ASSERT_EQ(sink_.mads.size(), 1u) << itself;
    EXPECT_EQ(sink_.last, "192.168.77.2 192.168.77.2 1");
    EXPECT_TRUE(sent().empty());
    sink_.mads.clear();
  }
}

TEST_F(ManagementTest, ItMayBeAnsweredInTheMiddleOfATurn) {
  engine_.neighbours().set_static(*parse_ip("192.168.77.3"), 0, *parse_mac("52:54:00:77:00:02"));
  sink_.answer = &engine_;
  sink_.answer_av.dgid = *parse_ip("192.168.77.3");
  sink_.answer_av.sgid_index = 1;
  arrive(from_hex(kReq));
  EXPECT_EQ(sent().size(), 1u);
}

/// A program that shares its address with others.
class SharedManagement : public ManagementTest {
 protected:
  SharedManagement() : ManagementTest(true) {}
  /// Whether `mad`, sent to our own address, was delivered here, and whether it left.
  std::string goes(const Bytes& mad) {
    sink_.mads.clear();
    send("192.168.77.2", mad);
    for (int i = 0; i < 3; i++) engine_.turn(kNow);
    return std::string(sink_.mads.empty() ? "" : "here ") + (sent().empty() ? "" : "there");
  }
  /// The RTU to a REP whose sender drew this ID: remote_comm_id at byte 28.
  static Bytes rtu(uint32_t remote_id) {
    Bytes mad = mad_of(kRep);
    mad[17] = 0x14;
    store_be32(&mad[28], remote_id);
    return mad;
  }
};

TEST_F(SharedManagement, TheBlockOfItsNumbersIsTakenOnce) {
  EXPECT_EQ(engine_.own_block(), 0x752u);
  EXPECT_EQ(engine_.own_block(), 0x752u);
  EXPECT_EQ(blocks_.taken(), 1u);
}

TEST_F(SharedManagement, WhatNamesAConnectionGoesToWhoDrewTheId) {
  ASSERT_EQ(engine_.own_block(), 0x752u);
  blocks_.others = {0x753};
  EXPECT_EQ(goes(rtu(0x7521b665)), "here ");
  EXPECT_EQ(goes(rtu(0x7531b665)), "there");
  EXPECT_EQ(goes(rtu(0x7541b665)), "here ") << "of a program that is gone: so that its peer need not ask for long";
}

TEST_F(SharedManagement, ARequestGoesToWhoListens) {
  EXPECT_EQ(goes(mad_of(kReq)), "here ");
  sink_.listens = kRpingService + 1;
  EXPECT_EQ(goes(mad_of(kReq)), "there");
}

TEST_F(SharedManagement, WhatNamesNobodyGoesToAll) {
  EXPECT_EQ(goes(rtu(0)), "here there");
  Bytes other_class = mad_of(kReq);
  other_class[1] = 0x04;  // performance management
  EXPECT_EQ(goes(other_class), "here there");
}

}  // namespace
}  // namespace uroce::test
