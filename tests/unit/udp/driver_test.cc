// Two ethdevs on addresses of the loopback interface, and sockets of other kinds of senders.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <rte_bus_vdev.h>
#include <rte_ethdev.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "../../support/roce_frame.h"
#include "base/unique_fd.h"
#include "packet/host_frames.h"
#include "packet/icrc.h"
#include "packet/packet.h"
#include "pmd/udp/datagram.h"

namespace uroce::udp {
namespace {

using test::Bytes;

constexpr uint16_t kRoom = 4400;
constexpr int kPatienceMs = 20'000;  // even loopback may be slow on a busy machine

/// An address that no other process uses which runs this test: the UDP port belongs to the whole machine.
IpAddress address(uint8_t last) {
  const auto pid = static_cast<uint32_t>(getpid());
  return IpAddress::v4(0x7f000000u | (1 + pid / 250 % 250) << 16 | (1 + pid % 250) << 8 | last);
}

std::string on_loopback(uint8_t last) {
  return "iface=lo,mac=02:00:00:00:00:0" + std::to_string(last) + ",addr=" + to_string(address(last));
}

class TestPort {
 public:
  TestPort(const std::string& name, const std::string& arguments) : name_(name) {
    code = rte_vdev_init(name.c_str(), arguments.c_str());
    if (code == 0) {
      EXPECT_EQ(rte_eth_dev_get_port_by_name(name.c_str(), &id), 0);
    }
  }
  ~TestPort() {
    if (code == 0) {
      EXPECT_EQ(rte_vdev_uninit(name_.c_str()), 0);
    }
  }
  TestPort(const TestPort&) = delete;
  TestPort& operator=(const TestPort&) = delete;

  int start(rte_mempool* pool, uint16_t mtu = 4200) const {
    rte_eth_conf conf{};
    conf.rxmode.mtu = mtu;
    conf.intr_conf.rxq = 1;
    int rc = rte_eth_dev_configure(id, 1, 1, &conf);
    if (rc == 0) rc = rte_eth_rx_queue_setup(id, 0, 256, 0, nullptr, pool);
    if (rc == 0) rc = rte_eth_tx_queue_setup(id, 0, 256, 0, nullptr);
    return rc == 0 ? rte_eth_dev_start(id) : rc;
  }
  uint64_t xstat(const char* name) const {
    uint64_t number = 0, value = UINT64_MAX;
    EXPECT_EQ(rte_eth_xstats_get_id_by_name(id, name, &number), 0) << name;
    EXPECT_EQ(rte_eth_xstats_get_by_id(id, &number, &value, 1), 1) << name;
    return value;
  }
  rte_eth_stats stats() const {
    rte_eth_stats stats{};
    EXPECT_EQ(rte_eth_stats_get(id, &stats), 0);
    return stats;
  }
  /// Whether the descriptor becomes readable within `patience_ms`.
  bool is_awake(int patience_ms) const {
    pollfd entry{rte_eth_dev_rx_intr_ctl_q_get_fd(id, 0), POLLIN, 0};
    return poll(&entry, 1, patience_ms) == 1;
  }

  uint16_t id = RTE_MAX_ETHPORTS;
  int code = 0;

 private:
  const std::string name_;
};

Bytes arp_question(uint8_t from, const IpAddress& wanted) {
  const MacAddress mac{{2, 0, 0, 0, 0, from}};
  Bytes bytes(64);
  bytes.resize(encode_arp(bytes, {kBroadcastMac, mac, 0}, {Arp::kRequest, mac, address(from), {}, wanted}));
  return bytes;
}

class UdpDriver : public testing::Test {
 protected:
  void SetUp() override {
    pool = rte_pktmbuf_pool_create("udp", 1023, 0, 0, kRoom + RTE_PKTMBUF_HEADROOM, 0);
    ASSERT_NE(pool, nullptr);
    first = std::make_unique<TestPort>("net_udp1", on_loopback(1));
    second = std::make_unique<TestPort>("net_udp2", on_loopback(2));
    ASSERT_EQ(first->code, 0);
    ASSERT_EQ(second->code, 0);
    ASSERT_EQ(first->start(pool), 0);
    ASSERT_EQ(second->start(pool), 0);
  }
  void TearDown() override {
    first.reset();
    second.reset();
    EXPECT_EQ(rte_mempool_in_use_count(pool), 0u) << "mbufs that did not come back";
    rte_mempool_free(pool);
  }

  rte_mbuf* mbuf_of(const Bytes& bytes) const {
    rte_mbuf* const mbuf = rte_pktmbuf_alloc(pool);
    std::memcpy(rte_pktmbuf_append(mbuf, static_cast<uint16_t>(bytes.size())), bytes.data(), bytes.size());
    return mbuf;
  }
  void send(const TestPort& port, const std::vector<Bytes>& frames) const {
    std::vector<rte_mbuf*> mbufs;
    for (const Bytes& frame : frames) mbufs.push_back(mbuf_of(frame));
    ASSERT_EQ(rte_eth_tx_burst(port.id, 0, mbufs.data(), static_cast<uint16_t>(mbufs.size())), mbufs.size());
  }
  /// Waits for `wanted` frames; returns all that are there by then.
  std::vector<Bytes> receive(const TestPort& port, size_t wanted = 1) const {
    std::vector<Bytes> frames;
    for (rte_mbuf* mbufs[64];;) {
      const uint16_t count = rte_eth_rx_burst(port.id, 0, mbufs, 64);
      if (count == 0 && (frames.size() >= wanted || !port.is_awake(kPatienceMs))) return frames;
      for (uint16_t i = 0; i < count; i++) {
        const auto* const data = rte_pktmbuf_mtod(mbufs[i], const uint8_t*);
        frames.emplace_back(data, data + mbufs[i]->pkt_len);
        rte_pktmbuf_free(mbufs[i]);
      }
    }
  }
  static Route path(uint8_t from, uint8_t to, uint16_t port = 0xC123) {
    Route spec;
    spec.src_mac = {{2, 0, 0, 0, 0, from}};
    spec.src_ip = address(from);
    spec.dst_ip = address(to);
    spec.dst_mac = mac_of(spec.dst_ip);
    spec.udp_src_port = port;
    return spec;
  }
  /// A SEND with `payload` bytes, counting up from `seed`.
  static Bytes frame(const Route& spec, size_t payload, uint8_t seed) {
    Bytes body = {0x04, 0, 0xff, 0xff, 0, 0, 0x12, 0x34, 0, 0, 0, seed};
    for (size_t i = 0; i < payload; i++) body.push_back(static_cast<uint8_t>(seed + i));
    return test::frame_of(spec, body);
  }
  static PacketView parsed(const Bytes& frame) {
    PacketView packet;
    EXPECT_EQ(parse_frame(frame, packet), ParseResult::kOk);
    EXPECT_TRUE(icrc_matches(packet));
    return packet;
  }
  /// A socket that is not one of our ports.
  static UniqueFd stranger(uint8_t last) {
    UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(address(last).v4_host_order());
    own.sin_port = htons(0xC123);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own), 0);
    own.sin_addr.s_addr = htonl(address(2).v4_host_order());
    own.sin_port = htons(4791);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own), 0);
    return fd;
  }

  rte_mempool* pool = nullptr;
  std::unique_ptr<TestPort> first;
  std::unique_ptr<TestPort> second;
};

TEST_F(UdpDriver, APacketArrivesAsItWasButForWhatTheKernelFillsIn) {
  Route spec = path(1, 2);
  spec.traffic_class = 0x6A;  // DSCP 26, ECT(0)
  spec.hop_limit = 7;
  send(*first, {frame(spec, 100, 1)});
  const auto got = receive(*second);
  ASSERT_EQ(got.size(), 1u);
  const PacketView packet = parsed(got[0]);
  EXPECT_EQ(packet.src_ip, spec.src_ip);
  EXPECT_EQ(packet.dst_ip, spec.dst_ip);
  EXPECT_EQ(packet.traffic_class, 0x6A);
  EXPECT_EQ(packet.hop_limit, 7);
  EXPECT_EQ(packet.flow_id, 0u) << "the identification of a single packet";
  EXPECT_GE(packet.udp_src_port, 0xC000);
  EXPECT_EQ(packet.payload_bytes, 100u);
  EXPECT_EQ(packet.payload[99], 100);
  EXPECT_EQ((Bytes{got[0].begin(), got[0].begin() + 6}), (Bytes{2, 0, 0, 0, 0, 2}));
  EXPECT_EQ(second->xstat("rx_bad_icrc") + second->xstat("rx_foreign_ids"), 0u);
}

TEST_F(UdpDriver, ABurstIsOneMessageAndComesInOrder) {
  std::vector<Bytes> burst;
  for (uint8_t i = 0; i < 12; i++) burst.push_back(frame(path(1, 2), 4096, i));
  burst.push_back(frame(path(1, 2), 40, 12));
  burst.push_back(frame(path(1, 2), 4096, 13));
  send(*first, burst);
  EXPECT_EQ(first->xstat("tx_messages"), 2u) << "a shorter packet is the last one of its message";
  const auto got = receive(*second, burst.size());
  ASSERT_EQ(got.size(), burst.size());
  for (uint32_t i = 0; i < got.size(); i++) {
    const PacketView packet = parsed(got[i]);
    EXPECT_EQ(packet.bth.psn.value(), i);
    EXPECT_EQ(packet.flow_id, i < 13 ? i : 0) << "the kernel counts within a message";
    EXPECT_EQ(packet.payload_bytes, i == 12 ? 40u : 4096u);
  }
  EXPECT_EQ(second->stats().ipackets, 14u);
  EXPECT_EQ(first->stats().opackets, 14u);
  EXPECT_EQ(first->stats().obytes, second->stats().ibytes);
}

/// Frames to several destinations alternately, as an engine with several queue pairs sends them.
TEST_F(UdpDriver, DestinationsByTurnsAreAMessageEach) {
  TestPort third("net_udp3", on_loopback(3));
  ASSERT_EQ(third.code, 0);
  ASSERT_EQ(third.start(pool), 0);
  std::vector<Bytes> burst;
  for (uint8_t i = 0; i < 8; i++) {
    burst.push_back(frame(path(1, 2), 1000, i));
    burst.push_back(frame(path(1, 3), 1000, i));
  }
  send(*first, burst);
  EXPECT_EQ(first->xstat("tx_messages"), 2u);
  for (const TestPort* port : {second.get(), &third}) {
    const auto got = receive(*port, 8);
    ASSERT_EQ(got.size(), 8u);
    for (uint32_t i = 0; i < got.size(); i++) EXPECT_EQ(parsed(got[i]).bth.psn.value(), i);
  }
}

TEST_F(UdpDriver, FlowsLeaveFromSeveralPorts) {
  std::set<uint16_t> ports;
  for (uint16_t flow = 0; flow < 4; flow++)
    send(*first, {frame(path(1, 2, static_cast<uint16_t>(0xC120 + flow)), 8, 0)});
  for (const Bytes& one : receive(*second, 4)) ports.insert(parsed(one).udp_src_port);
  EXPECT_EQ(ports.size(), 4u);
}

/// A packet with a source port that the driver has given out keeps it.
TEST_F(UdpDriver, AFlowKeepsItsPort) {
  for (uint16_t flow = 0; flow < 4; flow++) {
    send(*first, {frame(path(1, 2, static_cast<uint16_t>(0xC120 + flow)), 8, 0)});
    const auto got = receive(*second);
    ASSERT_EQ(got.size(), 1u);
    const uint16_t given = parsed(got[0]).udp_src_port;
    send(*first, {frame(path(1, 2, given), 8, 1)});
    const auto again = receive(*second);
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(parsed(again[0]).udp_src_port, given);
  }
}

/// However many frames come for the others.
TEST_F(UdpDriver, NoAddressWaitsForEver) {
  send(*second, {arp_question(7, address(7)), arp_question(8, address(8))});
  send(*first, {frame(path(1, 8), 8, 77)});
  bool came = false;
  for (int round = 0; round < 400 && !came; round++) {
    for (uint8_t i = 0; i < 10; i++) send(*first, {frame(path(1, 2), 20u + i, i)});
    for (uint8_t i = 0; i < 10; i++) send(*first, {frame(path(1, 7), 20u + i, i)});
    rte_mbuf* mbufs[8];
    const uint16_t count = rte_eth_rx_burst(second->id, 0, mbufs, 8);
    for (uint16_t i = 0; i < count; i++) {
      const auto* const data = rte_pktmbuf_mtod(mbufs[i], const uint8_t*);
      came = came || parsed({data, data + mbufs[i]->pkt_len}).dst_ip == address(8);
      rte_pktmbuf_free(mbufs[i]);
    }
  }
  EXPECT_TRUE(came);
}

TEST_F(UdpDriver, WhatCameWhileItWasStoppedIsGone) {
  pollfd entry{rte_eth_dev_rx_intr_ctl_q_get_fd(second->id, 0), POLLIN, 0};
  ASSERT_EQ(rte_eth_dev_stop(second->id), 0);
  send(*first, {frame(path(1, 2), 8, 1)});
  ASSERT_EQ(poll(&entry, 1, kPatienceMs), 1) << "the packet is there";
  ASSERT_EQ(second->start(pool), 0);
  send(*first, {frame(path(1, 2), 8, 2)});
  const auto got = receive(*second);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(parsed(got[0]).bth.psn.value(), 2u);
}

TEST_F(UdpDriver, AnMbufThatOthersUseIsCountedAsAnError) {
  rte_mbuf* const shared = mbuf_of(frame(path(1, 2), 8, 1));
  rte_mbuf_refcnt_update(shared, 1);
  rte_mbuf* one = shared;
  ASSERT_EQ(rte_eth_tx_burst(first->id, 0, &one, 1), 1);
  rte_pktmbuf_free(shared);
  EXPECT_EQ(first->xstat("tx_not_ours"), 1u);
  EXPECT_EQ(first->stats().oerrors, 1u);
}

TEST_F(UdpDriver, AForeignSendersIdentificationIsFound) {
  const UniqueFd fd = stranger(9);
  Route spec = path(9, 2);
  Bytes bytes = frame(spec, 256, 5);
  OutFrame out;
  ASSERT_TRUE(read_frame(bytes, out));
  set_sent_fields(out, 0xBEEF, 0xC123);  // as a card that counts its packets does
  ASSERT_EQ(write(fd.get(), out.payload, out.payload_bytes), static_cast<ssize_t>(out.payload_bytes));
  const auto got = receive(*second);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(parsed(got[0]).flow_id, 0xBEEFu);
  EXPECT_EQ(second->xstat("rx_foreign_ids"), 1u);
}

TEST_F(UdpDriver, RubbishIsCountedAndGivenAsItIs) {
  const UniqueFd fd = stranger(9);
  for (const std::string& text : {std::string("x"), std::string(200, 'y')}) {
    ASSERT_EQ(write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  const auto got = receive(*second, 2);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].size(), 43u);
  EXPECT_EQ(second->xstat("rx_bad_icrc"), 2u);
}

TEST_F(UdpDriver, WhatIsLongerThanTheMtuIsDropped) {
  ASSERT_EQ(rte_eth_dev_stop(second->id), 0);
  ASSERT_EQ(second->start(pool, 1500), 0);
  send(*first, {frame(path(1, 2), 1424, 1), frame(path(1, 2), 2048, 2), frame(path(1, 2), 8, 3)});
  const auto got = receive(*second, 2);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(second->xstat("rx_too_long"), 1u);
  EXPECT_EQ(second->stats().ierrors, 1u);
  ASSERT_EQ(rte_eth_stats_reset(second->id), 0);
  EXPECT_EQ(second->xstat("rx_too_long"), 0u);
}

TEST_F(UdpDriver, QuestionsForNeighboursAreAnsweredByThePort) {
  send(*first, {arp_question(1, address(2)), frame(path(1, 2), 8, 1)});
  EXPECT_EQ(receive(*second).size(), 1u) << "the question does not leave";
  const auto got = receive(*first);
  ASSERT_EQ(got.size(), 1u);
  const auto link = decode_link(got[0]);
  ASSERT_TRUE(link);
  const auto answer = decode_arp(*link);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->sender_ip, address(2));
  EXPECT_EQ(answer->sender_mac, mac_of(address(2)));
  EXPECT_EQ(first->xstat("neighbour_answers"), 1u);
}

/// From a loopback address no other network can be reached.
TEST_F(UdpDriver, WhoCannotBeReachedIsNotAnswered) {
  send(*first, {arp_question(1, *parse_ip("192.0.2.1"))});
  EXPECT_EQ(first->xstat("neighbour_answers"), 0u);
  EXPECT_TRUE(receive(*first, 0).empty());
  Route spec = path(1, 2);
  spec.dst_ip = *parse_ip("192.0.2.1");
  send(*first, {frame(spec, 8, 0)});
  EXPECT_EQ(first->xstat("tx_unreachable"), 1u);
  EXPECT_EQ(first->stats().oerrors, 1u);
}

TEST_F(UdpDriver, AnAddressThatIsAnnouncedIsOursFromThenOn) {
  send(*second, {frame(path(7, 1), 8, 0)});
  EXPECT_EQ(second->xstat("tx_no_address"), 1u);
  send(*second, {arp_question(7, address(7))});
  send(*first, {frame(path(1, 7), 8, 1)});
  const auto got = receive(*second);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(parsed(got[0]).dst_ip, address(7));
  send(*second, {frame(path(7, 1), 8, 2)});
  EXPECT_EQ(receive(*first).size(), 1u);
}

TEST_F(UdpDriver, WhatIsNoPacketOfOursEndsHere) {
  Bytes pause(60);
  pause[12] = 0x88;
  pause[13] = 0x08;
  Route group = path(1, 2);
  group.dst_ip = *parse_ip("224.1.2.3");
  send(*first, {pause, frame(group, 8, 0), frame(path(8, 2), 8, 0), frame(path(1, 2), 8, 1)});
  EXPECT_EQ(receive(*second).size(), 1u);
  EXPECT_EQ(first->xstat("tx_not_roce"), 2u);
  EXPECT_EQ(first->xstat("tx_no_address"), 1u);
  EXPECT_EQ(first->stats().opackets, 1u);
}

TEST_F(UdpDriver, WhoSleepsIsWoken) {
  ASSERT_EQ(rte_eth_dev_rx_intr_enable(second->id, 0), 0);
  EXPECT_FALSE(second->is_awake(0));
  send(*first, {frame(path(1, 2), 8, 1)});
  EXPECT_TRUE(second->is_awake(kPatienceMs));
  EXPECT_EQ(receive(*second).size(), 1u);
  ASSERT_EQ(rte_eth_dev_rx_intr_enable(second->id, 0), 0);
  EXPECT_FALSE(second->is_awake(0));
}

TEST_F(UdpDriver, AnAnswerThatWaitsKeepsAwake) {
  send(*first, {arp_question(1, address(2))});
  ASSERT_EQ(rte_eth_dev_rx_intr_enable(first->id, 0), 0);
  EXPECT_TRUE(first->is_awake(kPatienceMs));
  EXPECT_EQ(receive(*first).size(), 1u);
  ASSERT_EQ(rte_eth_dev_rx_intr_enable(first->id, 0), 0);
  EXPECT_FALSE(first->is_awake(0));
}

/// The second half of a message that was read waits in the port, and no socket is readable for it.
TEST_F(UdpDriver, TheRestOfAMessageKeepsAwake) {
  send(*first, {frame(path(1, 2), 8, 1), frame(path(1, 2), 8, 2)});
  rte_mbuf* one = nullptr;
  ASSERT_TRUE(second->is_awake(kPatienceMs));
  ASSERT_EQ(rte_eth_rx_burst(second->id, 0, &one, 1), 1);
  rte_pktmbuf_free(one);
  ASSERT_EQ(rte_eth_dev_rx_intr_enable(second->id, 0), 0);
  EXPECT_TRUE(second->is_awake(kPatienceMs));
  EXPECT_EQ(receive(*second).size(), 1u);
}

TEST_F(UdpDriver, AnEmptyPoolLosesNothing) {
  std::vector<rte_mbuf*> all;
  send(*first, {frame(path(1, 2), 8, 1)});
  while (rte_mbuf* const mbuf = rte_pktmbuf_alloc(pool)) all.push_back(mbuf);
  rte_mbuf* got = nullptr;
  ASSERT_TRUE(second->is_awake(kPatienceMs));
  EXPECT_EQ(rte_eth_rx_burst(second->id, 0, &got, 1), 0);
  EXPECT_EQ(second->xstat("rx_no_mbufs"), 1u);
  rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size()));
  EXPECT_EQ(receive(*second).size(), 1u);
}

TEST_F(UdpDriver, WhatCannotBeMakesNoPort) {
  EXPECT_NE(TestPort("net_udp4", on_loopback(1)).code, 0) << "the address's port is taken";
  EXPECT_NE(TestPort("net_udp4", "iface=no-such-interface").code, 0);
  EXPECT_NE(TestPort("net_udp4", "addr=192.0.2.1/24").code, 0);
  EXPECT_NE(TestPort("net_udp4", "iface=lo,addr=192.0.2.1/24").code, 0);
  EXPECT_NE(TestPort("net_udp4", "").code, 0);
  EXPECT_EQ(rte_eth_dev_count_avail(), 2u);
}

}  // namespace
}  // namespace uroce::udp
