// From a configuration to what will be opened: decided, and checked, before EAL is started.
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
  std::string name;            // for people: "memif:NAME", "switch:NAME, port 3", "net_af_packet0"
  std::string devargs;         // for rte_dev_probe
  std::string socket;          // where the two ends of a shared memory wire meet
  std::optional<WireEnd> end;  // of a wire, or a port of a switch
  std::optional<Netdev> netdev;
  uint32_t max_frame_bytes = 0;  // for the engine
  PortOptions options;           // but the port's number
};

/// Who opens a port takes an end of the wire; who only lists the device looks at the one that it would get.
enum class WireEndUse : uint8_t { kTake, kLook };

/// False and one clear line in `error` when the configuration cannot work on this machine.
bool plan_port(const EndpointConfig& config, WireEndUse use, PortPlan& plan, std::string& error);

/// Ethernet header and VLAN tag: what a frame has beyond the IP MTU.
inline constexpr uint32_t kLinkHeaderBytes = 18;
/// The IP MTU that carries RoCE MTU 4096 with every header, and a little more.
inline constexpr uint32_t kFullMtu = 4224 - kLinkHeaderBytes;

/// Slots of shared memory in each direction between two processes: what may be under way where no queue sees it.
inline constexpr uint32_t kWireSlots = 256;
/// One frame fits into one slot.
inline constexpr uint32_t kWireSlotBytes = 4352;

/// Shared memory has no bit times to count pauses in. Both ends of it are processes that may have to wait for a time
/// slice, so that a pause, which is repeated at its half, has to be longer than some of these: 34 ms at most.
inline constexpr uint64_t kWirePauseSpeed = 1'000'000'000;
/// In bits per second; `link_speed`: what the port says, 0 when it does not know.
uint64_t pause_speed(const PortPlan& plan, uint64_t link_speed);

/// What net_memif is told, at either end.
std::string memif_devargs(const std::string& device, bool connects, const std::string& socket, const MacAddress& mac);

/// A shared memory wire's device has no name of the user's: the first has number 0, further ones of a process others.
void number_wire_device(PortPlan& plan, unsigned number);

/// Sets the frame sizes that follow from an IP MTU.
void use_mtu(PortPlan& plan, uint32_t mtu);

}  // namespace uroce
