// Decides from a configuration what will be opened, and checks it, before EAL is started.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "host/endpoint_config.h"
#include "host/endpoint_identity.h"
#include "host/netdev.h"
#include "host/port_options.h"
#include "host/port_spec.h"
#include "host/wire_end.h"

namespace uroce {

struct PortPlan {
  PortSpec spec;
  EndpointIdentity identity;
  std::string name;            // for display: "shmlan", "switch:lab, port 0", "net_af_packet0"
  std::string devargs;         // for rte_dev_probe
  std::optional<WireEnd> end;  // of the card model's cable, or a port of a switch
  std::optional<Netdev> netdev;
  bool of_machine = false;       // the port has the addresses of all the machine's interfaces, not those of `netdev`
  std::string segment_dir;       // of a segment: where its members meet,
  std::string host;              // and which of its hosts this program belongs to
  bool has_uplink = false;       // that host has a way out of the machine, or had one a moment ago
  uint32_t qps_max = 0;          // queue pairs that its uplink lets a program have; 0: any number
  uint32_t lanes_max = 0;        // other programs that it lets a program meet; 0: any number
  bool direct_copy = false;      // on a segment: READs and WRITEs need no frames with programs that want that, too
  uint32_t max_frame_bytes = 0;  // the engine's frames, at most
  uint32_t mtu_now = 0;          // IP MTU of the interface or uplink below, as last seen; 0: no less than they need
  PortOptions options;           // except the port's number
};

/// A program that opens a port takes an end of the wire; one that only lists the device looks at the end that it would
/// get.
enum class WireEndUse : uint8_t { kTake, kLook };

/// Returns false, with one line in `error` when the configuration cannot work on this machine.
bool plan_port(const EndpointConfig& config, WireEndUse use, PortPlan& plan, std::string& error);

/// Ethernet header and VLAN tag: what a frame has beyond the IP MTU.
inline constexpr uint32_t kLinkHeaderBytes = 18;
/// The IP MTU that carries RoCE MTU 4096 with every header, and a little more.
inline constexpr uint32_t kFullMtu = 4224 - kLinkHeaderBytes;

/// The speed of a segment in Mbit/s. Shared memory has none, and programs (UCX, MPI) decide by it what is worth while:
/// this is what fast machines come near to.
inline constexpr uint32_t kSegmentMbps = 100'000;

/// Pauses are counted in bit times, which shared memory does not have; this speed is assumed for it. Both of its ends
/// are processes that may have to wait for a few time slices, so a pause, which is repeated after half of it, has to be
/// longer than that: with this speed it lasts up to 34 ms.
inline constexpr uint64_t kWirePauseSpeed = 1'000'000'000;
/// The speed for pauses in bits per second. `link_speed` is what the port reports, or 0 when it does not know.
uint64_t pause_speed(const PortPlan& plan, uint64_t link_speed);

/// Returns false, with one line in `error`, when the interface's MTU is below kMtuMin.
bool carries_roce(const Netdev& netdev, std::string& error);

/// How many queue pairs a program may have: what it asks for, or else `otherwise`, and no more than its uplink lets it.
uint32_t queue_pairs_of(const EndpointConfig& config, const PortPlan& plan, uint32_t otherwise);

/// Sets the frame sizes that follow from an IP MTU.
void use_mtu(PortPlan& plan, uint32_t mtu);

}  // namespace uroce
