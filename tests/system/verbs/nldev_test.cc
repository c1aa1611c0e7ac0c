// RDMA netlink as programs see it: sockets of NETLINK_RDMA, by literal bytes and by random ones.
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "netlink_asker.h"

using namespace verbs_test;

namespace {

// Length, type (client 5), flags (request; 3 in the high byte: a list), sequence number, port.
const Bytes kListDevices = {16, 0, 0, 0, 1, 0x14, 1, 3, 0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0};
const Bytes kOneLink = {32, 0, 0, 0, 5, 0x14, 1, 0, 7, 0, 0, 0, 0, 0, 0, 0,
                        8,  0, 1, 0, 0, 0,    0, 0, 8, 0, 3, 0, 1, 0, 0, 0};

TEST(NldevTest, DevicesByLiteralBytes) {
  const Asker asker;
  ASSERT_EQ(asker.ask(kListDevices), 16);
  const Bytes device = asker.receive();
  // Index 0, then the name, then the number of ports.
  const Bytes begins = {8,   0,   1,   0,   0, 0, 0, 0, 11, 0, 2, 0, 'u', 'r',
                        'o', 'c', 'e', '0', 0, 0, 8, 0, 3,  0, 1, 0, 0,   0};
  ASSERT_GT(device.size(), sizeof(nlmsghdr) + begins.size());
  EXPECT_EQ(Bytes(device.begin() + 16, device.begin() + 16 + static_cast<long>(begins.size())), begins);
  EXPECT_EQ(header_of(device).nlmsg_len, device.size());
  EXPECT_EQ(header_of(device).nlmsg_type, 0x1401);
  EXPECT_EQ(header_of(device).nlmsg_flags, NLM_F_MULTI);
  EXPECT_EQ(header_of(device).nlmsg_seq, 0x11223344u);
  EXPECT_TRUE(contains(device, "roce"));
  const Bytes end = asker.receive();
  EXPECT_EQ(header_of(end).nlmsg_type, NLMSG_DONE);
  EXPECT_EQ(error_of(end), 0);
}

TEST(NldevTest, ALinkAndWhatIsNone) {
  const Asker asker;
  ASSERT_EQ(asker.ask(kOneLink), 32);
  const Bytes link = asker.receive();
  EXPECT_EQ(header_of(link).nlmsg_type, 0x1405);
  EXPECT_TRUE(contains(link, std::string("\5\0\14\0\4", 5))) << "the port's state: active";
  for (const size_t which : {20, 28}) {  // another device, another port
    Bytes other = kOneLink;
    other[which] = 9;
    asker.ask(other);
    EXPECT_EQ(error_of(asker.receive()), -EINVAL);
  }
}

TEST(NldevTest, NothingIsChanged) {
  const Asker asker;
  for (const int op : {RDMA_NLDEV_CMD_SET, RDMA_NLDEV_CMD_NEWLINK, RDMA_NLDEV_CMD_DELLINK, RDMA_NLDEV_CMD_SYS_SET,
                       RDMA_NLDEV_CMD_STAT_SET, RDMA_NLDEV_CMD_STAT_DEL, RDMA_NLDEV_CMD_GET_CHARDEV}) {
    Bytes request = kOneLink;
    request[4] = static_cast<uint8_t>(op);
    ASSERT_EQ(asker.ask(request), 32);
    const Bytes answer = asker.receive();
    EXPECT_EQ(header_of(answer).nlmsg_type, NLMSG_ERROR) << op;
    EXPECT_EQ(error_of(answer), -EOPNOTSUPP) << op;
  }
}

TEST(NldevTest, CountersFitIntoAPage) {
  const Asker asker;
  Bytes request = kOneLink;
  request[4] = RDMA_NLDEV_CMD_STAT_GET;
  asker.ask(request);
  const Bytes answer = asker.receive();
  EXPECT_TRUE(contains(answer, "out_of_sequence"));
  EXPECT_TRUE(contains(answer, "pfc_watchdog_fired"));  // the last one
  EXPECT_LE(answer.size(), 4096u);
}

TEST(NldevTest, ACopyAndAChildAsk) {
  const Asker asker;
  const int copy = dup(asker.fd());
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  Bytes request = kListDevices;
  iovec pieces[] = {{request.data(), 7}, {request.data() + 7, request.size() - 7}};
  msghdr message{};
  message.msg_name = &kernel;
  message.msg_namelen = sizeof kernel;
  message.msg_iov = pieces;
  message.msg_iovlen = 2;
  EXPECT_EQ(sendmsg(copy, &message, 0), 16);
  EXPECT_TRUE(contains(asker.receive(), "uroce0"));
  EXPECT_EQ(header_of(asker.receive()).nlmsg_type, NLMSG_DONE);
  close(copy);
  EXPECT_EQ(send(asker.fd(), request.data(), request.size(), 0), 16);
  EXPECT_TRUE(contains(asker.receive(), "uroce0"));
  asker.receive();
  const pid_t child = fork();
  if (child == 0) _exit(asker.ask(request) == 16 && contains(asker.receive(), "uroce0") ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// Lengths, types and attributes at random: answers are whole messages, and the next valid request is answered.
TEST(NldevTest, RandomRequests) {
  std::mt19937 random(4791);
  for (int round = 0; round < 20000; round++) {
    static const Asker asker;
    Bytes request = kOneLink;
    request[4] = static_cast<uint8_t>(random() % 32);
    request[7] = static_cast<uint8_t>(random() % 4);
    for (unsigned i = random() % 4; i != 0; i--) request[random() % request.size()] = static_cast<uint8_t>(random());
    request.resize(random() % 4 == 0 ? random() % (request.size() + 1) : request.size());
    asker.ask(request);
    for (Bytes answer = asker.receive(MSG_DONTWAIT); !answer.empty(); answer = asker.receive(MSG_DONTWAIT)) {
      ASSERT_EQ((header_of(answer).nlmsg_len + 3) / 4 * 4, answer.size()) << "round " << round;
    }
  }
  const Asker asker;
  asker.ask(kListDevices);
  EXPECT_TRUE(contains(asker.receive(), "uroce0"));
}

}  // namespace
