// A host, a cable and the card model between them. What tests write to the card and read from it are the numbers of the
// register documentation, spelled out: nothing here comes from the headers that the driver is built with.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pmd/card/card.h"
#include "pmd/card/host_memory.h"
#include "pmd/card/wire.h"

namespace mqnic::card::test {

using Bytes = std::vector<uint8_t>;

/// The test holds the other end of this cable.
class MemoryWire final : public Wire {
 public:
  std::deque<Bytes> to_card;
  std::vector<Bytes> from_card;
  bool plugged = true;
  size_t room = 1000000;  // frames that the cable takes before it is full
  unsigned flushes = 0;

  bool connected() override { return plugged; }
  void set_receiving(bool on) override { receiving = on; }
  std::span<uint8_t> reserve(size_t bytes) override {
    if (from_card.size() >= room) return {};
    buffer_.assign(bytes, 0xee);
    return buffer_;
  }
  void commit(size_t bytes) override { from_card.emplace_back(buffer_.data(), buffer_.data() + bytes); }
  std::span<const uint8_t> front() override {
    return to_card.empty() ? std::span<const uint8_t>{} : std::span<const uint8_t>{to_card.front()};
  }
  void pop() override { to_card.pop_front(); }
  void flush(uint64_t) override { ++flushes; }

  bool receiving = false;

 private:
  Bytes buffer_;
};

// Registers of the default build (one interface, one port, 16 MiB), from the documentation.
namespace at {
inline constexpr uint32_t kInterfaceControl = 0x80000, kRxQueueMap = 0x80100;
inline constexpr uint32_t kTxMtu = 0x80028, kRxMtu = 0x8002c;
inline constexpr uint32_t kRssMask = 0x80114, kTable = 0x100000;
inline constexpr uint32_t kTxControl = 0x81020, kRxControl = 0x81024, kQuantaStep = 0x81028, kLfc = 0x8102c,
                          kPfc = 0x81030;
inline constexpr uint32_t kSchedulerControl = 0x82028, kSchedulerDestination = 0x8202c;
inline constexpr uint32_t kEq = 0x180000, kCq = 0x200000, kTxq = 0x400000, kRxq = 0x600000, kChannel = 0x800000;
}  // namespace at

inline constexpr uint64_t kHostAddress = 0x7f'4000'0000;

class Rig : public ::testing::Test {
 protected:
  static constexpr size_t kHostBytes = 4u << 20;

  Rig() { build({}); }

  void build(const CardConfig& config) {
    card.reset();
    wires.clear();
    std::vector<Wire*> plain;
    for (unsigned i = 0; i < config.interfaces * config.ports_per_interface; ++i) {
      wires.push_back(std::make_unique<MemoryWire>());
      plain.push_back(wires.back().get());
    }
    memory = HostMemory();
    host.assign(kHostBytes, 0);
    EXPECT_TRUE(memory.map(kHostAddress, kHostBytes, host.data()));
    card = std::make_unique<Card>(config, memory, plain);
    card->set_time(0);  // its clock begins here
    card->set_interrupt_handler([this](unsigned vector) { interrupts.push_back(vector); });
  }

  MemoryWire& wire(size_t port = 0) { return *wires[port]; }
  uint32_t read(uint32_t offset) { return card->read32(offset); }
  void write(uint32_t offset, uint32_t value) { card->write32(offset, value); }
  uint32_t run(uint32_t budget = 1000) { return card->run(now_ns, budget); }

  // ---- Host memory, by its offset in what is mapped
  uint8_t* bytes(size_t offset) { return host.data() + offset; }
  void put(size_t offset, const Bytes& data) { std::memcpy(bytes(offset), data.data(), data.size()); }
  uint16_t u16(size_t offset) { return static_cast<uint16_t>(host[offset] | host[offset + 1] << 8); }
  uint32_t u32(size_t offset) { return u16(offset) | static_cast<uint32_t>(u16(offset + 2)) << 16; }
  void put16(size_t offset, uint32_t value) {
    host[offset] = static_cast<uint8_t>(value);
    host[offset + 1] = static_cast<uint8_t>(value >> 8);
  }
  void put32(size_t offset, uint32_t value) {
    put16(offset, value);
    put16(offset + 2, value >> 16);
  }
  void put64(size_t offset, uint64_t value) {
    put32(offset, static_cast<uint32_t>(value));
    put32(offset + 4, static_cast<uint32_t>(value >> 32));
  }
  /// 16 bytes: reserved, checksum command, length, address.
  void put_descriptor(size_t offset, uint32_t length, uint64_t address, uint16_t checksum = 0) {
    put16(offset, 0);
    put16(offset + 2, checksum);
    put32(offset + 4, length);
    put64(offset + 8, address);
  }

  // ---- Queues
  void set_base(uint32_t registers, size_t host_offset) {
    const uint64_t address = kHostAddress + host_offset;
    write(registers, static_cast<uint32_t>(address));
    write(registers + 4, static_cast<uint32_t>(address >> 32));
  }
  /// A CQ or EQ of 2^log2 entries; `target` is its EQ or interrupt.
  void start_cq(uint32_t registers, size_t host_offset, uint32_t log2, uint32_t target = 0) {
    write(registers + 0x0c, 0x40000100);
    set_base(registers, host_offset);
    write(registers + 0x0c, 0x80020000 | log2);
    write(registers + 0x0c, 0xc0000000 | target);
    write(registers + 0x0c, 0x80800000);
    write(registers + 0x0c, 0x80900000);
    write(registers + 0x0c, 0x40000101);
  }
  /// A TXQ or RXQ of 2^log2 blocks of 2^log2_block descriptors.
  void start_ring(uint32_t registers, size_t host_offset, uint32_t log2, uint32_t log2_block, uint32_t cq) {
    write(registers + 0x10, 0x40000100);
    set_base(registers, host_offset);
    write(registers + 0x10, 0x80020000 | log2_block << 8 | log2);
    write(registers + 0x10, 0xc0000000 | cq);
    write(registers + 0x10, 0x80800000);
    write(registers + 0x10, 0x80900000);
    write(registers + 0x10, 0x40000101);
  }
  void ring(uint32_t registers, uint32_t producer) { write(registers + 0x10, 0x80800000 | (producer & 0xffff)); }

  // Where the simple set-up below places rings and buffers.
  static constexpr size_t kTxRing = 0x1000, kRxRing = 0x3000, kTxCq = 0x10000, kRxCq = 0x14000, kTxBuffers = 0x100000,
                          kRxBuffers = 0x200000;
  static constexpr size_t kBufferBytes = 0x4000;

  /// TXQ 0 on CQ 0 and RXQ 0 on CQ 1, 16 entries each, one descriptor for a packet; port and scheduler on.
  void bring_up(uint32_t log2_block = 0, uint32_t log2_entries = 4) {
    start_cq(at::kCq, kTxCq, log2_entries);
    start_cq(at::kCq + 0x10, kRxCq, log2_entries);
    start_ring(at::kTxq, kTxRing, log2_entries, log2_block, 0);
    start_ring(at::kRxq, kRxRing, log2_entries, log2_block, 1);
    write(at::kTxControl, 1);
    write(at::kSchedulerControl, 1);
    write(at::kChannel, 3);
    write(at::kRxControl, 1);
  }

  /// Puts a frame into TX slot `index` of a ring of single descriptors.
  void put_tx(unsigned index, const Bytes& frame, uint16_t checksum = 0) {
    const size_t buffer = kTxBuffers + (index % 16) * kBufferBytes;
    put(buffer, frame);
    put_descriptor(kTxRing + (index % 16) * 16, static_cast<uint32_t>(frame.size()), kHostAddress + buffer, checksum);
  }
  void put_rx(unsigned index, uint32_t length) {
    put_descriptor(kRxRing + (index % 16) * 16, length, kHostAddress + rx_buffer(index));
  }
  static size_t rx_buffer(unsigned index) { return kRxBuffers + (index % 16) * kBufferBytes; }
  Bytes host_bytes(size_t offset, size_t count) { return {bytes(offset), bytes(offset) + count}; }

  static Bytes pattern(size_t count, uint8_t seed = 1) {
    Bytes data(count);
    for (size_t i = 0; i < count; ++i) data[i] = static_cast<uint8_t>(seed + i * 7);
    return data;
  }
  /// A frame of none of the protocols that the card knows.
  static Bytes plain_frame(size_t count, uint8_t seed = 1) {
    Bytes frame = pattern(count, seed);
    if (count >= 14) {
      frame[12] = 0x12;
      frame[13] = 0x34;
    }
    return frame;
  }

  std::vector<uint8_t> host;
  HostMemory memory;
  std::vector<std::unique_ptr<MemoryWire>> wires;
  std::unique_ptr<Card> card;
  std::vector<unsigned> interrupts;
  uint64_t now_ns = 1000;
};

}  // namespace mqnic::card::test
