// Ports, schedulers, frame sizes, the RX queue map and pause frames of one interface.
#pragma once

#include <cstdint>
#include <span>

#include "pmd/hw/bus.h"
#include "pmd/hw/description.h"
#include "pmd/hw/failure.h"

namespace mqnic {

/// Stops a card that may have been left running: schedulers, rings, completion and event queues, and what comes in.
/// There is no reset register, and the card may go on for another moment: wait kSettleMs. In that time the packets that
/// it took from TX rings leave, with what their memory contains now, and complete nowhere; so the ports still send, and
/// obey no pause frames.
void quiesce(Bus& bus, const InterfaceDescription& interface);
/// To be called after that wait: nothing leaves any more.
void close_ports(Bus& bus, const InterfaceDescription& interface);
/// How long a card may go on after it was told to stop, in milliseconds.
inline constexpr unsigned kSettleMs = 20;

/// Set the largest frames, with Ethernet header and without FCS. Longer received frames are cut without an indication.
void set_tx_frame_bytes(Bus& bus, const InterfaceDescription& interface, uint32_t bytes);
void set_rx_frame_bytes(Bus& bus, const InterfaceDescription& interface, uint32_t bytes);

void enable_port_tx(Bus& bus, const PortDescription& port, bool on);
void enable_port_rx(Bus& bus, const PortDescription& port, bool on);
void enable_scheduler(Bus& bus, const SchedulerDescription& scheduler, bool on);
/// One TXQ of a scheduler.
void enable_channel(Bus& bus, const SchedulerDescription& scheduler, uint32_t tx_queue, bool on);

enum class LinkState : uint8_t { kDown, kUp, kGone };
LinkState link_state(Bus& bus, const PortDescription& port);

/// Sets the queues of table entries 0, 1 and so on, as many as are given.
void set_queue_table(Bus& bus, const PortDescription& port, std::span<const uint16_t> queues);
/// When on, the hash chooses among the 2^n entries of the table. When off, entry 0 gets everything.
void enable_rss(Bus& bus, const InterfaceDescription& interface, const PortDescription& port, bool on);

struct PauseSetup {
  bool send = false;             // send pause frames when the RX FIFO fills over the watermark
  bool obey = false;             // stop TX when pause frames arrive
  uint32_t watermark_bytes = 0;  // 0: leave the register as it is
};
PauseSetup pause_setup(Bus& bus, const PortDescription& port);
void set_pause(Bus& bus, const PortDescription& port, const PauseSetup& setup);

}  // namespace mqnic
