// One interface of the card: its registers, queues, schedulers, ports and engines.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pmd/card/completion_path.h"
#include "pmd/card/context.h"
#include "pmd/card/layout.h"
#include "pmd/card/port.h"
#include "pmd/card/queue_manager.h"
#include "pmd/card/rss.h"
#include "pmd/card/rx_engine.h"
#include "pmd/card/scheduler.h"
#include "pmd/card/tx_engine.h"
#include "pmd/hw/bus.h"

namespace mqnic::card {

class Interface {
 public:
  Interface(Context& context, const Layout& layout, std::span<Wire* const> wires);
  Interface(const Interface&) = delete;
  Interface& operator=(const Interface&) = delete;

  /// `offset` is from the interface's base, and beyond the window with the device's registers.
  uint32_t read(uint32_t offset);
  /// False when the register is unknown, or the write is refused in this state.
  bool write(uint32_t offset, uint32_t value);

  /// Sets the doorbell words of this interface's queues; nullptr: none.
  void set_doorbell_words(volatile uint32_t* words) { words_ = words; }
  /// Takes what was written to the doorbell words of enabled queues.
  void poll_doorbells();

  uint32_t run(uint32_t budget);
  void flush_wires();
  void reset();

 private:
  using Kind = Bus::QueueKind;

  uint32_t read_control(uint32_t offset);
  bool write_control(uint32_t offset, uint32_t value);
  uint32_t read_queue_block(uint32_t offset) const;
  uint32_t read_queue_map(uint32_t offset) const;
  uint32_t read_port_block(unsigned port, uint32_t offset);
  uint32_t read_scheduler_block(unsigned scheduler, uint32_t offset) const;
  bool write_port_block(unsigned port, uint32_t offset, uint32_t value);
  bool write_scheduler_block(unsigned scheduler, uint32_t offset, uint32_t value);

  size_t queue_at(Kind kind, uint32_t offset, uint32_t& at) const;
  size_t queue_count(Kind kind) const;
  uint32_t read_queue(Kind kind, uint32_t window_offset) const;
  bool write_queue(Kind kind, uint32_t window_offset, uint32_t value);
  void apply(Kind kind, uint16_t queue, const QueueWrite& outcome);
  void take_word(Kind kind, uint16_t queue);
  void forget_word(Kind kind, size_t queue);

  uint32_t transmit(unsigned scheduler, uint32_t budget);
  uint32_t empty_fifos(Port& port, uint8_t number, uint32_t budget);
  uint32_t receive(unsigned port, uint32_t budget);

  Context* context_;
  const Layout* layout_;
  RingManager tx_, rx_;
  CompletionManager completions_, events_;
  RxQueueMap queue_map_;
  std::vector<Scheduler> schedulers_;  // one for each port
  std::vector<TakenPackets> taken_;    // by scheduler
  std::vector<Port> ports_;
  CompletionPath path_;
  TxEngine tx_engine_;
  RxEngine rx_engine_;
  uint32_t tx_mtu_, rx_mtu_;
  volatile uint32_t* words_ = nullptr;
};

}  // namespace mqnic::card
