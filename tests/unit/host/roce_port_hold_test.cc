// While an address's RoCE port is held, the kernel says of no packet to it that nobody is there.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "host/netdev.h"

namespace uroce {
namespace {

struct HoldCase {
  const char* name;
  const char* address;  // of loopback
};

class RocePortHoldTest : public testing::TestWithParam<HoldCase> {
 protected:
  /// What the kernel answers to a datagram to port 4791 of the address: ECONNREFUSED, or nothing (EAGAIN).
  int answer() const {
    const LocalAddress local = *parse_local_address(GetParam().address);
    sockaddr_storage to{};
    socklen_t bytes = sizeof(sockaddr_in);
    if (local.ip.is_v4()) {
      auto& in = reinterpret_cast<sockaddr_in&>(to);
      in.sin_family = AF_INET;
      in.sin_port = htons(4791);
      in.sin_addr.s_addr = htonl(local.ip.v4_host_order());
    } else {
      auto& in6 = reinterpret_cast<sockaddr_in6&>(to);
      in6.sin6_family = AF_INET6;
      in6.sin6_port = htons(4791);
      std::memcpy(&in6.sin6_addr, local.ip.bytes.data(), 16);
      bytes = sizeof in6;
    }
    const int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const timeval patience{0, 100'000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    char byte = 0;
    const bool sent = connect(fd, reinterpret_cast<const sockaddr*>(&to), bytes) == 0 && send(fd, &byte, 1, 0) == 1;
    const int said = sent && recv(fd, &byte, 1, 0) < 0 ? errno : 0;
    close(fd);
    return said;
  }
};

TEST_P(RocePortHoldTest, TheKernelIsSilentForAsLong) {
  const LocalAddress local = *parse_local_address(GetParam().address);
  const auto lo = read_netdev("lo");
  ASSERT_TRUE(lo);
  if (answer() != ECONNREFUSED) GTEST_SKIP() << "skipped: this machine has no " << GetParam().address;
  std::string error;
  {
    RocePortHold hold;
    ASSERT_TRUE(hold.take(local, *lo, error)) << error;
    EXPECT_EQ(answer(), EAGAIN);
    RocePortHold another;
    EXPECT_FALSE(another.take(local, *lo, error)) << "it would be another RoCE stack's";
    EXPECT_EQ(errno, EADDRINUSE);
    hold.release(local);
    EXPECT_EQ(answer(), ECONNREFUSED);
    EXPECT_TRUE(hold.take(local, *lo, error)) << error;
    EXPECT_EQ(answer(), EAGAIN);
  }
  EXPECT_EQ(answer(), ECONNREFUSED);
}

INSTANTIATE_TEST_SUITE_P(Of, RocePortHoldTest,
                         testing::Values(HoldCase{"IPv4", "127.77.47.91/8"}, HoldCase{"IPv6", "::1/128"}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace uroce
