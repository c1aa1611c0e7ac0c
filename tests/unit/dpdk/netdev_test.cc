// What the kernel says of interfaces, asked of a real one, in a network namespace of each test's own.
#include "host/netdev.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "deny_netlink.h"
#include "dpdk/nic_keeper.h"
#include "engine/address_table.h"
#include "segment/directory.h"
#include "segment/host_identity.h"
#include "temporary_directory.h"
#include "transport/observer.h"

namespace uroce {
namespace {

bool ip(const std::string& words) { return std::system(("ip " + words + " 2>/dev/null").c_str()) == 0; }

constexpr MacAddress kMac{{0x02, 0, 0, 0, 0, 0x0a}};
constexpr MacAddress kOtherMac{{0x02, 0, 0, 0, 0, 0x0b}};
const LocalAddress kFour{IpAddress::v4(0x0a090807), 20, 0};
const LocalAddress kLabelled{IpAddress::v4(0x0a096301), 24, 0};  // "near0:1", which is a label and no interface
const LocalAddress kWithPeer{IpAddress::v4(0x0a4d0001), 30, 0};

/// Makes a cable: near0 is ours, far0 is its other end. In a network namespace of this thread's own.
std::string make_cable() {
  if (unshare(CLONE_NEWNET) != 0) return "no right to make a network namespace";
  if (!ip("link add near0 type veth peer name far0")) return "no veth interfaces here";
  EXPECT_TRUE(ip("link set near0 address 02:00:00:00:00:0a mtu 4200 up"));
  EXPECT_TRUE(ip("link set far0 address 02:00:00:00:00:0b mtu 4200 up"));
  EXPECT_TRUE(ip("addr add fd99::7/72 dev near0 nodad"));
  EXPECT_TRUE(ip("addr add 10.9.8.7/20 dev near0"));
  EXPECT_TRUE(ip("addr add 10.9.0.99/32 dev far0"));
  EXPECT_TRUE(ip("addr add 10.9.99.1/24 dev near0 label near0:1"));
  EXPECT_TRUE(ip("addr add 10.77.0.1 peer 10.77.0.2/30 dev near0"));
  return "";
}

void with_cable(const std::function<void()>& test) {
  std::string skip;
  std::thread([&] {
    skip = make_cable();
    if (skip.empty()) test();
  }).join();
  if (!skip.empty()) GTEST_SKIP() << skip;
}

/// Planned, but not opened.
struct PortOverNear {
  PortOverNear() {
    config.port = "net_af_packet0,iface=near0";
    std::string error;
    EXPECT_TRUE(port.plan(error)) << error;
  }
  ~PortOverNear() { port.close(); }

  EndpointConfig config;
  EngineMutex ownership;
  NicKeeper port{config, ownership};
};

LocalAddress six() {
  LocalAddress address;
  EXPECT_EQ(inet_pton(AF_INET6, "fd99::7", address.ip.bytes.data()), 1);
  address.prefix_bits = 72;
  return address;
}

TEST(Netdev, IsAsTheKernelHasIt) {
  with_cable([] {
    const auto netdev = read_netdev("near0");
    ASSERT_TRUE(netdev);
    EXPECT_EQ(netdev->name, "near0");
    EXPECT_GT(netdev->index, 0);
    EXPECT_EQ(netdev->mac, kMac);
    EXPECT_EQ(netdev->mtu, 4200u);
    EXPECT_TRUE(netdev->up);
    EXPECT_TRUE(netdev->carrier);
    // IPv4 first, though added last; without the address that the kernel derived from the MAC.
    EXPECT_EQ(netdev->addresses, (std::vector<LocalAddress>{kFour, kLabelled, kWithPeer, six()}));
    errno = 0;
    EXPECT_FALSE(read_netdev("nobody0"));
    EXPECT_EQ(errno, ENODEV);
    EXPECT_FALSE(read_netdev(""));
    EXPECT_FALSE(read_netdev("a-name-longer-than-any"));
    const std::vector<std::string> all = list_netdevs().value_or(std::vector<std::string>{});
    EXPECT_EQ(std::count(all.begin(), all.end(), "near0") + std::count(all.begin(), all.end(), "far0"), 2);
    EXPECT_EQ(std::count(all.begin(), all.end(), "lo"), 0);
  });
}

/// The kernel reports a carrier asynchronously, some time after it changed.
bool carrier_becomes(bool wanted) {
  constexpr int kLooks = 300;
  for (int i = 0; i < kLooks && netdev_carrier("near0") != wanted; i++) usleep(10000);
  return netdev_carrier("near0") == wanted;
}

TEST(Netdev, CarrierGoesWithTheOtherEnd) {
  with_cable([] {
    EXPECT_TRUE(carrier_becomes(true));
    ASSERT_TRUE(ip("link set far0 down"));
    EXPECT_TRUE(carrier_becomes(false));
    const auto netdev = read_netdev("near0");
    ASSERT_TRUE(netdev);
    EXPECT_TRUE(netdev->up);
    EXPECT_FALSE(netdev->carrier);
    ASSERT_TRUE(ip("link set near0 down"));
    EXPECT_FALSE(read_netdev("near0")->up);
    EXPECT_EQ(netdev_carrier("nobody0"), false);
  });
}

/// The errno for any program that now binds to the port.
int bind_port(const LocalAddress& address, uint16_t port) {
  const bool v4 = address.ip.is_v4();
  const int fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  in.sin_addr.s_addr = htonl(v4 ? address.ip.v4_host_order() : 0);
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(port);
  std::copy(address.ip.bytes.begin(), address.ip.bytes.end(), in6.sin6_addr.s6_addr);
  const int result = v4 ? bind(fd, reinterpret_cast<const sockaddr*>(&in), sizeof in)
                        : bind(fd, reinterpret_cast<const sockaddr*>(&in6), sizeof in6);
  const int error = result == 0 ? 0 : errno;
  close(fd);
  return error;
}

TEST(Netdev, ThePortOfRoceIsHeldAtEachAddress) {
  with_cable([] {
    const Netdev netdev = *read_netdev("near0");
    for (const LocalAddress& address : {kFour, six()}) {
      std::string error;
      {
        RocePortHold hold;
        ASSERT_TRUE(hold.take(address, netdev, error)) << error;
        EXPECT_EQ(bind_port(address, 4791), EADDRINUSE);
        EXPECT_EQ(bind_port(address, 4792), 0);
        RocePortHold second;
        EXPECT_FALSE(second.take(address, netdev, error));
        EXPECT_NE(error.find("4791 of " + to_string(address.ip) + " (near0)"), std::string::npos) << error;
      }
      EXPECT_EQ(bind_port(address, 4791), 0);
    }
    // An address that this host does not have: the kernel does not answer for it, so there is nothing to hold.
    const LocalAddress foreign{IpAddress::v4(0x0a090001), 20, 0};
    std::string error;
    RocePortHold hold;
    RocePortHold second;
    EXPECT_TRUE(hold.take(foreign, netdev, error));
    EXPECT_TRUE(second.take(foreign, netdev, error));
  });
}

TEST(Netdev, AnAddressOfSomebodyElseOnTheWireIsFound) {
  with_cable([] {
    const Netdev netdev = *read_netdev("near0");
    const LocalAddress taken{IpAddress::v4(0x0a090063), 20, 0};
    const LocalAddress nobodys{IpAddress::v4(0x0a090064), 20, 0};
    LocalAddress tagged = taken;
    tagged.vlan_id = 5;
    const auto found = find_address_conflict(netdev, {nobodys, taken});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->first, taken.ip);
    EXPECT_EQ(found->second, kOtherMac);
    EXPECT_FALSE(find_address_conflict(netdev, {nobodys}));
    EXPECT_FALSE(find_address_conflict(netdev, {tagged, six()}));
    EXPECT_FALSE(find_address_conflict(netdev, {}));
  });
}

/// Announces `ip` without a pause on near1, another network, so that a frame is heard at every moment.
class Shouter {
 public:
  explicit Shouter(const IpAddress& ip) : thread_([this, ip] { shout(ip); }) {}
  ~Shouter() {
    stop_ = true;
    thread_.join();
  }

 private:
  void shout(const IpAddress& ip) {
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    sockaddr_ll link{};
    link.sll_family = AF_PACKET;
    link.sll_ifindex = read_netdev("far1")->index;
    // An answer of ARP, from 02:00:00:00:00:0c.
    uint8_t frame[60] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 0x0c, 0x08, 0x06,
                         0,    1,    0x08, 0,    6,    4,    0, 2, 2, 0, 0, 0,    0,    0x0c};
    std::copy_n(ip.bytes.begin() + 12, 4, frame + 28);
    while (!stop_) {
      sendto(fd, frame, sizeof frame, 0, reinterpret_cast<const sockaddr*>(&link), sizeof link);
    }
    close(fd);
  }
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(Netdev, WhoIsOnAnotherNetworkHasNoSayHere) {
  with_cable([] {
    const LocalAddress nobodys{IpAddress::v4(0x0a090064), 20, 0};
    ASSERT_TRUE(ip("link add near1 type veth peer name far1 && ip link set near1 up && ip link set far1 up"));
    const Netdev netdev = *read_netdev("near0");
    const Shouter shouter(nobodys.ip);
    for (int i = 0; i < 3; i++) EXPECT_FALSE(find_address_conflict(netdev, {nobodys}));
  });
}

/// Records what a program would see of its addresses.
class Witness final : public Observer {
 public:
  void on_port_event(AsyncEvent event) override { gid_changes_ += event == AsyncEvent::kGidChange ? 1 : 0; }
  int gid_changes() const { return gid_changes_; }

 private:
  std::atomic<int> gid_changes_ = 0;
};

/// A program on the segment of this namespace.
struct OnSegment {
  OnSegment() : endpoint(Endpoint::open({}, witness, error)) { EXPECT_NE(endpoint, nullptr) << error; }
  /// Its IPv4 addresses, with 198.19. in place of a private one.
  std::string addresses() const {
    std::string text;
    const EngineLock engine(*endpoint);
    for (const LocalAddress& address : endpoint->engine().addresses().present()) {
      if (address.ip.is_v4()) text += to_string(address.ip).substr(0, segment::is_leased(address) ? 7 : 99) + " ";
    }
    return text;
  }
  /// Waits until it has the wanted addresses.
  bool has(const std::string& wanted) const {
    for (int i = 0; i < 500 && addresses() != wanted; i++) usleep(10'000);
    return addresses() == wanted;
  }
  Witness witness;
  std::string error;
  std::unique_ptr<Endpoint> endpoint;
};

TEST(Netdev, AProgramOnASegmentFollowsTheMachinesAddresses) {
  const TemporaryRuntimeDir directory;
  std::string skip;
  std::thread([&] {
    if (unshare(CLONE_NEWNET) != 0 || !ip("link add near0 type veth peer name far0")) {
      skip = "no right to make network namespaces and veth interfaces";
      return;
    }
    const OnSegment early;
    EXPECT_EQ(early.addresses(), "198.19. ");
    ASSERT_TRUE(ip("addr add 10.8.1.1/24 dev near0 && ip link set far0 up && ip link set near0 up"));
    EXPECT_TRUE(early.has("198.19. 10.8.1.1 ")) << early.addresses();
    const OnSegment late;
    EXPECT_EQ(late.addresses(), "10.8.1.1 198.19. ");
    ASSERT_TRUE(ip("addr add 10.8.2.1/24 dev near0 label near0:1"));
    EXPECT_TRUE(early.has("198.19. 10.8.1.1 10.8.2.1 ")) << early.addresses();
    EXPECT_TRUE(late.has("10.8.1.1 198.19. 10.8.2.1 ")) << late.addresses();
    EXPECT_EQ(late.witness.gid_changes(), 1);
    ASSERT_TRUE(ip("addr del 10.8.1.1/24 dev near0"));
    EXPECT_TRUE(early.has("198.19. 10.8.2.1 ")) << early.addresses();
    EXPECT_TRUE(late.has("198.19. 10.8.2.1 ")) << late.addresses();
    EXPECT_EQ(late.witness.gid_changes(), 2);
    // The other members read it, too.
    segment::Directory all;
    std::string error;
    ASSERT_TRUE(all.open(directory.path() / "shmlan", error)) << error;
    all.scan();
    ASSERT_EQ(all.members().size(), 2u);
    for (const auto& [id, card] : all.members()) {
      EXPECT_EQ(card.addresses.size(), 2u);
      EXPECT_EQ(
          std::count(card.addresses.begin(), card.addresses.end(), LocalAddress{IpAddress::v4(0x0a080201), 24, 0}), 1);
    }
  }).join();
  if (!skip.empty()) GTEST_SKIP() << skip;
}

/// A process without a free descriptor, while one lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{0, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST(Netdev, WithoutDescriptorsNothingIsKnown) {
  with_cable([] {
    const NoDescriptors none;
    EXPECT_FALSE(read_netdev("near0"));
    EXPECT_EQ(errno, EMFILE);
    EXPECT_FALSE(list_netdevs());
    EXPECT_EQ(netdev_carrier("near0"), std::nullopt);
    RocePortHold hold;
    std::string error;
    EXPECT_FALSE(hold.take(kFour, {}, error));
    EXPECT_EQ(error, "cannot keep the kernel from answering for 10.9.8.7: Too many open files");
  });
}

/// As in the sandbox of a service. The filter is for this thread only.
TEST(Netdev, WithoutNetlinkAnInterfaceHasNoAddresses) {
  with_cable([] {
    ASSERT_TRUE(test::deny_netlink());
    const auto netdev = read_netdev("near0");
    ASSERT_TRUE(netdev);
    EXPECT_EQ(netdev->mac, kMac);
    EXPECT_TRUE(netdev->addresses.empty());
    EXPECT_EQ(list_netdevs(), std::vector<std::string>{});
    EXPECT_FALSE(read_netdev("far_away"));
    EXPECT_EQ(errno, ENODEV);
  });
}

/// Changes in the meantime are noticed when there are descriptors again.
TEST(Netdev, WithoutDescriptorsAnInterfaceStaysAsItWas) {
  const TemporaryRuntimeDir directory;
  with_cable([] {
    PortOverNear near;
    NicKeeper& port = near.port;
    ASSERT_TRUE(ip("addr del 10.77.0.1 peer 10.77.0.2/30 dev near0"));
    bool again = false;
    {
      const NoDescriptors none;
      EXPECT_EQ(port.changed_addresses(again), std::nullopt);
      EXPECT_TRUE(again);
    }
    EXPECT_EQ(port.changed_addresses(again), (std::vector<LocalAddress>{kFour, kLabelled, six()}));
    EXPECT_FALSE(again);
    port.close();
  });
}

/// An address whose port another RoCE stack has is not used, whatever other addresses are added.
TEST(Netdev, AnAddressOfAnotherStackStaysUnused) {
  const TemporaryRuntimeDir directory;
  with_cable([] {
    PortOverNear near;
    NicKeeper& port = near.port;
    bool again = false;
    const auto usable = [&] { return port.changed_addresses(again).value_or(std::vector<LocalAddress>{}); };
    const LocalAddress taken{IpAddress::v4(0x0a090163), 24, 0};
    const LocalAddress free{IpAddress::v4(0x0a090164), 24, 0};
    const auto has = [](const std::vector<LocalAddress>& all, const LocalAddress& address) {
      return std::find(all.begin(), all.end(), address) != all.end();
    };
    ASSERT_TRUE(ip("addr add 10.9.1.99/24 dev near0"));
    const int other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(4791);
    in.sin_addr.s_addr = htonl(0x0a090163);
    ASSERT_EQ(bind(other, reinterpret_cast<const sockaddr*>(&in), sizeof in), 0);
    EXPECT_FALSE(has(usable(), taken));
    ASSERT_TRUE(ip("addr add 10.9.1.100/24 dev near0"));
    const std::vector<LocalAddress> after = usable();
    EXPECT_TRUE(has(after, free));
    EXPECT_FALSE(has(after, taken));
    EXPECT_FALSE(again);
    close(other);
    port.close();
  });
}

TEST(Netdev, WithoutDescriptorsAProgramOnASegmentKeepsItsAddresses) {
  const TemporaryRuntimeDir directory;
  with_cable([] {
    int answers[2];  // of the shell, which is not short of descriptors
    ASSERT_EQ(pipe(answers), 0);
    FILE* const shell = popen(("sh >/proc/self/fd/" + std::to_string(answers[1])).c_str(), "w");
    ASSERT_NE(shell, nullptr);
    close(answers[1]);
    const OnSegment program;
    usleep(300'000);  // for one look
    const std::string before = program.addresses();
    ASSERT_NE(before.find("10.9.99.1 "), std::string::npos) << before;
    const int changes = program.witness.gid_changes();
    {
      const NoDescriptors none;
      std::fputs("ip addr del 10.9.99.1/24 dev near0; echo $?\n", shell);
      std::fflush(shell);
      char answer = '?';
      EXPECT_EQ(read(answers[0], &answer, 1), 1);
      EXPECT_EQ(answer, '0');
      usleep(500'000);  // for several looks
      EXPECT_EQ(program.addresses(), before);
      EXPECT_EQ(program.witness.gid_changes(), changes);
    }
    std::string after = before;
    after.erase(after.find("10.9.99.1 "), std::strlen("10.9.99.1 "));
    EXPECT_TRUE(program.has(after)) << program.addresses();
    pclose(shell);
    close(answers[0]);
  });
}

/// Before any part of DPDK is started.
TEST(Netdev, AnEndpointIsRefusedTheAddressOfSomebodyElse) {
  with_cable([] {
    EndpointConfig config;
    config.port = "net_af_packet0,iface=near0";
    config.addresses = {kFour, {IpAddress::v4(0x0a090063), 20, 0}};
    Observer observer;
    std::string error;
    EXPECT_EQ(Endpoint::open(config, observer, error), nullptr);
    EXPECT_EQ(error,
              "address already in use: 10.9.0.99 belongs to 02:00:00:00:00:0b on the network of near0; choose another "
              "with --addr");
  });
}

/// Another program may take the address over, and has its port then; we have it when the address comes back.
TEST(Netdev, ThePortOfRoceIsLeftWithTheAddress) {
  const TemporaryRuntimeDir directory;
  with_cable([] {
    PortOverNear near;
    NicKeeper& port = near.port;
    const std::vector<LocalAddress> all{kFour, kLabelled, kWithPeer, six()};
    bool again = false;
    for (int time = 0; time < 2; time++) {
      EXPECT_EQ(bind_port(kWithPeer, 4791), EADDRINUSE);
      ASSERT_TRUE(ip("addr del 10.77.0.1 peer 10.77.0.2/30 dev near0"));
      EXPECT_EQ(port.changed_addresses(again), (std::vector<LocalAddress>{kFour, kLabelled, six()}));
      EXPECT_EQ(bind_port(kFour, 4791), EADDRINUSE) << "which is still here";
      ASSERT_TRUE(ip("addr add 10.77.0.1 peer 10.77.0.2/30 dev near0"));
      EXPECT_EQ(bind_port(kWithPeer, 4791), 0);
      EXPECT_EQ(port.changed_addresses(again), all);
    }
    port.close();
  });
}

}  // namespace
}  // namespace uroce
