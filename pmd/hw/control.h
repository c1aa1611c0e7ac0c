// Ports, schedulers, frame sizes, the RX queue map and pause frames of one interface.
#pragma once

#include <cstdint>
#include <span>

#include "pmd/hw/bus.h"
#include "pmd/hw/description.h"
#include "pmd/hw/failure.h"

namespace mqnic {

/// Puts a card that somebody left running to rest: ports, schedulers, rings, completion and event queues off.
/// There is no reset register. The card may work for another moment: wait 20 ms before memory is taken from it.
void quiesce(Bus& bus, const InterfaceDescription& interface);
/// How long a card may go on after it was told to stop.
inline constexpr unsigned kSettleMs = 20;

/// Largest frames, Ethernet header included, FCS not. Longer received frames are cut without a flag.
void set_tx_frame_bytes(Bus& bus, const InterfaceDescription& interface, uint32_t bytes);
void set_rx_frame_bytes(Bus& bus, const InterfaceDescription& interface, uint32_t bytes);

void enable_port_tx(Bus& bus, const PortDescription& port, bool on);
void enable_port_rx(Bus& bus, const PortDescription& port, bool on);
void enable_scheduler(Bus& bus, const SchedulerDescription& scheduler, bool on);
/// One TXQ of a scheduler.
void enable_channel(Bus& bus, const SchedulerDescription& scheduler, uint32_t tx_queue, bool on);

enum class LinkState : uint8_t { kDown, kUp, kGone };
LinkState link_state(Bus& bus, const PortDescription& port);

/// Queues for table entries 0, 1, ...; as many as are given.
void set_queue_table(Bus& bus, const PortDescription& port, std::span<const uint16_t> queues);
/// On: the hash chooses among the 2^n entries of the table. Off: entry 0 takes everything.
void enable_rss(Bus& bus, const InterfaceDescription& interface, const PortDescription& port, bool on);

struct PauseSetup {
  bool send = false;             // pause frames go out when the RX FIFO fills over the watermark
  bool obey = false;             // pause frames that arrive stop TX
  uint32_t watermark_bytes = 0;  // 0: leave it as it is
};
PauseSetup pause_setup(Bus& bus, const PortDescription& port);
void set_pause(Bus& bus, const PortDescription& port, const PauseSetup& setup);

}  // namespace mqnic
