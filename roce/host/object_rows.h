// What a process tells of its objects over telemetry, for RDMA netlink: "/uroce/objects,MAC,KIND,SKIP" is answered with
// an array of numbers, first how many objects of that kind the process has, then rows, of which SKIP are left out in
// front and as many follow as fit; with null when a thread of it stays in the engine, so that they cannot be read. MAC:
// of the device, as EndpointIdentity::guid_mac has it, so that each device has its own objects. Keys of memory are not
// among it: whoever has one can use the memory.
//
// Numbers of queue pairs are the QPNs; all others are below 2^32 and unique among the programs of the device.
//
// "/uroce/device_counters,MAC" is answered with a dictionary of what it has counted there, by the names of `Counters`;
// always, since counters can be read from outside of the engine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "uroce/address.h"

namespace uroce {

enum class ObjectKind : uint8_t { kPd, kCq, kQp, kCmId, kMr, kContext, kSrq };
inline constexpr uint8_t kObjectKinds = 7;
inline constexpr const char* kObjectsCommand = "/uroce/objects";
inline constexpr const char* kDeviceCountersCommand = "/uroce/device_counters";

struct ContextRow {
  static constexpr ObjectKind kKind = ObjectKind::kContext;
  uint64_t number;
};
struct PdRow {
  static constexpr ObjectKind kKind = ObjectKind::kPd;
  uint64_t number, context, users;
};
struct CqRow {
  static constexpr ObjectKind kKind = ObjectKind::kCq;
  uint64_t number, context, users, capacity;
};
struct QpRow {
  static constexpr ObjectKind kKind = ObjectKind::kQp;
  uint64_t number, pd, type, state, peer, rq_psn, sq_psn, srq;  // pd, srq: 0 when it has none
};
struct SrqRow {
  static constexpr ObjectKind kKind = ObjectKind::kSrq;
  uint64_t number, pd, type, cq;  // type as in verbs; cq: 0 when it has none
};
struct MrRow {
  static constexpr ObjectKind kKind = ObjectKind::kMr;
  uint64_t number, pd, length;
};
/// An address and a port; family as in cm::SocketAddress, words as they lie in memory.
struct AddressRow {
  uint64_t family, high, low, port, scope;
};
struct CmIdRow {
  static constexpr ObjectKind kKind = ObjectKind::kCmId;
  uint64_t number, port_space, state, qpn, type;
  AddressRow local, remote;
};

/// DPDK's telemetry has room for so many numbers.
inline constexpr size_t kObjectNumbersMax = 512;
template <typename Row>
inline constexpr size_t kRowWords = sizeof(Row) / sizeof(uint64_t);
template <typename Row>
inline constexpr size_t kRowsAtOnce = (kObjectNumbersMax - 1) / kRowWords<Row>;

/// A MAC as the number in the command.
constexpr uint64_t number_of(const MacAddress& mac) {
  uint64_t number = 0;
  for (const uint8_t byte : mac.bytes) number = number << 8 | byte;
  return number;
}

}  // namespace uroce
