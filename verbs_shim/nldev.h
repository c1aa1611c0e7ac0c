// The answers of a kernel's RDMA netlink (NETLINK_RDMA, client NLDEV) for the one device, from the bytes of a request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "host_objects.h"

namespace uroce::verbs {

/// What is told about the device and its port.
struct NldevFacts {
  bool exists = false;
  const char* name = "";
  const char* firmware = "";
  uint64_t cap_flags = 0;
  uint64_t guid = 0;  // in host order
  bool link_up = false;
  uint32_t netdev_index = 0;  // 0: the port belongs to no interface
  std::string netdev;
  HostObjects* objects = nullptr;  // nullptr: nobody has any, and nothing was counted
};

/// Takes one datagram; false when the receiver has no room for more.
using NldevReply = std::function<bool(const std::string&)>;

/// Answers every message in `bytes` bytes at `request`, which are whatever a program sent.
void answer_nldev(const char* request, size_t bytes, uint32_t port, const NldevFacts& facts, const NldevReply& reply);

}  // namespace uroce::verbs
