// With a real TAP interface, in a network namespace of the test's own; left out where that is not allowed.
#include "pmd/card/wires/tap_wire.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "wire_support.h"

namespace mqnic::card {
namespace {

/// The kernel's side of the interface, as raw frames.
class KernelSide {
 public:
  explicit KernelSide(const char* interface) : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(0x88b5))) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(0x88b5);
    address.sll_ifindex = static_cast<int>(if_nametoindex(interface));
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~KernelSide() { close(fd_); }
  KernelSide(const KernelSide&) = delete;
  KernelSide& operator=(const KernelSide&) = delete;
  bool send(const Frame& frame) {
    return ::send(fd_, frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size());
  }
  Frame receive() {
    Frame frame(10'000);
    const ssize_t n = recv(fd_, frame.data(), frame.size(), 0);
    frame.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return frame;
  }

 private:
  int fd_;
};

Frame experimental_frame(size_t bytes) {
  Frame frame = numbered_frame(1, bytes);
  std::fill(frame.begin(), frame.begin() + 12, uint8_t{0x02});
  frame[12] = 0x88;
  frame[13] = 0xb5;
  return frame;
}

/// What the machine does not allow, found out without any code of ours; "" when it allows everything.
std::string cannot_make_tap() {
  if (unshare(CLONE_NEWNET) != 0) return "no right to make a network namespace";
  const int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (fd < 0) return std::string("/dev/net/tun: ") + std::strerror(errno);
  ifreq request{};
  std::strcpy(request.ifr_name, "probe0");
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  const bool made = ioctl(fd, TUNSETIFF, &request) == 0;
  const std::string why = made ? "" : std::string("no TAP interface: ") + std::strerror(errno);
  close(fd);
  return why;
}

void check_tap(std::string& skip) {
  skip = cannot_make_tap();
  if (!skip.empty()) return;
  std::string error;
  const auto wire = make_wire("tap:card0", {}, error);
  ASSERT_NE(wire, nullptr) << error;
  EXPECT_TRUE(wire->connected());
  EXPECT_NE(refusal("tap:card0").find("another process"), std::string::npos);
  EXPECT_NE(refusal("tap:lo").find("choose another name"), std::string::npos);
  KernelSide kernel("card0");
  for (const size_t bytes : {60, 1514, 9214}) {
    const Frame frame = experimental_frame(bytes);
    EXPECT_TRUE(put(*wire, frame));
    wire->flush(1);
    EXPECT_EQ(kernel.receive(), frame);
    ASSERT_TRUE(kernel.send(frame));
    Frame back = take(*wire);
    while (!back.empty() && back[12] != 0x88) back = take(*wire);  // the kernel sends IPv6 multicast now and then
    EXPECT_EQ(back, frame);
  }
}

TEST(TapWire, CarriesJumboFramesBothWays) {
  std::string skip;
  std::thread([&] { check_tap(skip); }).join();  // the namespace is this thread's alone
  if (!skip.empty()) GTEST_SKIP() << skip;
}

}  // namespace
}  // namespace mqnic::card
