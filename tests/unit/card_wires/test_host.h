// A host that uses queue 0 of a card through a Bus: what a driver does, in its simplest form. One frame a descriptor.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "pmd/hw/bus.h"
#include "pmd/hw/control.h"
#include "pmd/hw/description.h"
#include "pmd/hw/formats.h"
#include "pmd/hw/registers.h"
#include "wire_support.h"

namespace mqnic::card {

class TestHost {
 public:
  static constexpr uint32_t kLog2Entries = 6;
  static constexpr uint32_t kEntries = 1u << kLog2Entries;
  static constexpr uint32_t kBufferBytes = 10240;

  explicit TestHost(Bus& bus, unsigned interface = 0) : bus_(bus), interface_(interface) {
    fd_ = memfd_create("test-host", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(fd_, kMemoryBytes), 0);
    memory_ = static_cast<uint8_t*>(mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
    EXPECT_EQ(bus_.map_memory(memory_, kMemoryBytes, fd_, 0), 0);
  }
  ~TestHost() {
    if (!abandoned_) bus_.unmap_memory(memory_, kMemoryBytes);
    munmap(memory_, kMemoryBytes);
    close(fd_);
  }
  TestHost(const TestHost&) = delete;
  TestHost& operator=(const TestHost&) = delete;

  /// In this order: CQs, rings, MTU, queue map, enable, scheduler, port. `interrupt` is that of the RX queue's
  /// events.
  void start(unsigned interrupt = 0) {
    CardDescription description;
    const Failure failure = describe_card(bus_, description);
    ASSERT_FALSE(failure) << failure.message;
    card_ = description.interfaces.at(interface_);
    quiesce(bus_, card_);  // a reset leaves queues enabled, as an earlier host may have
    completion_queue(card_.event_queues.at(0), kEventRing, interrupt);
    completion_queue(card_.completion_queues.at(0), kTxCompletions, 0);
    completion_queue(card_.completion_queues.at(1), kRxCompletions, 0);
    ring(card_.tx_queues.at(0), kTxRing, 0);
    ring(card_.rx_queues.at(0), kRxRing, 1);
    bus_.write32(card_.control + interface_control::kTxMtu, 9214);
    bus_.write32(card_.control + interface_control::kRxMtu, 9214);
    const PortDescription& port = card_.ports.at(0);
    if (port.queue_map != 0) {
      bus_.write32(port.queue_map + rx_queue_map::kRssMask, 0);
      bus_.write32(port.queue_map + rx_queue_map::kAppMask, 0);
      bus_.write32(port.queue_table, 0);
    }
    using Kind = Bus::QueueKind;
    tx_bell_ = Doorbell(bus_, interface_, Kind::kTx, 0, card_.tx_queues.at(0) + ring_register::kCommand);
    rx_bell_ = Doorbell(bus_, interface_, Kind::kRx, 0, card_.rx_queues.at(0) + ring_register::kCommand);
    tx_cq_bell_ =
        Doorbell(bus_, interface_, Kind::kCompletion, 0, card_.completion_queues.at(0) + cq_register::kCommand);
    rx_cq_bell_ =
        Doorbell(bus_, interface_, Kind::kCompletion, 1, card_.completion_queues.at(1) + cq_register::kCommand);
    for (uint32_t i = 0; i < kEntries; i++) post_receive();
    bus_.write32(port.control + port_control::kTxControl, port_control::kEnable);
    const SchedulerDescription& scheduler = card_.schedulers.at(0);
    bus_.write32(scheduler.control + scheduler_round_robin::kControl, scheduler_round_robin::kEnable);
    bus_.write32(scheduler.channels.at(0),
                 scheduler_round_robin::kChannelEnable | scheduler_round_robin::kChannelGlobalEnable);
    bus_.write32(port.control + port_control::kRxControl, port_control::kEnable);
  }

  bool link_up() {
    return (bus_.read32(card_.ports.at(0).control + port_control::kTxControl) & port_control::kLinkUp) != 0;
  }

  /// False when the ring is full.
  bool send(const Frame& frame) {
    reap();
    if (static_cast<uint16_t>(tx_producer_ - tx_consumer_) == kEntries) return false;
    const uint32_t slot = tx_producer_ & (kEntries - 1);
    uint8_t* const buffer = memory_ + kTxBuffers + size_t{slot} * kBufferBytes;
    std::copy(frame.begin(), frame.end(), buffer);
    const Descriptor descriptor{0, 0, static_cast<uint32_t>(frame.size()), reinterpret_cast<uint64_t>(buffer)};
    std::memcpy(memory_ + kTxRing + slot * sizeof descriptor, &descriptor, sizeof descriptor);
    tx_bell_.ring(command::set_producer(++tx_producer_));
    return true;
  }

  /// Empty when nothing has come.
  Frame receive() {
    Completion completion{};
    if (!next(kRxCompletions, rx_completions_, completion)) return {};
    rx_cq_bell_.ring(command::set_consumer(static_cast<uint16_t>(rx_completions_)));
    const uint32_t slot = completion.index & (kEntries - 1);
    const uint8_t* const buffer = memory_ + kRxBuffers + size_t{slot} * kBufferBytes;
    Frame frame(buffer, buffer + completion.bytes);
    post_receive();
    return frame;
  }

  /// Takes the completions of what was sent.
  void reap() {
    Completion completion{};
    while (next(kTxCompletions, tx_completions_, completion)) tx_consumer_++;
    tx_cq_bell_.ring(command::set_consumer(static_cast<uint16_t>(tx_completions_)));
  }

  /// The next completion of the RX queue raises an event.
  void arm_receive() {
    const uint32_t cq = card_.completion_queues.at(1) + cq_register::kCommand;
    const uint32_t eq = card_.event_queues.at(0) + cq_register::kCommand;
    bus_.write32(eq, command::arm(true));
    bus_.write32(cq, command::arm(true));
  }

  /// The bus is gone: the destructor must not unmap memory through it.
  void abandon() { abandoned_ = true; }

  const InterfaceDescription& card() const { return card_; }
  uint16_t sent() const { return tx_producer_; }

 private:
  // Offsets in the host's memory.
  static constexpr size_t kTxRing = 0x0000, kRxRing = 0x1000, kTxCompletions = 0x2000, kRxCompletions = 0x3000,
                          kEventRing = 0x4000, kTxBuffers = 0x10000,
                          kRxBuffers = kTxBuffers + size_t{kEntries} * kBufferBytes,
                          kMemoryBytes = kRxBuffers + size_t{kEntries} * kBufferBytes;

  void base(uint32_t queue, size_t offset) {
    const auto address = reinterpret_cast<uint64_t>(memory_ + offset);
    bus_.write32(queue + ring_register::kBaseL, static_cast<uint32_t>(address));
    bus_.write32(queue + ring_register::kBaseH, static_cast<uint32_t>(address >> 32));
  }
  void completion_queue(uint32_t queue, size_t offset, uint32_t target) {
    std::memset(memory_ + offset, 0, kEntries * sizeof(Completion));
    base(queue, offset);
    for (const uint32_t word : {command::enable(false), command::set_size(kLog2Entries), command::set_target(target),
                                command::set_producer(0), command::set_consumer(0), command::enable(true)}) {
      bus_.write32(queue + cq_register::kCommand, word);
    }
  }
  void ring(uint32_t queue, size_t offset, uint32_t completions) {
    base(queue, offset);
    for (const uint32_t word :
         {command::enable(false), command::set_size(kLog2Entries), command::set_target(completions),
          command::set_producer(0), command::set_consumer(0), command::enable(true)}) {
      bus_.write32(queue + ring_register::kCommand, word);
    }
  }
  void post_receive() {
    const uint32_t slot = rx_producer_ & (kEntries - 1);
    const Descriptor descriptor{0, 0, kBufferBytes,
                                reinterpret_cast<uint64_t>(memory_ + kRxBuffers + size_t{slot} * kBufferBytes)};
    std::memcpy(memory_ + kRxRing + slot * sizeof descriptor, &descriptor, sizeof descriptor);
    rx_bell_.ring(command::set_producer(++rx_producer_));
  }
  bool next(size_t queue, uint32_t& consumer, Completion& out) {
    const uint8_t* const at = memory_ + queue + (consumer & (kEntries - 1)) * sizeof(Completion);
    const uint8_t phase = *const_cast<const volatile uint8_t*>(at + offsetof(Completion, phase));
    if (!is_new(phase, consumer, kEntries)) return false;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    std::memcpy(&out, at, sizeof out);
    consumer++;
    return true;
  }

  Bus& bus_;
  unsigned interface_;
  bool abandoned_ = false;
  int fd_;
  uint8_t* memory_;
  InterfaceDescription card_;
  Doorbell tx_bell_, rx_bell_, tx_cq_bell_, rx_cq_bell_;
  uint16_t tx_producer_ = 0, tx_consumer_ = 0, rx_producer_ = 0;
  uint32_t tx_completions_ = 0, rx_completions_ = 0;
};

}  // namespace mqnic::card
