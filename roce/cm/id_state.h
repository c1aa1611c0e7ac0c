// What connection management keeps of an Id.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cm/connection.h"
#include "cm/rdma_cm.h"
#include "cm/services.h"
#include "cm/values.h"

namespace uroce::cm {

struct JoinedGroup {
  IpAddress group;
  uint8_t sgid_index = 0;
  bool send_only = false;
  void* multicast = nullptr;
};

/// What the program has set.
struct IdOptions {
  bool reuse_addr = false;
  bool af_only = false;
  std::optional<uint8_t> tos;
  std::optional<uint8_t> ack_timeout;
};

/// While an address is being resolved.
struct Resolution {
  Instant deadline = Instant::never();
  Instant next_try = Instant::never();
  uint64_t serial = 0;  // the one that began earlier goes first
  Duration interval;
};

struct IdState {
  enum class Phase : uint8_t {
    kIdle,
    kBound,
    kAddrQuery,
    kAddrResolved,
    kRouteResolved,
    kConnect,
    kDisconnect,
    kListen
  };

  PortSpace port_space{};
  QpType qp_type{};
  void* user = nullptr;
  Phase phase = Phase::kIdle;
  SocketAddress local;
  SocketAddress remote;
  std::optional<ResolvedRoute> way;
  IdOptions options;
  Resolution resolution;
  std::optional<uint64_t> port_held;  // the service ID of the port it is bound to
  uint64_t serial = 0;                // serial number of a listener
  uint32_t number = 0;                // names the id among those of its manager, for lists
  Connection* connection = nullptr;
  Psn own_psn;
  uint32_t qkey = kUdpQkey;
  std::vector<JoinedGroup> groups;
};

}  // namespace uroce::cm
