#include "pmd/card/card.h"

#include <algorithm>
#include <utility>

#include "pmd/card/context.h"
#include "pmd/card/device.h"
#include "pmd/card/interface.h"
#include "pmd/card/layout.h"
#include "pmd/hw/doorbell_page.h"
#include "pmd/hw/registers.h"

namespace mqnic::card {

struct Card::Impl {
  Impl(const CardConfig& config, HostMemory& memory, std::span<Wire* const> wires)
      : layout(config), context(config, memory), device(context, layout) {
    interfaces.reserve(config.interfaces);
    for (size_t i = 0; i < config.interfaces; ++i) {
      const size_t first = std::min(wires.size(), i * config.ports_per_interface);
      const size_t count = std::min<size_t>(wires.size() - first, config.ports_per_interface);
      interfaces.push_back(std::make_unique<Interface>(context, layout, wires.subspan(first, count)));
    }
  }

  /// Doorbells that were rung before a register access take effect before it.
  void poll_doorbells() {
    for (const auto& interface : interfaces) interface->poll_doorbells();
  }

  Layout layout;
  Context context;
  Device device;
  std::vector<std::unique_ptr<Interface>> interfaces;
  bool powered = false;  // it has been told the time
  bool removed = false;
};

Card::Card(const CardConfig& config, HostMemory& memory, std::span<Wire* const> wires)
    : impl_(std::make_unique<Impl>(config, memory, wires)) {}

Card::~Card() = default;

const CardConfig& Card::config() const { return impl_->context.config; }

uint32_t Card::read32(uint32_t offset) {
  Impl& impl = *impl_;
  const uint64_t end = uint64_t{impl.layout.interface_stride} * impl.interfaces.size();
  if (impl.removed || offset % 4 != 0 || offset >= impl.context.config.bar_bytes) return kAllOnes;
  for (const CardConfig::RegisterOverride& fault : impl.context.config.overrides) {
    if (fault.offset == offset) return fault.value;
  }
  if (offset >= end) return 0;
  impl.poll_doorbells();
  const uint32_t at = offset % impl.layout.interface_stride;
  if (at < impl.layout.csr_bytes) return impl.device.read(at);
  return impl.interfaces[offset / impl.layout.interface_stride]->read(at);
}

void Card::write32(uint32_t offset, uint32_t value) {
  Impl& impl = *impl_;
  if (impl.removed) return;
  const uint64_t end = uint64_t{impl.layout.interface_stride} * impl.interfaces.size();
  bool accepted = false;
  if (offset % 4 == 0 && offset < end) {
    impl.poll_doorbells();
    const uint32_t at = offset % impl.layout.interface_stride;
    accepted = at < impl.layout.csr_bytes ? impl.device.write(at, value)
                                          : impl.interfaces[offset / impl.layout.interface_stride]->write(at, value);
  }
  if (!accepted) ++impl.context.report.bad_register_writes;
}

void Card::set_doorbell_words(volatile uint32_t* words) {
  for (size_t i = 0; i < impl_->interfaces.size(); ++i) {
    impl_->interfaces[i]->set_doorbell_words(
        words == nullptr ? nullptr : words + doorbell_page::word_index(static_cast<unsigned>(i), 0, 0));
  }
}

void Card::set_time(uint64_t now_ns) {
  Impl& impl = *impl_;
  if (!std::exchange(impl.powered, true)) impl.context.clock.begin(now_ns);
  impl.context.now_ns = std::max(impl.context.now_ns, now_ns);
}

uint32_t Card::run(uint64_t now_ns, uint32_t budget) {
  Impl& impl = *impl_;
  if (impl.removed) return 0;
  set_time(now_ns);
  impl.poll_doorbells();
  uint32_t done = 0;
  for (const auto& interface : impl.interfaces) done += interface->run(budget);
  for (const auto& interface : impl.interfaces) interface->flush_wires();
  return done + impl.context.interrupts.run(impl.context.now_ns);
}

void Card::set_interrupt_handler(std::function<void(unsigned vector)> handler) {
  impl_->context.interrupts.set_handler(std::move(handler));
}

void Card::reset() {
  Impl& impl = *impl_;
  impl.context.clock.reset();
  impl.context.interrupts.reset();
  impl.context.dma.reset();
  impl.device.reset();
  for (const auto& interface : impl.interfaces) interface->reset();
}

void Card::block_host(bool on) { impl_->context.host_blocked = on; }

void Card::remove() { impl_->removed = true; }

const CardReport& Card::report() const { return impl_->context.report; }

std::vector<std::string> Card::take_messages() { return std::exchange(impl_->context.messages, {}); }

}  // namespace mqnic::card
