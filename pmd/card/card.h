// A model of the card: it has the card's registers, moves frames, and reads and writes the host's memory as the real
// card does, with the card's faults (silent drops, truncation, and that a zero-length packet wedges the TX engine).
//
// The model has no I/O, no clock and no threads: its owner calls `run` with the time, one thread at a time. The driver
// is tested against it, and it carries packets where there is no card.
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
  unsigned tx_queues = 64;  // per interface; also the number of the scheduler's channels
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
  uint64_t ptp_update_ns = 2000;   // how long a set or an offset of the clock is pending; 0: not at all
  uint32_t board_id = 0x12340001;  // subsystem ID
  uint64_t bar_bytes = 16u << 20;
  uint64_t port_bits_per_second = 100'000'000'000;  // determines how long a quantum of a pause frame is

  // Faults of the register space, for tests of a driver's bring-up.
  struct RegisterOverride {
    uint32_t offset;
    uint32_t value;
  };
  std::vector<RegisterOverride> overrides;  // reads of these offsets return these values
};

/// What the model counts although the card has no register for it. For tests, and to find out where packets went.
struct CardReport {
  uint64_t tx_frames = 0, tx_bytes = 0, rx_frames = 0, rx_bytes = 0;
  uint64_t rx_dropped_no_descriptor = 0;
  uint64_t rx_dropped_port_off = 0;
  uint64_t rx_dropped_fifo_full = 0;
  uint64_t rx_dropped_no_queue = 0;  // the queue map led to a queue that is disabled or does not exist
  uint64_t rx_truncated_mtu = 0, rx_clamped_buffer = 0;
  uint64_t tx_wedged = 0;  // interfaces whose TX engine saw a zero-length packet
  uint64_t completions_lost_cq_full = 0, events_lost_eq_full = 0;
  uint64_t dma_faults = 0;  // addresses that are not mapped
  uint64_t pause_frames_sent = 0, pause_frames_received = 0;
  uint64_t doorbells_lost = 0;       // TX queues that were rung while disabled, counted when they are enabled
  uint64_t bad_register_writes = 0;  // outside BAR0, unknown, or not allowed in the queue's state
};

class Card {
 public:
  /// `wires` has one entry for each port, interface by interface; nullptr means that nothing is plugged in. `memory`
  /// and the wires outlive the card. Throws std::invalid_argument when no such card can exist.
  Card(const CardConfig& config, HostMemory& memory, std::span<Wire* const> wires);
  ~Card();
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  const CardConfig& config() const;

  /// Accesses to registers of BAR0, which never fail. An offset outside, or a card that was removed, reads all-ones.
  uint32_t read32(uint32_t offset);
  void write32(uint32_t offset, uint32_t value);

  /// From now on the card also takes commands from these doorbell words (pmd/hw/doorbell_page.h); nullptr: from none.
  /// It sets a word to 0 when it has taken the command, so that a pointer that is written twice counts as two
  /// doorbells.
  void set_doorbell_words(volatile uint32_t* words);

  /// Sends and receives up to `budget` frames on each port, and raises the interrupts that are due. Returns how much it
  /// did; 0 when there was nothing to do. Time must not go backwards.
  uint32_t run(uint64_t now_ns, uint32_t budget);
  /// Sets the time for register accesses until the next run, such as reads of the PTP clock. Must not go backwards. The
  /// first time that the card is given is that of its power-on.
  void set_time(uint64_t now_ns);

  /// Called from `run`, and from register accesses, when an interrupt vector fires. It must not call the card.
  void set_interrupt_handler(std::function<void(unsigned vector)> handler);

  /// PCI reset, for which the card itself has no register: everything is as after construction, but the report counts
  /// on, and a card that was removed stays removed.
  void reset();
  /// On: the host takes no received frames for now, as when its memory is busy; they wait in the ports' FIFOs.
  void block_host(bool on);
  /// Surprise removal: from now on every read is all-ones, and nothing moves.
  void remove();

  const CardReport& report() const;
  /// Takes the messages about what went wrong, such as a wedged TX engine, for a log.
  std::vector<std::string> take_messages();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mqnic::card
