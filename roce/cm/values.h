// The values that connection management is called with and answers with. Names and numbers are those of librdmacm and
// of the kernel's rdma_user_cm.h, where these have one.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "uroce/address.h"
#include "uroce/psn.h"
#include "uroce/qp_attributes.h"
#include "uroce/time.h"
#include "uroce/types.h"

namespace uroce::cm {

/// rdma_port_space.
enum class PortSpace : uint16_t { kIpoib = 0x0002, kTcp = 0x0106, kUdp = 0x0111, kIb = 0x013f };

/// An address with a port, or (of port space IB) with a service ID under a mask.
struct SocketAddress {
  enum class Family : uint8_t { kNone, kV4, kV6, kIb };
  Family family = Family::kNone;
  IpAddress ip{};                // all zero (v6) or ::ffff:0.0.0.0 (v4): any
  uint16_t port = 0;             // host order; of families kV4 and kV6
  uint32_t flow_info = 0;        // of kV6, as in sockaddr_in6, network order
  uint32_t scope_id = 0;         // of kV6
  uint64_t service_id = 0;       // of kIb: sib_sid, host order
  uint64_t service_id_mask = 0;  // of kIb: sib_sid_mask, host order
  uint16_t pkey = 0;             // of kIb

  bool is_any() const {
    return family == Family::kV4 ? ip == IpAddress::v4(0) : ip.is_zero() || family == Family::kNone;
  }
  bool operator==(const SocketAddress&) const = default;
};

/// rdma_cm_event_type.
enum class EventType : uint8_t {
  kAddrResolved,
  kAddrError,
  kRouteResolved,
  kRouteError,
  kConnectRequest,
  kConnectResponse,
  kConnectError,
  kUnreachable,
  kRejected,
  kEstablished,
  kDisconnected,
  kDeviceRemoval,
  kMulticastJoin,
  kMulticastError,
  kAddrChange,
  kTimewaitExit,
};

/// Private data, as a value: at most 256 bytes.
struct PrivateData {
  std::array<uint8_t, 256> bytes{};
  uint16_t length = 0;

  PrivateData() = default;
  explicit PrivateData(std::span<const uint8_t> data) : length(static_cast<uint16_t>(data.size())) {
    if (length > bytes.size()) length = static_cast<uint16_t>(bytes.size());
    if (length != 0) std::memcpy(bytes.data(), data.data(), length);
  }
  std::span<const uint8_t> view() const { return {bytes.data(), length}; }
};

/// rdma_conn_param, and the fields beside it in the kernel's commands.
struct ConnParam {
  PrivateData private_data{};
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t flow_control = 0;
  uint8_t retry_count = 0;  // of connect and events
  uint8_t rnr_retry_count = 0;
  bool srq = false;
  uint32_t qpn = 0;   // the program's queue pair
  uint32_t qkey = 0;  // of datagram services (SIDR); 0: the default
};

struct Ece {
  uint32_t vendor_id = 0;
  uint32_t attr_mod = 0;
};

/// Where datagrams for a remote service, or for a multicast group, go (rdma_ud_param).
struct UdParam {
  PrivateData private_data{};
  AddressVector av{};
  uint32_t qpn = 0;
  uint32_t qkey = 0;
};

/// The default Q_Key of RDMA_PS_UDP and RDMA_PS_IPOIB without a group's own: RDMA_UDP_QKEY.
inline constexpr uint32_t kUdpQkey = 0x01234567;

class Id;

/// rdma_cm_event. `connection` of connection events (RC, UC); `datagram` of SIDR and multicast events.
struct Event {
  EventType type{};
  Id* id = nullptr;        // kConnectRequest: the new one
  Id* listener = nullptr;  // kConnectRequest: the listener; otherwise nullptr
  int status = 0;          // 0; a negative errno; of kRejected the reason (IBTA); of SIDR its status
  bool is_datagram = false;
  ConnParam connection;
  UdParam datagram;
  Ece ece;
  void* multicast = nullptr;  // kMulticast*: the context given to `join_multicast`
};

/// The attributes of a queue pair for a state (`init_qp_attr`), with the mask that verbs wants (ibv_qp_attr_mask).
struct QpSettings {
  QpAttributes attributes;
  uint32_t mask = 0;
};

/// How `notify` is called (ibv_event_type): IBV_EVENT_COMM_EST.
inline constexpr uint32_t kEventCommEst = 4;

}  // namespace uroce::cm
