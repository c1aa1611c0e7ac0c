// The switch's own memif port, against a client that is bytes in memory.
#include "uroce_switch/memif_port.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "eal_test.h"
#include "host/wire_end.h"
#include "support.h"

namespace uroce::netswitch {
namespace {

using namespace memif::test;

class MemifPortTest : public EalTest {
 protected:
  static constexpr bool kToServer = true;
  static constexpr bool kToClient = false;

  void SetUp() override {
    EalTest::SetUp();
    std::string error;
    path_ = runtime_dir(error) + "/port.sock";
    port_ = MemifPort::start(path_, "memif 0", pool_, error);
    ASSERT_NE(port_, nullptr) << error;
  }
  void TearDown() override {
    port_.reset();
    expect_all_free();
  }

  void turns(int count, Duration each = milliseconds(1)) {
    for (int i = 0; i < count; i++) port_->on_turn(now_ = now_ + each);
  }
  void say(const std::vector<uint8_t>& bytes, int fd = -1) {
    iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))] = {};
    if (fd >= 0) {
      header.msg_control = control;
      header.msg_controllen = sizeof control;
      cmsghdr* const item = CMSG_FIRSTHDR(&header);
      item->cmsg_level = SOL_SOCKET;
      item->cmsg_type = SCM_RIGHTS;
      item->cmsg_len = CMSG_LEN(sizeof fd);
      memcpy(CMSG_DATA(item), &fd, sizeof fd);
    }
    ASSERT_GT(sendmsg(socket_.get(), &header, MSG_NOSIGNAL), 0);
    turns(5);
  }
  void plug_in() {
    socket_ = UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, path_.data(), path_.size());
    ASSERT_EQ(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const UniqueFd event(eventfd(0, EFD_CLOEXEC));
    turns(5);
    say(init());
    say(add_region(0, client_.bytes()), client_.file.get());
    say(add_ring(kToServer, client_.ring(kToServer), client_.log2), event.get());
    say(add_ring(kToClient, client_.ring(kToClient), client_.log2), event.get());
    say(memif::test::connect());
    ASSERT_TRUE(port_->link_up());
  }
  void send(uint32_t count, uint32_t bytes = 60) {
    ASSERT_TRUE(port_->ready_to_send());
    std::vector<rte_mbuf*> mbufs;
    for (uint32_t i = 0; i < count; i++) mbufs.push_back(frame(bytes, static_cast<uint8_t>(++sent_)));
    port_->send(mbufs.data(), count);
  }
  uint64_t own(const std::string& wanted) const {
    uint64_t found = UINT64_MAX;
    port_->for_each_own_counter([&](const char* name, uint64_t value) {
      if (name == wanted) found = value;
    });
    return found;
  }
  /// First byte of a frame that the client has received.
  unsigned received(uint32_t slot) const { return client_.base[client_.buffer(kToClient, slot)]; }

  std::string path_;
  std::unique_ptr<MemifPort> port_;
  ClientMemory client_;  // four slots
  UniqueFd socket_;
  Instant now_{0};
  unsigned sent_ = 0;
};

TEST_F(MemifPortTest, FramesBothWays) {
  ASSERT_NO_FATAL_FAILURE(plug_in());
  EXPECT_EQ(port_->counters().link_ups, 1u);
  client_.describe(kToServer, 0, 100);
  memset(client_.base + client_.buffer(kToServer, 0), 42, 100);
  client_.describe(kToServer, 1, 70);
  client_.set_head(kToServer, 2);
  rte_mbuf* mbufs[SwitchPort::kMaxBurst];
  ASSERT_EQ(port_->receive(mbufs, SwitchPort::kMaxBurst), 2u);
  EXPECT_EQ(mbufs[0]->pkt_len, 100u);
  EXPECT_EQ(rte_pktmbuf_mtod(mbufs[0], uint8_t*)[99], 42);
  EXPECT_EQ(mbufs[1]->data_len, 70);
  EXPECT_EQ(client_.tail(kToServer), 2);
  client_.set_head(kToClient, 4);
  port_->send(mbufs, 2);
  EXPECT_EQ(client_.tail(kToClient), 2);
  EXPECT_EQ(client_.length(kToClient, 0), 100u);
  EXPECT_EQ(received(0), 42u);
  EXPECT_FALSE(port_->waiting());
}

TEST_F(MemifPortTest, ABurstIsNoLongerThanAskedFor) {
  ASSERT_NO_FATAL_FAILURE(plug_in());
  for (uint32_t i = 0; i < 4; i++) client_.describe(kToServer, i, 60);
  client_.set_head(kToServer, 4);
  rte_mbuf* mbufs[3];
  ASSERT_EQ(port_->receive(mbufs, 3), 3u);
  EXPECT_EQ(client_.tail(kToServer), 3);
  rte_pktmbuf_free_bulk(mbufs, 3);
  ASSERT_EQ(port_->receive(mbufs, 3), 1u);
  rte_pktmbuf_free_bulk(mbufs, 1);
}

TEST_F(MemifPortTest, WhatThePeerHasNoRoomForWaitsInOrder) {
  ASSERT_NO_FATAL_FAILURE(plug_in());
  client_.set_head(kToClient, 2);
  send(4);
  EXPECT_TRUE(port_->waiting());
  EXPECT_FALSE(port_->ready_to_send());
  EXPECT_EQ(client_.tail(kToClient), 2);
  client_.set_head(kToClient, 4);
  turns(1);
  EXPECT_EQ(client_.tail(kToClient), 4);
  for (uint32_t i = 0; i < 4; i++) EXPECT_EQ(received(i), i + 1);
  EXPECT_TRUE(port_->ready_to_send());
}

TEST_F(MemifPortTest, APeerThatTakesNothingLosesFramesAfterASecond) {
  ASSERT_NO_FATAL_FAILURE(plug_in());
  client_.set_head(kToClient, 2);
  send(5);
  turns(99, milliseconds(10));
  EXPECT_TRUE(port_->waiting());
  EXPECT_EQ(port_->counters().tx_dropped_stuck, 0u);
  turns(3, milliseconds(10));
  EXPECT_FALSE(port_->waiting());
  EXPECT_EQ(port_->counters().tx_dropped_stuck, 3u);
  send(7);
  EXPECT_EQ(port_->counters().tx_dropped_stuck, 10u) << "and from then on at once";
  client_.set_head(kToClient, 4);
  send(3);
  EXPECT_TRUE(port_->waiting()) << "until it takes some again";
  EXPECT_EQ(port_->counters().tx_dropped_stuck, 10u);
}

TEST_F(MemifPortTest, FramesForNobodyAreCounted) {
  send(3);
  EXPECT_EQ(port_->counters().tx_dropped_no_link, 3u);
  ASSERT_NO_FATAL_FAILURE(plug_in());
  send(2);  // it has offered no slot
  EXPECT_TRUE(port_->waiting());
  socket_.reset();
  turns(5);
  EXPECT_FALSE(port_->link_up());
  EXPECT_FALSE(port_->waiting());
  EXPECT_EQ(port_->counters().tx_dropped_no_link, 5u);
}

TEST_F(MemifPortTest, FramesThatFitNowhereAreCounted) {
  ASSERT_NO_FATAL_FAILURE(plug_in());
  client_.describe_at(kToServer, 0, 9000, 0);
  client_.describe(kToServer, 1, 60);
  client_.set_head(kToServer, 2);
  rte_mbuf* mbuf = nullptr;
  ASSERT_EQ(port_->receive(&mbuf, 1), 1u);
  EXPECT_EQ(mbuf->pkt_len, 60u);
  rte_pktmbuf_free(mbuf);
  EXPECT_EQ(own("drop_rx_too_long"), 1u);
  for (uint32_t i = 0; i < 4; i++) client_.describe(kToClient, i, 10);
  client_.set_head(kToClient, 4);
  send(1, 60);
  EXPECT_EQ(own("drop_tx_no_room"), 1u);
  EXPECT_FALSE(port_->waiting());
}

TEST_F(MemifPortTest, WhoBreaksARuleIsGoneAndThereIsALine) {
  for (const bool to_server : {true, false}) {
    ASSERT_NO_FATAL_FAILURE(plug_in());
    testing::internal::CaptureStderr();
    client_.describe(to_server, 0, 60, 0, 7);  // region 7
    client_.set_head(to_server, 1);
    if (to_server) {
      rte_mbuf* mbuf = nullptr;
      EXPECT_EQ(port_->receive(&mbuf, 1), 0u);
    } else {
      send(2);
      EXPECT_EQ(port_->counters().tx_dropped_no_link, 2u);
    }
    EXPECT_FALSE(port_->link_up());
    turns(2);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("uroce: memif 0: the client was disconnected: "), std::string::npos) << said;
    EXPECT_NE(said.find("outside its memory"), std::string::npos) << said;
    socket_.reset();
    turns(2, milliseconds(1000));
    client_.describe(to_server, 0, 60);
  }
  EXPECT_EQ(own("peers_broken"), 2u);
}

TEST_F(MemifPortTest, WithoutBuffersFramesWaitInTheRing) {
  ASSERT_NO_FATAL_FAILURE(plug_in());
  client_.describe(kToServer, 0, 60);
  client_.set_head(kToServer, 1);
  std::vector<rte_mbuf*> all;
  while (rte_mbuf* mbuf = rte_pktmbuf_alloc(pool_)) all.push_back(mbuf);
  rte_mbuf* mbuf = nullptr;
  EXPECT_EQ(port_->receive(&mbuf, 1), 0u);
  EXPECT_EQ(client_.tail(kToServer), 0);
  for (rte_mbuf* one : all) rte_pktmbuf_free(one);
  ASSERT_EQ(port_->receive(&mbuf, 1), 1u);
  rte_pktmbuf_free(mbuf);
}

}  // namespace
}  // namespace uroce::netswitch
