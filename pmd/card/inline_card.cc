#include "pmd/card/inline_card.h"

#include <time.h>

#include <cerrno>

#include "pmd/hw/doorbell_page.h"

namespace mqnic::card {
namespace {

uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // no system call where there is a vDSO: about 20 ns
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

InlineCard::InlineCard(const CardConfig& config, std::vector<std::unique_ptr<Wire>> wires, std::string name)
    : name_(std::move(name)),
      wires_(std::move(wires), size_t{config.interfaces} * config.ports_per_interface),
      doorbells_(doorbell_page::bytes(config.interfaces) / sizeof(uint32_t)),
      card_(config, memory_, wires_.pointers()) {
  card_.set_doorbell_words(doorbells_.data());
}

InlineCard::~InlineCard() = default;

size_t InlineCard::bar_bytes() const { return card_.config().bar_bytes; }

uint32_t InlineCard::read32(uint32_t offset) {
  const std::lock_guard lock(mutex_);
  card_.set_time(now_ns());
  return card_.read32(offset);
}

void InlineCard::write32(uint32_t offset, uint32_t value) {
  const std::lock_guard lock(mutex_);
  card_.set_time(now_ns());
  card_.write32(offset, value);
}

volatile uint32_t* InlineCard::doorbell_word(unsigned interface, QueueKind kind, unsigned queue, uint32_t) {
  const CardConfig& config = card_.config();
  if (interface >= config.interfaces || queue >= doorbell_page::kQueuesMax) return nullptr;
  return &doorbells_[doorbell_page::word_index(interface, static_cast<unsigned>(kind), queue)];
}

void InlineCard::run() {
  // A thread that finds the card locked sets the flag and tries once more: either the other thread has left in between,
  // or it reads the flag before it leaves. So a doorbell that was rung before this call is never overlooked.
  if (!mutex_.try_lock()) {
    again_.store(true);
    if (!mutex_.try_lock()) return;
  }
  if (again_.load(std::memory_order_relaxed)) again_.store(false);
  card_.run(now_ns(), kFramesPerRun);
  mutex_.unlock();

  if (!again_.load() || !mutex_.try_lock()) return;
  again_.store(false);
  card_.run(now_ns(), kFramesPerRun);
  mutex_.unlock();
}

int InlineCard::map_memory(void* address, size_t bytes, int, uint64_t) {
  const std::lock_guard lock(mutex_);
  if (bytes == 0) return -EINVAL;
  return memory_.map(reinterpret_cast<uint64_t>(address), bytes, static_cast<uint8_t*>(address)) ? 0 : -EEXIST;
}

int InlineCard::unmap_memory(void* address, size_t bytes) {
  const std::lock_guard lock(mutex_);
  return memory_.unmap(reinterpret_cast<uint64_t>(address), bytes) != nullptr ? 0 : -ENOENT;
}

unsigned InlineCard::wire_end(unsigned port) const {
  const Wire* const wire = wires_.at(port);
  return wire != nullptr ? wire->end() : 0;
}

bool InlineCard::link_up(unsigned port) {
  const std::lock_guard lock(mutex_);
  Wire* const wire = wires_.at(port);
  return wire != nullptr && wire->connected();
}

CardReport InlineCard::report() {
  const std::lock_guard lock(mutex_);
  return card_.report();
}

std::vector<std::string> InlineCard::take_messages() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> messages = card_.take_messages();
  wires_.take_messages(messages);
  return messages;
}

void InlineCard::remove() {
  const std::lock_guard lock(mutex_);
  card_.remove();
}

}  // namespace mqnic::card
