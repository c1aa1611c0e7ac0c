#include "host/netdev.h"

#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "base/unique_fd.h"
#include "host/descriptors.h"
#include "host/kernel_addresses.h"

namespace uroce {
namespace {

constexpr uint16_t kRocePort = 4791;

template <typename T>
T from_bytes(const void* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

/// False when errno says why not.
bool read_flags(const std::string& name, Netdev& netdev) {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  if (fd.get() < 0) return false;
  if (name.empty() || name.size() >= sizeof request.ifr_name) {
    errno = ENODEV;
    return false;
  }
  std::memcpy(request.ifr_name, name.data(), name.size());
  if (ioctl(fd.get(), SIOCGIFINDEX, &request) != 0) return false;
  netdev.index = request.ifr_ifindex;
  if (ioctl(fd.get(), SIOCGIFMTU, &request) != 0) return false;
  netdev.mtu = static_cast<uint32_t>(request.ifr_mtu);
  if (ioctl(fd.get(), SIOCGIFHWADDR, &request) != 0) return false;
  std::memcpy(netdev.mac.bytes.data(), request.ifr_hwaddr.sa_data, 6);
  if (ioctl(fd.get(), SIOCGIFFLAGS, &request) != 0) return false;
  netdev.up = (request.ifr_flags & IFF_UP) != 0;
  netdev.carrier = (request.ifr_flags & IFF_RUNNING) != 0;
  return true;
}

}  // namespace

uint64_t netdev_speed_mbps(const std::string& name) {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  if (!fd || name.empty() || name.size() >= sizeof request.ifr_name) return 0;
  std::memcpy(request.ifr_name, name.data(), name.size());
  ethtool_cmd settings{};
  settings.cmd = ETHTOOL_GSET;
  request.ifr_data = reinterpret_cast<char*>(&settings);
  if (ioctl(fd.get(), SIOCETHTOOL, &request) != 0) return 0;
  const uint32_t speed = ethtool_cmd_speed(&settings);
  return speed == static_cast<uint32_t>(SPEED_UNKNOWN) || speed == UINT16_MAX ? 0 : speed;
}

std::optional<Netdev> read_netdev(const std::string& name) {
  Netdev netdev;
  netdev.name = name;
  if (!read_flags(name, netdev)) return std::nullopt;
  netdev.speed_mbps = netdev_speed_mbps(name);

  const auto addresses = kernel_addresses(netdev.index);
  if (!addresses) return std::nullopt;
  for (const LocalAddress& address : *addresses) {
    if (!(address.ip == link_local_of(netdev.mac))) netdev.addresses.push_back(address);
  }
  // IPv4 addresses come first, because programs take the first GID with an IPv4 address.
  std::stable_sort(netdev.addresses.begin(), netdev.addresses.end(),
                   [](const LocalAddress& a, const LocalAddress& b) { return a.ip.is_v4() && !b.ip.is_v4(); });
  return netdev;
}

std::optional<std::vector<std::string>> list_netdevs() {
  const std::unique_ptr<struct if_nameindex, void (*)(struct if_nameindex*)> list(if_nameindex(), if_freenameindex);
  std::vector<std::string> names;
  if (!list) {
    if (errno == ENOBUFS) errno = ENOMEM;  // as libc says it here
    // Where netlink is denied for good, as in many a service's sandbox, none is known.
    return could_not_ask(errno) ? std::nullopt : std::optional(names);
  }
  for (const struct if_nameindex* entry = list.get(); entry->if_index != 0; entry++) {
    if (std::strcmp(entry->if_name, "lo") != 0) names.emplace_back(entry->if_name);
  }
  return names;
}

std::optional<bool> netdev_carrier(const std::string& name) {
  Netdev netdev;
  if (read_flags(name, netdev)) return netdev.carrier;
  return could_not_ask(errno) ? std::nullopt : std::optional(false);
}

RocePortHold::~RocePortHold() {
  for (const auto& [address, fd] : sockets_) close(fd);
}

void RocePortHold::release(const LocalAddress& address) {
  std::erase_if(sockets_, [&](const auto& held) { return held.first == address && close(held.second) == 0; });
}

bool RocePortHold::take(const LocalAddress& address, const Netdev& netdev, std::string& error) {
  const bool v4 = address.ip.is_v4();
  UniqueFd fd(socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0 && could_not_ask(errno)) {
    const int reason = errno;
    error = "cannot keep the kernel from answering for " + to_string(address.ip) + ": " + std::strerror(reason);
    errno = reason;
    return false;
  }
  if (fd.get() < 0) return true;  // a kernel without this address family sends no answers for it
  sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &drop_all};
  setsockopt(fd.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);

  sockaddr_storage storage{};
  socklen_t bytes;
  if (v4) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(kRocePort);
    in.sin_addr.s_addr = htonl(address.ip.v4_host_order());
    std::memcpy(&storage, &in, bytes = sizeof in);
  } else {
    sockaddr_in6 in6{};
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(kRocePort);
    std::memcpy(&in6.sin6_addr, address.ip.bytes.data(), 16);
    if (address.ip.is_link_local_v6()) in6.sin6_scope_id = static_cast<uint32_t>(netdev.index);
    const int only = 1;
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    std::memcpy(&storage, &in6, bytes = sizeof in6);
  }
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&storage), bytes) == 0) {
    sockets_.emplace_back(address, fd.release());
    return true;
  }
  if (errno != EADDRINUSE) return true;  // not an address of this host: then the kernel does not answer for it either
  error = "address already in use: another RoCE stack on this machine has UDP port 4791 of " + to_string(address.ip) +
          " (" + netdev.name + "); end it, or give this one an address of its own with --addr";
  errno = EADDRINUSE;
  return false;
}

namespace {

constexpr unsigned kArpFrameBytes = 42;

void fill_arp_probe(uint8_t (&frame)[kArpFrameBytes], const MacAddress& mac, const IpAddress& target) {
  static constexpr uint8_t kFixed[] = {0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1};
  std::memset(frame, 0, sizeof frame);
  std::memset(frame, 0xff, 6);
  std::memcpy(frame + 6, mac.bytes.data(), 6);
  std::memcpy(frame + 12, kFixed, sizeof kFixed);
  std::memcpy(frame + 22, mac.bytes.data(), 6);  // the sender's IP stays 0.0.0.0, so no host learns from a probe
  std::memcpy(frame + 38, target.bytes.data() + 12, 4);
}

}  // namespace

std::optional<std::pair<IpAddress, MacAddress>> find_address_conflict(const Netdev& netdev,
                                                                      const std::vector<LocalAddress>& addresses) {
  std::vector<IpAddress> targets;
  for (const LocalAddress& a : addresses) {
    if (a.ip.is_v4() && a.vlan_id == 0) targets.push_back(a.ip);
  }
  // Without a protocol the socket receives nothing until it is bound; with one it would receive from every interface
  // until then.
  const UniqueFd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (targets.empty() || fd.get() < 0) return std::nullopt;
  sockaddr_ll link{};
  link.sll_family = AF_PACKET;
  link.sll_protocol = htons(ETH_P_ARP);
  link.sll_ifindex = netdev.index;
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&link), sizeof link) != 0) return std::nullopt;

  using Clock = std::chrono::steady_clock;
  for (int attempt = 0; attempt < 2; attempt++) {
    for (const IpAddress& target : targets) {
      uint8_t frame[kArpFrameBytes];
      fill_arp_probe(frame, netdev.mac, target);
      if (send(fd.get(), frame, sizeof frame, 0) < 0) return std::nullopt;
    }
    const auto deadline = Clock::now() + std::chrono::milliseconds(150);
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      pollfd poller{fd.get(), POLLIN, 0};
      if (left <= 0 || poll(&poller, 1, static_cast<int>(left)) <= 0) break;
      uint8_t frame[128];
      const ssize_t bytes = recv(fd.get(), frame, sizeof frame, 0);
      if (bytes < static_cast<ssize_t>(kArpFrameBytes)) continue;
      MacAddress sender;
      std::memcpy(sender.bytes.data(), frame + 22, 6);
      const auto ip = IpAddress::v4(ntohl(from_bytes<uint32_t>(frame + 28)));
      if (sender == netdev.mac) continue;
      if (std::find(targets.begin(), targets.end(), ip) != targets.end()) return std::pair(ip, sender);
    }
  }
  return std::nullopt;
}

}  // namespace uroce
