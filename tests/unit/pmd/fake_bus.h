// A card that is a list of register values, spelled out by the test.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pmd/hw/bus.h"

namespace mqnic::test {

class FakeBus final : public Bus {
 public:
  std::map<uint32_t, uint32_t> registers;
  std::vector<std::pair<uint32_t, uint32_t>> written;
  bool remembers = false;  // what was written can be read back

  std::string name() const override { return "fake"; }
  size_t bar_bytes() const override { return 0x100000; }
  uint32_t read32(uint32_t offset) override {
    const auto found = registers.find(offset);
    return found == registers.end() ? 0 : found->second;
  }
  void write32(uint32_t offset, uint32_t value) override {
    written.emplace_back(offset, value);
    if (remembers) registers[offset] = value;
  }
  volatile uint32_t* doorbell_word(unsigned, QueueKind, unsigned, uint32_t) override { return nullptr; }
  int map_memory(void*, size_t, int, uint64_t) override { return 0; }
  int unmap_memory(void*, size_t) override { return 0; }

  void block(uint32_t at, uint32_t type, uint32_t version, uint32_t next, const std::vector<uint32_t>& rest = {}) {
    registers[at] = type;
    registers[at + 4] = version;
    registers[at + 8] = next;
    for (uint32_t i = 0; i < rest.size(); ++i) registers[at + 0xc + 4 * i] = rest[i];
  }
};

/// One interface with one port, 32 TX, 16 RX, 48 completion and 4 event queues, laid out as in the register
/// documentation.
inline FakeBus small_card() {
  FakeBus bus;
  bus.block(0x0, 0xffffffff, 0x100, 0x40, {0x04b31093, 0, 0x00000105, 0x12340007, 0, 0x64ac0000});
  bus.block(0x40, 0xc000, 0x100, 0x60, {0, 1, 0x80000, 0x1000});
  bus.block(0x60, 0, 0, 0xa0);  // a hole
  bus.block(0xa0, 0xc080, 0x200, 0);
  bus.block(0x1000, 0xc001, 0x400, 0x1040, {0x711, 1, 1, 0, 0, 9214, 9214, 1500, 1500, 32768, 131072});
  bus.block(0x1040, 0xc010, 0x400, 0x1060, {0x10000, 4, 0x10});
  bus.block(0x1060, 0xc020, 0x400, 0x1080, {0x20000, 48, 0x10});
  bus.block(0x1080, 0xc030, 0x400, 0x10a0, {0x30000, 32, 0x20});
  bus.block(0x10a0, 0xc031, 0x400, 0x10c0, {0x40000, 16, 0x20});
  bus.block(0x10c0, 0xc090, 0x200, 0x1100, {0x0801, 0x50000, 0, 0});
  bus.block(0x1100, 0xc002, 0x200, 0x1110, {0x2000});
  bus.block(0x1110, 0xc004, 0x300, 0x1120, {0x3000});
  bus.block(0x1120, 0xc120, 0x100, 0);  // flash, which the driver ignores
  bus.block(0x2000, 0xc003, 0x300, 0, {0x1, 0x10000, 0x10000, 0, 0x10000});
  bus.block(0x3000, 0xc040, 0x100, 0, {0x60000, 32, 4, 0, 0});
  bus.registers[0x3000c] = 0x30000000;  // the largest block, when it is asked for
  return bus;
}

}  // namespace mqnic::test
