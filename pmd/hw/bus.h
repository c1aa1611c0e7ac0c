// How software accesses a card. This is all that the driver knows about where the card is: on PCI, in this process, or
// in another process over vfio-user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace mqnic {

/// A doorbell: the one register of a queue that the data path writes, with pointer commands only
/// (command::set_producer of a TXQ or RXQ, command::set_consumer of a CQ or EQ).
///
/// It may be a word of memory that the card reads now and then, so that only the last value counts. That is right for
/// pointers but not for other commands, which go through Bus::write32.
class Doorbell;

/// One card. Configuration (`read32`, `write32`, maps, interrupts) is for one thread at a time; doorbells and `run` may
/// be used by several threads, each with queues of its own.
class Bus {
 public:
  virtual ~Bus() = default;

  /// For messages: "0000:03:00.0", "inline" or "vfio-user /run/card.sock".
  virtual std::string name() const = 0;
  virtual size_t bar_bytes() const = 0;

  /// Accesses a register of BAR0. Reads all-ones when the card is gone or the offset is outside.
  virtual uint32_t read32(uint32_t offset) = 0;
  virtual void write32(uint32_t offset, uint32_t value) = 0;

  /// Where the doorbell of a queue is written. `interface` and `queue` are numbers, `register_offset` is that of the
  /// command register in BAR0. nullptr when there is no such memory and write32 has to be used.
  enum class QueueKind : uint8_t { kTx = 0, kRx = 1, kCompletion = 2, kEvent = 3 };
  virtual volatile uint32_t* doorbell_word(unsigned interface, QueueKind kind, unsigned queue,
                                           uint32_t register_offset) = 0;

  /// True when the card works only in `run`, which the driver then calls in every burst function.
  virtual bool needs_run() const { return false; }
  /// Lets the card work for a moment. Cheap when another thread is doing that already.
  virtual void run() {}

  /// False when the card ends with this object, and from then on reads none of the memory that it was given.
  virtual bool outlives_driver() const { return true; }

  /// True when the card uses this process's own addresses for memory, not DPDK's IOVA.
  virtual bool uses_virtual_addresses() const { return true; }
  /// Lets the card use this memory from now on. `fd` >= 0 when it is a mapping of a file, from `fd_offset`. Returns 0
  /// or a negative errno.
  virtual int map_memory(void* address, size_t bytes, int fd, uint64_t fd_offset) = 0;
  virtual int unmap_memory(void* address, size_t bytes) = 0;

  /// The number of interrupt vectors for `set_interrupt`; 0 when the card has none that reach this process.
  virtual unsigned interrupt_count() const { return 0; }
  /// From now on vector `number` makes `event_fd` readable; -1 ends this. Returns 0 or a negative errno.
  virtual int set_interrupt(unsigned number, int event_fd) {
    (void)number;
    (void)event_fd;
    return -95;  // EOPNOTSUPP
  }
};

class Doorbell {
 public:
  Doorbell() = default;
  Doorbell(Bus& bus, unsigned interface, Bus::QueueKind kind, unsigned queue, uint32_t register_offset)
      : bus_(&bus), word_(bus.doorbell_word(interface, kind, queue, register_offset)), offset_(register_offset) {}

  /// Writes the doorbell. Everything that this thread wrote to memory before is visible to the card when it sees
  /// `command`.
  void ring(uint32_t command) const {
    if (word_ == nullptr) {
      bus_->write32(offset_, command);
      return;
    }
#if defined(__x86_64__)
    asm volatile("" ::: "memory");  // stores are not reordered with stores
#elif defined(__aarch64__)
    asm volatile("dmb oshst" ::: "memory");
#else
    __sync_synchronize();
#endif
    *word_ = command;
  }

 private:
  Bus* bus_ = nullptr;
  volatile uint32_t* word_ = nullptr;
  uint32_t offset_ = 0;
};

}  // namespace mqnic
