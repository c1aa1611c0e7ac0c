#include "ports.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include <rte_dev.h>
#include <rte_ethdev.h>

#include "bridge_port.h"
#include "dpdk/existing_port.h"
#include "dpdk/log.h"
#include "dpdk/packet_pool.h"
#include "host/port_driver.h"
#include "host/segment_plan.h"
#include "segment/directory.h"

namespace uroce::netswitch {
namespace {

// Buffers that a port may hold beside the queues: a burst received, one to be sent, and the rings of a real device.
constexpr unsigned kMbufsPerPort = 128;
constexpr unsigned kMbufsPerDmaPort = 1024;
constexpr uint32_t kFrameBytes = 4352;  // room for the largest
constexpr unsigned kMbufsOfXdp = 8191;  // its driver's rings are long, whatever size is requested

/// Plans a port of shared memory, where a program is plugged in.
PlannedPort plan_own(const SwitchSign& sign, unsigned number) {
  PlannedPort port;
  PortPlan& plan = port.plan;
  plan.spec.kind = PortKind::kSwitch;
  plan.spec.driver = "net_shmlan";
  plan.name = "program " + std::to_string(number);
  plan.segment_dir = sign.port_place(number);
  use_mtu(plan, kFullMtu);
  return port;
}

/// A switch belongs to no host of the segment, so of a plan it needs the directory only.
bool plan_segment_port(const PortSpec& spec, PortPlan& plan, std::string& error) {
  plan.spec = spec;
  plan.spec.device = plan.name = spec.wire.empty() ? "shmlan" : "shmlan:" + spec.wire;
  plan.segment_dir = find_segment_directory(spec.wire, "", error);
  use_mtu(plan, kFullMtu);
  return !plan.segment_dir.empty();
}

bool plan_named_port(const std::string& text, PortPlan& plan, std::string& error) {
  const auto spec = parse_port_spec(text, error);
  if (!spec) return false;
  if (spec->kind == PortKind::kSegment) return plan_segment_port(*spec, plan, error);
  EndpointConfig config;
  config.port = text;
  return plan_port(config, WireEndUse::kTake, plan, error);
}

std::string device_name(const PlannedPort& port) {
  // A PCI address is the device's name as it is.
  return port.plan.devargs.substr(0, port.plan.devargs.find(','));
}

bool probe(PlannedPort& port, std::string& error) {
  const QuietDpdk quiet;
  PortPlan& plan = port.plan;
  const std::string name = device_name(port);
  const auto found = [&] { return rte_eth_dev_get_port_by_name(name.c_str(), &plan.options.port_id) == 0; };
  if (found() || (rte_dev_probe(plan.devargs.c_str()) == 0 && found())) return true;
  error = "DPDK cannot open port " + plan.name;
  if (const std::string why = quiet.first_error(); !why.empty()) error += " (" + why + ")";
  if (const PortDriver* driver = driver_of_device(plan.spec.device); driver != nullptr) {
    error += std::string("; are its arguments right? For example ") + driver->example;
  }
  return false;
}

bool add_eal_ports(std::vector<PlannedPort>& ports, std::string& error) {
  for (uint16_t id = 0; id < RTE_MAX_ETHPORTS; id++) {
    if (rte_eth_dev_is_valid_port(id) == 0) continue;
    PlannedPort port;
    port.probed = true;
    EndpointConfig config;
    config.port = std::to_string(id);
    if (!plan_existing_port(config, port.plan, error)) return false;
    ports.push_back(port);
  }
  return true;
}

/// False when a switch that runs already joins two of these segments: a broadcast would go round for ever. Longer ways
/// round, through a third segment or an interface, are not seen.
bool join_what_is_apart(const std::vector<PlannedPort>& ports, std::string& error) {
  std::map<std::string, std::string> seen;  // each switch, and a segment that it is on
  for (const PlannedPort& port : ports) {
    segment::Directory directory;
    std::string ignored;  // there is an error where no member has been yet
    if (port.plan.segment_dir.empty() || !directory.open(port.plan.segment_dir, ignored)) continue;
    directory.scan();
    for (const auto& [id, card] : directory.members()) {
      if (card.role != segment::Role::kBridge) continue;
      const auto [first, is_new] = seen.emplace(card.host, port.plan.name);
      if (is_new) continue;
      error = "process " + std::to_string(card.pid) + " (" + card.program + ") joins " + first->second + " and " +
              port.plan.name + " already: by a second way, a frame would go round for ever";
      return false;
    }
  }
  return true;
}

}  // namespace

bool plan_named_ports(const Options& options, std::vector<PlannedPort>& ports, std::string& error) {
  std::set<std::string> devices;
  for (const std::string& spec : options.specs) {
    PlannedPort port;
    PortPlan& plan = port.plan;
    if (!plan_named_port(spec, plan, error)) return false;
    if (!devices.insert(plan.spec.device).second) {
      error = "port '" + spec + "': ";
      error += plan.segment_dir.empty() ? "two ports are called " + plan.spec.device + ", number them"
                                        : "twice on the same segment, a frame would go round for ever";
      return false;
    }
    ports.push_back(port);
  }
  return join_what_is_apart(ports, error);
}

bool probe_ports(const Options& options, const SwitchSign& sign, std::vector<PlannedPort>& ports, std::string& error) {
  std::vector<PlannedPort> all;
  std::vector<PlannedPort> eal_ports;
  if (!add_eal_ports(eal_ports, error)) return false;
  for (unsigned i = 0; i < options.ports.value_or(0); i++) all.push_back(plan_own(sign, i));
  all.insert(all.end(), ports.begin(), ports.end());
  for (PlannedPort& port : all) {
    if (!port.needs_device()) continue;
    if (!probe(port, error)) return false;
    port.probed = true;
  }
  // A device that EAL probed for a port named by --port (a PCI device) must not be listed twice.
  for (const PlannedPort& port : eal_ports) {
    const bool named = std::any_of(all.begin(), all.end(), [&](const PlannedPort& other) {
      return other.probed && other.plan.options.port_id == port.plan.options.port_id;
    });
    if (!named) all.push_back(port);
  }
  ports = all;
  return true;
}

namespace {

/// net_af_xdp receives into pages that it shares with the kernel. Buffers of the size of the others do not fit a page.
bool has_own_pool(const PlannedPort& port) {
  return port_driver(port.plan.spec.driver).buffers == DriverBuffers::kShared;
}

PacketPoolShape shape_of_own(const Options& options, const PlannedPort& port, size_t number) {
  PacketPoolShape shape;
  shape.name = "uroce-switch" + std::to_string(number);
  shape.mbufs = kMbufsOfXdp + 2 * options.frames;  // all frames that are queued or delayed may be from this pool
  shape.frame_bytes = port.plan.options.frame_bytes;
  return shape;
}

PacketPoolShape shape_of_shared(const Options& options, const std::vector<PlannedPort>& ports) {
  PacketPoolShape shape;
  shape.name = "uroce-switch";
  shape.mbufs = 2 * options.frames;
  shape.frame_bytes = kFrameBytes;
  for (const PlannedPort& port : ports) {
    const bool dma = port.probed ? port_uses_dma(port.plan.options.port_id) : port.plan.spec.kind == PortKind::kPci;
    shape.dma = shape.dma || dma;
    shape.mbufs += dma ? kMbufsPerDmaPort : kMbufsPerPort;
    if (!has_own_pool(port)) shape.frame_bytes = std::max(shape.frame_bytes, port.plan.options.frame_bytes);
  }
  return shape;
}

rte_mempool* make_pool(const PacketPoolShape& shape, std::string& error) {
  rte_mempool* pool = make_packet_pool(shape, error);
  if (pool == nullptr)
    error = "not enough memory for " + std::to_string(shape.mbufs) + " frames: give EAL more (-m), or say --frames";
  return pool;
}

}  // namespace

std::unique_ptr<SwitchPort> start_port(const PlannedPort& planned, rte_mempool* pool, std::string& error) {
  if (!planned.needs_device()) {
    const auto of = planned.plan.spec.kind == PortKind::kSwitch ? BridgePort::Of::kOwn : BridgePort::Of::kAll;
    return BridgePort::start(planned.plan.segment_dir, of, planned.plan.name, pool, error);
  }
  DpdkPortOptions options{planned.plan.options, pool};
  options.promiscuous = !options.wire;
  auto port = DpdkPort::start(options, error);
  return port != nullptr ? std::make_unique<EthdevPort>(std::move(port)) : nullptr;
}

uint32_t ring_bytes(const PlannedPort& port) {
  const PortDriver& driver = port_driver(port.plan.spec.driver);
  uint32_t frames = driver.ring;
  if (const auto count = port.plan.spec.arg("framecnt"); count && driver.buffers == DriverBuffers::kFrames) {
    frames = static_cast<uint32_t>(std::clamp(std::atoi(count->c_str()), 1, 4096));
  }
  return frames * port.plan.max_frame_bytes;
}

uint64_t pool_bytes(const Options& options, const std::vector<PlannedPort>& named) {
  std::vector<PlannedPort> all(options.ports.value_or(0));
  all.insert(all.end(), named.begin(), named.end());
  uint64_t bytes = packet_pool_bytes(shape_of_shared(options, all));
  for (const PlannedPort& port : named) {
    if (has_own_pool(port)) bytes += packet_pool_bytes(shape_of_own(options, port, 0));
  }
  return bytes;
}

rte_mempool* make_shared_pool(const Options& options, const std::vector<PlannedPort>& ports, std::string& error) {
  return make_pool(shape_of_shared(options, ports), error);
}

rte_mempool* pool_of(const Options& options, const PlannedPort& port, size_t number, rte_mempool* shared,
                     std::string& error) {
  return has_own_pool(port) ? make_pool(shape_of_own(options, port, number), error) : shared;
}

}  // namespace uroce::netswitch
