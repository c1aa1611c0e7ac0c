#include "pmd/hw/control.h"

#include "pmd/hw/queue.h"
#include "pmd/hw/registers.h"

namespace mqnic {

void quiesce(Bus& bus, const InterfaceDescription& interface) {
  for (const PortDescription& port : interface.ports) enable_port_rx(bus, port, false);
  for (const SchedulerDescription& scheduler : interface.schedulers) {
    enable_scheduler(bus, scheduler, false);
    for (uint32_t q = 0; q < interface.tx_queues.count; ++q) enable_channel(bus, scheduler, q, false);
  }
  for (uint32_t q = 0; q < interface.tx_queues.count; ++q) enable_ring(bus, interface.tx_queues.at(q), false);
  for (uint32_t q = 0; q < interface.rx_queues.count; ++q) enable_ring(bus, interface.rx_queues.at(q), false);
  for (uint32_t q = 0; q < interface.completion_queues.count; ++q) {
    disable_completion_queue(bus, interface.completion_queues.at(q));
  }
  for (uint32_t q = 0; q < interface.event_queues.count; ++q) {
    disable_completion_queue(bus, interface.event_queues.at(q));
  }
  for (const PortDescription& port : interface.ports) {
    const PauseSetup pauses = pause_setup(bus, port);
    if (pauses.obey) set_pause(bus, port, {pauses.send, false, pauses.watermark_bytes});
    enable_port_tx(bus, port, true);
  }
}

void close_ports(Bus& bus, const InterfaceDescription& interface) {
  for (const PortDescription& port : interface.ports) enable_port_tx(bus, port, false);
}

void set_tx_frame_bytes(Bus& bus, const InterfaceDescription& interface, uint32_t bytes) {
  bus.write32(interface.control + interface_control::kTxMtu, bytes);
}

void set_rx_frame_bytes(Bus& bus, const InterfaceDescription& interface, uint32_t bytes) {
  bus.write32(interface.control + interface_control::kRxMtu, bytes);
}

void enable_port_tx(Bus& bus, const PortDescription& port, bool on) {
  bus.write32(port.control + port_control::kTxControl, on ? port_control::kEnable : 0);
}

void enable_port_rx(Bus& bus, const PortDescription& port, bool on) {
  bus.write32(port.control + port_control::kRxControl, on ? port_control::kEnable : 0);
}

void enable_scheduler(Bus& bus, const SchedulerDescription& scheduler, bool on) {
  bus.write32(scheduler.control + scheduler_round_robin::kControl, on ? scheduler_round_robin::kEnable : 0);
}

void enable_channel(Bus& bus, const SchedulerDescription& scheduler, uint32_t tx_queue, bool on) {
  constexpr uint32_t kOn = scheduler_round_robin::kChannelEnable | scheduler_round_robin::kChannelGlobalEnable;
  bus.write32(scheduler.channels.at(tx_queue), on ? kOn : 0);
}

LinkState link_state(Bus& bus, const PortDescription& port) {
  const uint32_t tx = bus.read32(port.control + port_control::kTxControl);
  const uint32_t rx = bus.read32(port.control + port_control::kRxControl);
  if (tx == kAllOnes || rx == kAllOnes) return LinkState::kGone;
  const bool up = (tx & rx & port_control::kLinkUp) != 0 && ((tx | rx) & port_control::kInReset) == 0;
  return up ? LinkState::kUp : LinkState::kDown;
}

void set_queue_table(Bus& bus, const PortDescription& port, std::span<const uint16_t> queues) {
  for (uint32_t i = 0; i < queues.size(); ++i) bus.write32(port.queue_table + 4 * i, queues[i]);
}

void enable_rss(Bus& bus, const InterfaceDescription& interface, const PortDescription& port, bool on) {
  bus.write32(port.queue_map + rx_queue_map::kAppMask, 0);
  bus.write32(port.queue_map + rx_queue_map::kRssMask, on ? (1u << interface.log2_queue_table) - 1 : 0);
}

PauseSetup pause_setup(Bus& bus, const PortDescription& port) {
  const uint32_t word = bus.read32(port.control + port_control::kLinkFlowControl);
  return {(word & port_control::kLfcTxEnable) != 0, (word & port_control::kLfcRxEnable) != 0,
          word & port_control::kWatermarkMask};
}

void set_pause(Bus& bus, const PortDescription& port, const PauseSetup& setup) {
  const uint32_t at = port.control + port_control::kLinkFlowControl;
  const uint32_t watermark =
      (setup.watermark_bytes != 0 ? setup.watermark_bytes : bus.read32(at)) & port_control::kWatermarkMask;
  bus.write32(
      at, watermark | (setup.send ? port_control::kLfcTxEnable : 0) | (setup.obey ? port_control::kLfcRxEnable : 0));
}

}  // namespace mqnic
