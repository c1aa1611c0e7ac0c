#include "pmd/hw/queue.h"

namespace mqnic {

namespace {

void write_base(Bus& bus, uint32_t offset, uint64_t base) {
  static_assert(ring_register::kBaseL == cq_register::kBaseL && ring_register::kBaseH == cq_register::kBaseH);
  bus.write32(offset + ring_register::kBaseL, static_cast<uint32_t>(base));
  bus.write32(offset + ring_register::kBaseH, static_cast<uint32_t>(base >> 32));
}

}  // namespace

void configure_ring(Bus& bus, uint32_t offset, const RingSetup& setup) {
  const uint32_t command_at = offset + ring_register::kCommand;
  bus.write32(command_at, command::enable(false));
  write_base(bus, offset, setup.base);
  bus.write32(command_at, command::set_size(setup.log2_entries, setup.log2_block));
  bus.write32(command_at, command::set_target(setup.completion_queue));
  // In this order, because a producer that differs from the consumer counts as a doorbell.
  bus.write32(command_at, command::set_consumer(setup.first));
  bus.write32(command_at, command::set_producer(setup.first));
}

void enable_ring(Bus& bus, uint32_t offset, bool on) {
  bus.write32(offset + ring_register::kCommand, command::enable(on));
}

bool is_ring_active(Bus& bus, uint32_t offset) {
  const uint32_t status = bus.read32(offset + ring_register::kControlStatus);
  return status != kAllOnes && (status & ring_register::kActive) != 0;
}

uint16_t ring_consumer(Bus& bus, uint32_t offset) {
  return static_cast<uint16_t>(bus.read32(offset + ring_register::kPointers) >> 16);
}

void configure_completion_queue(Bus& bus, uint32_t offset, uint64_t base, uint32_t log2_entries, uint32_t target) {
  const uint32_t command_at = offset + cq_register::kCommand;
  bus.write32(command_at, command::enable(false));
  write_base(bus, offset, base);
  bus.write32(command_at, command::set_size(log2_entries));
  bus.write32(command_at, command::set_target(target));
  bus.write32(command_at, command::set_producer(0));
  bus.write32(command_at, command::set_consumer(0));
  bus.write32(command_at, command::arm(false));
  bus.write32(command_at, command::enable(true));
}

void disable_completion_queue(Bus& bus, uint32_t offset) {
  bus.write32(offset + cq_register::kCommand, command::arm(false));
  bus.write32(offset + cq_register::kCommand, command::enable(false));
}

}  // namespace mqnic
