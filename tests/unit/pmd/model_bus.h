// The card model as a bus whose time, cable and presence the test controls.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pmd/card/card.h"
#include "pmd/card/host_memory.h"
#include "pmd/card/wire.h"
#include "pmd/hw/bus.h"
#include "pmd/hw/doorbell_page.h"

namespace mqnic::test {

using Bytes = std::vector<uint8_t>;

/// The test holds the other end, or sent frames come back.
class TestWire final : public card::Wire {
 public:
  bool loop = true;
  bool jammed = false;     // takes nothing
  size_t room = SIZE_MAX;  // frames that it takes before it is jammed
  std::deque<Bytes> to_card;
  std::vector<Bytes> from_card;

  bool connected() override { return true; }
  std::span<uint8_t> reserve(size_t bytes) override {
    if (jammed || room == 0) return {};
    buffer_.assign(bytes, 0);
    return buffer_;
  }
  void commit(size_t bytes) override {
    --room;
    Bytes frame(buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(bytes));
    if (loop) {
      to_card.push_back(std::move(frame));
    } else {
      from_card.push_back(std::move(frame));
    }
  }
  std::span<const uint8_t> front() override {
    return to_card.empty() ? std::span<const uint8_t>{} : std::span<const uint8_t>{to_card.front()};
  }
  void pop() override { to_card.pop_front(); }
  void flush(uint64_t) override {}

 private:
  Bytes buffer_;
};

class ModelBus : public Bus {
 public:
  explicit ModelBus(const card::CardConfig& config)
      : words_(doorbell_page::bytes(config.interfaces) / sizeof(uint32_t)),
        wires_(size_t{config.interfaces} * config.ports_per_interface) {
    std::vector<card::Wire*> plain;
    for (TestWire& wire : wires_) plain.push_back(&wire);
    card_ = std::make_unique<card::Card>(config, memory_, plain);
    card_->set_doorbell_words(words_.data());
    card_->set_interrupt_handler([this](unsigned vector) {
      const uint64_t one = 1;
      const auto found = interrupts_.find(vector);
      if (found != interrupts_.end() && write(found->second, &one, sizeof(one)) < 0) ++interrupts_lost;
    });
  }

  std::string name() const override { return "model"; }
  size_t bar_bytes() const override { return card_->config().bar_bytes; }
  uint32_t read32(uint32_t offset) override {
    ++reads;
    if (ns_per_read != 0) pass(ns_per_read);
    return card_->read32(offset);
  }
  void write32(uint32_t offset, uint32_t value) override {
    ++writes;
    card_->write32(offset, value);
  }
  volatile uint32_t* doorbell_word(unsigned interface, QueueKind kind, unsigned queue, uint32_t) override {
    return &words_[doorbell_page::word_index(interface, static_cast<unsigned>(kind), queue)];
  }
  bool needs_run() const override { return true; }
  bool outlives_driver() const override { return false; }
  void run() override {
    if (frozen) return;
    now_ns_ += 1000;
    card_->run(now_ns_, 32);
  }
  int map_memory(void* address, size_t bytes, int, uint64_t) override {
    return memory_.map(reinterpret_cast<uintptr_t>(address), bytes, static_cast<uint8_t*>(address)) ? 0 : -17;
  }
  int unmap_memory(void* address, size_t bytes) override {
    return memory_.unmap(reinterpret_cast<uintptr_t>(address), bytes) != nullptr ? 0 : -22;
  }
  unsigned interrupt_count() const override { return card_->config().interrupts; }
  int set_interrupt(unsigned number, int event_fd) override {
    if (event_fd < 0) {
      interrupts_.erase(number);
    } else {
      interrupts_[number] = event_fd;
    }
    return 0;
  }

  /// Advances the clock; the card does nothing.
  void pass(uint64_t ns) { card_->set_time(now_ns_ += ns); }

  card::Card& card() { return *card_; }
  TestWire& wire(size_t port = 0) { return wires_[port]; }

  uint64_t reads = 0, writes = 0, interrupts_lost = 0;
  bool frozen = false;  // the card does nothing
  uint64_t ns_per_read = 0;

 private:
  std::vector<uint32_t> words_;
  std::vector<TestWire> wires_;
  card::HostMemory memory_;
  std::unique_ptr<card::Card> card_;
  std::map<unsigned, int> interrupts_;
  uint64_t now_ns_ = 1'000'000'000;
};

}  // namespace mqnic::test
