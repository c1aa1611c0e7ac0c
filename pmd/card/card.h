// A model of the card: registers in, frames out, and the host's memory read and written as the real card does it,
// its faults included (silent drops, truncation, the zero-length wedge).
//
// No I/O, no clock, no threads: whoever owns it calls `run` with the time. It is not written for speed alone: it is
// what the driver is tested against, and what carries packets where there is no card.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pmd/card/host_memory.h"
#include "pmd/card/wire.h"

namespace mqnic::card {

/// The build of the FPGA. The defaults are like shipped 100G builds, with fewer queues.
struct CardConfig {
  unsigned interfaces = 1;
  unsigned ports_per_interface = 1;
  unsigned tx_queues = 64;  // of an interface; also the scheduler's channels
  unsigned rx_queues = 64;
  unsigned completion_queues = 128;
  unsigned event_queues = 16;
  unsigned interrupts = 64;     // MSI-X vectors
  unsigned log2_block_max = 3;  // descriptors of a packet
  unsigned log2_rss_table = 8;  // entries of the RX queue map; 256 on real builds
  uint32_t max_frame_bytes = 9214;
  uint32_t tx_fifo_bytes = 32768;
  uint32_t rx_fifo_bytes = 131072;
  bool ptp = true;
  uint32_t board_id = 0x12340001;  // subsystem ID
  uint64_t bar_bytes = 16u << 20;
  uint64_t port_bits_per_second = 100'000'000'000;  // how long a quantum of a pause frame is

  // Faults of the register space, for tests of a driver's bring-up.
  struct RegisterOverride {
    uint32_t offset;
    uint32_t value;
  };
  std::vector<RegisterOverride> overrides;  // reads of these offsets give these values
};

/// What the model saw that the card itself has no register for. For tests, and for people who wonder where packets
/// went.
struct CardReport {
  uint64_t tx_frames = 0, tx_bytes = 0, rx_frames = 0, rx_bytes = 0;
  uint64_t rx_dropped_no_descriptor = 0;
  uint64_t rx_dropped_port_off = 0;
  uint64_t rx_dropped_fifo_full = 0;
  uint64_t rx_dropped_no_queue = 0;  // the queue map led to a queue that is off or does not exist
  uint64_t rx_truncated_mtu = 0, rx_clamped_buffer = 0;
  uint64_t tx_wedged = 0;  // interfaces whose TX engine saw a zero-length packet
  uint64_t completions_lost_cq_full = 0, events_lost_eq_full = 0;
  uint64_t dma_faults = 0;  // addresses that are not mapped
  uint64_t pause_frames_sent = 0, pause_frames_received = 0;
  uint64_t doorbells_lost = 0;       // TX queues that were rung while off, counted when they are switched on
  uint64_t bad_register_writes = 0;  // outside, unknown, or not allowed in the queue's state
};

class Card {
 public:
  /// `wires` has one entry for each port, interface by interface; nullptr: nothing is plugged in. `memory` and the
  /// wires outlive the card. Throws std::invalid_argument when no such card can be built.
  Card(const CardConfig& config, HostMemory& memory, std::span<Wire* const> wires);
  ~Card();
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  const CardConfig& config() const;

  /// Registers of BAR0. An offset outside, or a card that is gone, reads all-ones. Never fails.
  uint32_t read32(uint32_t offset);
  void write32(uint32_t offset, uint32_t value);

  /// Doorbell words beside the registers (pmd/hw/doorbell_page.h), looked at from now on; nullptr: none. The card sets
  /// a word to 0 when it has taken the command, so that a pointer that is written twice is two doorbells.
  void set_doorbell_words(volatile uint32_t* words);

  /// Sends and receives up to `budget` frames on each port, and raises the interrupts that are due. What it did; 0:
  /// there was nothing to do. Time never goes backwards.
  uint32_t run(uint64_t now_ns, uint32_t budget);
  /// The time for register accesses until the next run, such as reads of the PTP clock. Never goes backwards.
  void set_time(uint64_t now_ns);

  /// Called from `run`, and from register accesses, when an interrupt vector fires. It must not call the card.
  void set_interrupt_handler(std::function<void(unsigned vector)> handler);

  /// PCI reset, which the card itself has no register for: everything as after construction, but the report counts on,
  /// and a card that was removed stays away.
  void reset();
  /// Surprise removal: every read is all-ones from now on, nothing moves.
  void remove();

  const CardReport& report() const;
  /// What went wrong in words, such as the zero-length wedge, for a log. Empties the list.
  std::vector<std::string> take_messages();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mqnic::card
