#include "pmd/hw/description.h"

#include <algorithm>
#include <cerrno>

#include "pmd/hw/block_list.h"
#include "pmd/hw/registers.h"

namespace mqnic {

namespace {

constexpr uint32_t kInterfacesMax = 16;
constexpr uint32_t kPortsMax = 16;
constexpr uint32_t kQueuesMax = 65536;

/// True when a range of registers that the card reports lies inside BAR0.
bool inside(const Bus& bus, uint64_t offset, uint64_t count, uint64_t stride) {
  return offset % 4 == 0 && offset + count * stride <= bus.bar_bytes();
}

Failure read_queues(Bus& bus, const BlockList& list, const InterfaceDescription& interface, BlockType type,
                    uint32_t stride_min, QueueArray& out) {
  uint32_t block = 0;
  if (Failure f = list.require(type, version::kQueueManager, block)) return f;
  const uint64_t offset = uint64_t{interface.base} + bus.read32(block + queue_manager::kOffset);
  out.count = bus.read32(block + queue_manager::kCount);
  out.stride = bus.read32(block + queue_manager::kStride);
  if (out.count == 0 || out.count > kQueuesMax || out.stride < stride_min || out.stride % 4 != 0 ||
      !inside(bus, offset, out.count, out.stride)) {
    return failure(-ENODEV, "%s: interface %u: block %s: %u queues of 0x%x bytes at 0x%llx make no sense",
                   bus.name().c_str(), interface.number, block_name(type).c_str(), out.count, out.stride,
                   static_cast<unsigned long long>(offset));
  }
  out.offset = static_cast<uint32_t>(offset);
  return {};
}

Failure read_port(Bus& bus, const BlockList& list, const Block& block, InterfaceDescription& interface) {
  if (Failure f = list.check_version(block, version::kPort)) return f;
  const uint32_t start = bus.read32(block.offset + port::kListOffset);
  const std::string place =
      "interface " + std::to_string(interface.number) + " port " + std::to_string(interface.ports.size());
  BlockList blocks;
  if (Failure f = BlockList::read(bus, interface.base, start, place, blocks)) return f;
  PortDescription port;
  if (Failure f = blocks.require(BlockType::kPortControl, version::kPortControl, port.control)) return f;
  port.features = bus.read32(port.control + port_control::kFeatures);
  interface.ports.push_back(port);
  return {};
}

Failure read_scheduler(Bus& bus, const BlockList& list, const Block& block, InterfaceDescription& interface) {
  if (Failure f = list.check_version(block, version::kScheduler)) return f;
  const uint32_t start = bus.read32(block.offset + scheduler::kListOffset);
  const std::string place =
      "interface " + std::to_string(interface.number) + " scheduler " + std::to_string(interface.schedulers.size());
  BlockList blocks;
  if (Failure f = BlockList::read(bus, interface.base, start, place, blocks)) return f;
  SchedulerDescription scheduler;
  if (Failure f = blocks.require(BlockType::kSchedulerRoundRobin, version::kSchedulerRoundRobin, scheduler.control)) {
    return f;
  }
  const uint64_t offset = uint64_t{interface.base} + bus.read32(scheduler.control + scheduler_round_robin::kOffset);
  scheduler.channels.count = bus.read32(scheduler.control + scheduler_round_robin::kChannelCount);
  scheduler.channels.stride = bus.read32(scheduler.control + scheduler_round_robin::kChannelStride);
  if (scheduler.channels.count < interface.tx_queues.count || scheduler.channels.count > kQueuesMax ||
      scheduler.channels.stride < 4 || scheduler.channels.stride % 4 != 0 ||
      !inside(bus, offset, scheduler.channels.count, scheduler.channels.stride)) {
    return failure(-ENODEV, "%s: %s: %u channels of 0x%x bytes at 0x%llx make no sense with %u TX queues",
                   bus.name().c_str(), place.c_str(), scheduler.channels.count, scheduler.channels.stride,
                   static_cast<unsigned long long>(offset), interface.tx_queues.count);
  }
  scheduler.channels.offset = static_cast<uint32_t>(offset);
  interface.schedulers.push_back(scheduler);
  return {};
}

Failure read_queue_map(Bus& bus, const BlockList& list, InterfaceDescription& interface) {
  uint32_t map = 0;
  if (Failure f = list.require(BlockType::kRxQueueMap, version::kRxQueueMap, map)) return f;
  const uint32_t config = bus.read32(map + rx_queue_map::kConfig);
  const uint32_t ports = config & 0xff;
  interface.log2_queue_table = (config >> 8) & 0xff;
  bool sane = ports >= interface.ports.size() && interface.log2_queue_table <= 16;
  for (size_t p = 0; sane && p < interface.ports.size(); ++p) {
    PortDescription& port = interface.ports[p];
    port.queue_map = map + rx_queue_map::kPorts + static_cast<uint32_t>(p) * rx_queue_map::kPortStride;
    const uint64_t table = uint64_t{interface.base} + bus.read32(port.queue_map + rx_queue_map::kTableOffset);
    sane = inside(bus, table, uint64_t{1} << interface.log2_queue_table, 4);
    port.queue_table = static_cast<uint32_t>(table);
  }
  if (sane) return {};
  return failure(-ENODEV, "%s: interface %u: block %s: %u tables of 2^%u entries make no sense with %zu ports",
                 bus.name().c_str(), interface.number, block_name(BlockType::kRxQueueMap).c_str(), ports,
                 interface.log2_queue_table, interface.ports.size());
}

Failure read_control(Bus& bus, const BlockList& list, InterfaceDescription& interface) {
  if (Failure f = list.require(BlockType::kInterfaceControl, version::kInterfaceControl, interface.control)) return f;
  const uint32_t control = interface.control;
  interface.features = bus.read32(control + interface_control::kFeatures);
  interface.max_tx_frame_bytes = bus.read32(control + interface_control::kMaxTxMtu);
  interface.max_rx_frame_bytes = bus.read32(control + interface_control::kMaxRxMtu);
  interface.tx_fifo_bytes = bus.read32(control + interface_control::kTxFifoBytes);
  interface.rx_fifo_bytes = bus.read32(control + interface_control::kRxFifoBytes);
  // The length in a completion has 16 bits.
  if (interface.max_tx_frame_bytes >= 64 && interface.max_rx_frame_bytes >= 64 &&
      interface.max_tx_frame_bytes <= 65535 && interface.max_rx_frame_bytes <= 65535) {
    return {};
  }
  return failure(-ENODEV, "%s: interface %u: largest frames of %u (TX) and %u (RX) bytes make no sense",
                 bus.name().c_str(), interface.number, interface.max_tx_frame_bytes, interface.max_rx_frame_bytes);
}

Failure read_interface(Bus& bus, uint32_t list_start, InterfaceDescription& interface) {
  BlockList list;
  const std::string place = "interface " + std::to_string(interface.number);
  if (Failure f = BlockList::read(bus, interface.base, list_start, place, list)) return f;
  if (Failure f = read_control(bus, list, interface)) return f;
  const uint32_t ports = bus.read32(interface.control + interface_control::kPortCount);
  const uint32_t schedulers = bus.read32(interface.control + interface_control::kSchedulerCount);
  struct {
    BlockType type;
    uint32_t stride_min;
    QueueArray& out;
  } const managers[] = {
      {BlockType::kEventQueues, queue_manager::kEventStride, interface.event_queues},
      {BlockType::kCompletionQueues, queue_manager::kCompletionStride, interface.completion_queues},
      {BlockType::kTxQueues, queue_manager::kRingStride, interface.tx_queues},
      {BlockType::kRxQueues, queue_manager::kRingStride, interface.rx_queues},
  };
  for (const auto& manager : managers) {
    if (Failure f = read_queues(bus, list, interface, manager.type, manager.stride_min, manager.out)) return f;
  }
  for (const Block& block : list.blocks()) {
    Failure f;
    if (block.type == BlockType::kPort && interface.ports.size() < kPortsMax)
      f = read_port(bus, list, block, interface);
    if (block.type == BlockType::kScheduler) f = read_scheduler(bus, list, block, interface);
    if (f) return f;
  }
  if (ports == 0 || ports != interface.ports.size() || schedulers == 0 || schedulers != interface.schedulers.size()) {
    return failure(-ENODEV, "%s: %s: %u ports and %u schedulers announced, %zu and %zu found", bus.name().c_str(),
                   place.c_str(), ports, schedulers, interface.ports.size(), interface.schedulers.size());
  }
  return read_queue_map(bus, list, interface);
}

void read_firmware(Bus& bus, uint32_t block, CardDescription& out) {
  out.fpga_id = bus.read32(block + firmware_id::kFpgaId);
  out.firmware_id = bus.read32(block + firmware_id::kFirmwareId);
  out.firmware_version = bus.read32(block + firmware_id::kFirmwareVersion);
  out.board_id = bus.read32(block + firmware_id::kBoardId);
  out.board_version = bus.read32(block + firmware_id::kBoardVersion);
  out.build_date = bus.read32(block + firmware_id::kBuildDate);
  out.git_hash = bus.read32(block + firmware_id::kGitHash);
  out.release = bus.read32(block + firmware_id::kReleaseInfo);
}

}  // namespace

Failure describe_card(Bus& bus, CardDescription& out) {
  out = {};
  BlockList list;
  if (Failure f = BlockList::read(bus, 0, 0, "device", list)) return f;
  uint32_t block = 0;
  if (Failure f = list.require(BlockType::kFirmwareId, version::kFirmwareId, block)) return f;
  read_firmware(bus, block, out);
  if (Failure f = list.require(BlockType::kInterfaces, version::kInterfaces, block)) return f;
  const uint32_t offset = bus.read32(block + interfaces::kOffset);
  const uint32_t count = bus.read32(block + interfaces::kCount);
  const uint32_t stride = bus.read32(block + interfaces::kStride);
  const uint32_t list_start = bus.read32(block + interfaces::kCsrOffset);
  if (count == 0 || count > kInterfacesMax || !inside(bus, offset, count, stride)) {
    return failure(-ENODEV, "%s: device: block %s: %u interfaces of 0x%x bytes at 0x%x make no sense",
                   bus.name().c_str(), block_name(BlockType::kInterfaces).c_str(), count, stride, offset);
  }
  for (uint32_t i = 0; i < count; ++i) {
    InterfaceDescription interface;
    interface.number = i;
    interface.base = offset + i * stride;
    if (Failure f = read_interface(bus, list_start, interface)) return f;
    out.interfaces.push_back(std::move(interface));
  }
  if (const Block* clock = list.find(BlockType::kPtp)) {
    if (Failure f = list.check_version(*clock, version::kPtp)) {
      out.notes.push_back(f.message + "; timestamps are off");
    } else {
      out.ptp = clock->offset;
    }
  }
  return {};
}

void read_block_sizes(Bus& bus, CardDescription& description) {
  for (InterfaceDescription& interface : description.interfaces) {
    const uint32_t ring = interface.tx_queues.at(0);
    bus.write32(ring + ring_register::kCommand, command::kProbeBlock);
    interface.log2_block_max = std::min(bus.read32(ring + ring_register::kSizeCqn) >> 28, kLog2BlockMax);
  }
}

}  // namespace mqnic
