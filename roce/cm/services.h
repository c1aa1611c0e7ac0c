// What connection management needs of its environment: a way to send, the host's addresses and neighbours, and the
// numbers that all programs of a host share. Tests and the simulator implement it in memory, an endpoint with its
// engine and its segment.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cm/values.h"
#include "packet/management_datagram.h"
#include "uroce/address.h"
#include "uroce/qp_attributes.h"
#include "uroce/time.h"

namespace uroce::cm {

inline constexpr uint32_t kMadBytes = kManagementBytes;

/// A management datagram that came in for queue pair 1.
struct ReceivedMad {
  IpAddress src_ip;
  IpAddress dst_ip;  // of ours
  uint16_t vlan_id = 0;
  uint32_t src_qpn = 1;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  std::span<const uint8_t, kMadBytes> bytes;
};

/// How to reach an address.
struct ResolvedRoute {
  uint8_t sgid_index = 0;
  LocalAddress source;
  AddressVector av;           // from there to the destination
  uint32_t mtu_bytes = 1024;  // the RoCE path MTU that the port allows
};

class Services {
 public:
  virtual ~Services() = default;

  /// Sends to queue pair 1 of the host at the end of `av`, with a source queue pair number of 1. Never fails: what
  /// cannot be sent is lost as on a wire, and the protocol's retries run.
  virtual void send_mad(const AddressVector& av, std::span<const uint8_t, kMadBytes> mad, Instant now) = 0;

  /// The way to `dst`, from `src` unless that is any. Nothing: there is none (ENETUNREACH, or EADDRNOTAVAIL when `src`
  /// is no address of ours). 127.0.0.0/8 and ::1 lead to the host itself, and the source is its own address then.
  virtual std::optional<ResolvedRoute> find_route(const IpAddress& src, const IpAddress& dst, uint32_t scope_id) = 0;
  /// Whether `ip` is an address of ours (loopback addresses are).
  virtual bool is_own(const IpAddress& ip) = 0;
  enum class Neighbour : uint8_t { kKnown, kAsked };
  /// Whether a neighbour answers for the destination of `way`; asks, or asks again, if that is not known yet.
  virtual Neighbour resolve(const ResolvedRoute& way, Instant now) = 0;

  /// Claims a service ID (port space and port, or an IB service) for this program, machine-wide: no other
  /// program of the host gets it until it is released. Returns an errno on failure; EADDRINUSE: another program
  /// has it.
  virtual int claim_service(uint64_t service_id) = 0;
  virtual void release_service(uint64_t service_id) = 0;
  /// From now on requests for this claimed service (with `mask`: all that agree in its bits) come to this program; or
  /// no longer do. `listen` returns an errno, and has no effect, when peers could not find this program.
  virtual int listen(uint64_t service_id, uint64_t mask) = 0;
  virtual void unlisten(uint64_t service_id, uint64_t mask) = 0;
  /// A communication ID for this program: replies that name it find their way here. Random in the lower bits, so that
  /// an ID is not reused soon. The caller makes sure that it is not in use.
  virtual uint32_t draw_communication_id() = 0;
  virtual uint32_t random() = 0;
  virtual uint64_t node_guid() = 0;  // network meaning: EUI-64 as a number, host order

  /// Multicast: this host wants the group's frames (IGMP, MLD), or no longer does. Counted by the callee.
  virtual void join_group(const IpAddress& group, uint8_t sgid_index, Instant now) = 0;
  virtual void leave_group(const IpAddress& group, uint8_t sgid_index, Instant now) = 0;
};

/// Receives events. Every call comes from within a call to RdmaCm, in its thread: implementations queue, and never call
/// back.
class EventSink {
 public:
  virtual ~EventSink() = default;
  /// False: the event cannot be taken (a listener's backlog is full); for kConnectRequest the new Id is then destroyed,
  /// and the peer is not told, so that it asks again, as with the kernel. For other events the result is ignored.
  virtual bool on_cm_event(const Event& event) = 0;
};

}  // namespace uroce::cm
