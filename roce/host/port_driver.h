// DPDK's drivers, as far as one is not like the others: a row each, which is read wherever a port is planned or opened.
// A driver without a row is an ordinary card's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace uroce {

/// What a driver does with the interface that its argument `iface` names. Sharing or making one needs CAP_NET_RAW or
/// CAP_NET_ADMIN.
enum class NetdevUse : uint8_t {
  kNone,
  kShares,   // shares one that exists already and has addresses of its own
  kMakes,    // makes one of its own
  kSockets,  // lets the kernel send and receive on one, as any program may; `iface` need not be given
};

/// Where the buffers of packets lie.
enum class DriverBuffers : uint8_t {
  kPool,    // in the pool that the port is given
  kFrames,  // in slots of fixed size, which have to fit into those of the pool
  kShared,  // the kernel writes into the pool itself: the port needs one of its own
};

struct PortDriver {
  const char* name = "";     // the name of a virtual device is this followed by a number
  const char* example = "";  // of a port; "": not one that `--port` names by its driver
  const char* needs = "";    // what to do when it cannot be opened, beside the reason that it gives
  uint32_t mtu_most = 0;     // the largest IP MTU that it carries; 0: as much as there is
  uint32_t ring = 256;       // frames that its receive ring has, unless its arguments say otherwise
  NetdevUse netdev = NetdevUse::kNone;
  DriverBuffers buffers = DriverBuffers::kPool;
  bool names_netdev = false;  // its argument `iface` must be given
  bool is_card = false;       // the model of the FPGA card: its cable decides who we are
  bool is_wire = false;       // two processes with shared memory between them; one of them connects
  bool is_memory = false;     // nothing but shared memory: it has no speed of its own
  bool names_vlans = false;   // passes on only the VLANs that it was told, if the device can filter them
  bool hears_others = false;  // at first its ring may hold frames of other interfaces
  bool wakes = false;         // by an interrupt of its queue, whoever sleeps until a frame comes
};

/// The row of the driver with this whole name, such as "net_tap"; that of an ordinary card if it has no row.
const PortDriver& port_driver(std::string_view name);
/// The row of a virtual device's driver, such as "net_tap0"; nullptr: it is no driver that `--port` knows.
const PortDriver* driver_of_device(std::string_view device);
/// The drivers that `--port` knows, separated by commas.
std::string port_driver_names();

}  // namespace uroce
