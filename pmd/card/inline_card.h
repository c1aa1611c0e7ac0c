// The card model in the driver's own process: it works when the driver calls `run`.
//
// One object holds the card, its wires, the host's memory as the card sees it, and the doorbell words. Any thread may
// call any function. Configuration waits for the lock; `run` does not: while one thread runs the card, the others
// return at once, and the first one sees their doorbells before it leaves.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pmd/card/card.h"
#include "pmd/card/host_memory.h"
#include "pmd/card/wire.h"
#include "pmd/card/wires/wire_set.h"
#include "pmd/hw/bus.h"

namespace mqnic::card {

class InlineCard final : public Bus {
 public:
  /// Frames that one `run` moves on each port and in each direction: about one burst, so that a host that refills its
  /// ring after every burst always has room for them.
  static constexpr uint32_t kFramesPerRun = 32;

  /// `wires` has one wire for each port, interface by interface; for missing ones and nullptr nothing is plugged in.
  InlineCard(const CardConfig& config, std::vector<std::unique_ptr<Wire>> wires, std::string name = "inline");
  ~InlineCard() override;

  std::string name() const override { return name_; }
  size_t bar_bytes() const override;
  uint32_t read32(uint32_t offset) override;
  void write32(uint32_t offset, uint32_t value) override;
  volatile uint32_t* doorbell_word(unsigned interface, QueueKind kind, unsigned queue,
                                   uint32_t register_offset) override;
  bool needs_run() const override { return true; }
  bool outlives_driver() const override { return false; }
  void run() override;
  int map_memory(void* address, size_t bytes, int fd, uint64_t fd_offset) override;
  int unmap_memory(void* address, size_t bytes) override;

  /// The end of its cable at port `port` (Wire::end). Ports are counted over all interfaces.
  unsigned wire_end(unsigned port) const;
  /// True when there was a peer at the other end of the cable at the last `run`.
  bool link_up(unsigned port);

  /// What the model counted although the card has no register for it.
  CardReport report();
  std::vector<std::string> take_messages();
  /// Surprise removal: from now on every register reads all-ones.
  void remove();

 private:
  std::string name_;
  std::mutex mutex_;                // guards everything below
  std::atomic<bool> again_{false};  // another thread wanted to run the card while it ran
  WireSet wires_;
  std::vector<uint32_t> doorbells_;
  HostMemory memory_;
  Card card_;
};

}  // namespace mqnic::card
