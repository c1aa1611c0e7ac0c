// What the kernel knows about a network interface, and what must be arranged with the kernel when uroce shares one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "uroce/address.h"

namespace uroce {

struct Netdev {
  std::string name;
  int index = 0;
  MacAddress mac;
  uint32_t mtu = 0;
  bool up = false;
  bool carrier = false;
  uint64_t speed_mbps = 0;              // 0: unknown
  std::vector<LocalAddress> addresses;  // without the link-local address that the engine makes from `mac`
};

// Each returns nothing when errno says why the kernel could not be asked, for want of a descriptor for example.

/// Nothing also when there is none of that name; ENODEV then.
std::optional<Netdev> read_netdev(const std::string& name);
/// The names of all interfaces except loopback.
std::optional<std::vector<std::string>> list_netdevs();
/// False also when there is none of that name.
std::optional<bool> netdev_carrier(const std::string& name);

/// As the kernel has it now; 0: unknown.
uint64_t netdev_speed_mbps(const std::string& name);

/// Holds UDP port 4791 of the host's own addresses, so that the kernel does not answer the peers' packets with "port
/// unreachable". Nothing is ever read: a filter drops everything at the socket.
class RocePortHold {
 public:
  RocePortHold() = default;
  ~RocePortHold();
  RocePortHold(const RocePortHold&) = delete;
  RocePortHold& operator=(const RocePortHold&) = delete;
  /// Returns false, with one line in `error` and errno, when there is no descriptor for it, or the port is taken
  /// (EADDRINUSE), which means that another RoCE stack uses this address.
  bool take(const LocalAddress& address, const Netdev& netdev, std::string& error);
  void release(const LocalAddress& address);

 private:
  std::vector<std::pair<LocalAddress, int>> sockets_;
};

/// Asks on the network (with ARP probes, for about 0.3 s) whether another host has one of the untagged IPv4
/// `addresses`, and returns the address and that host's MAC. Needs CAP_NET_RAW; without it, or on any other failure,
/// nothing is found.
std::optional<std::pair<IpAddress, MacAddress>> find_address_conflict(const Netdev& netdev,
                                                                      const std::vector<LocalAddress>& addresses);

}  // namespace uroce
