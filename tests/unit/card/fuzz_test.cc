// Anything that a host can do to the card: register writes with and without sense, doorbell words, rings and
// descriptors of garbage, mappings that come and go, frames of any bytes and size. The card must not crash, must stay
// inside the memory that is mapped, must not send what is longer than its largest frame, and a run must end.
//
// Repeatable: UROCE_SEED=<n> gives the same rounds again, with the same compiler. Every failure says the seed of its
// round.
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "pmd/card/card.h"
#include "pmd/card/host_memory.h"
#include "pmd/card/wire.h"

#ifndef CARD_FUZZ_ROUNDS
#error CARD_FUZZ_ROUNDS is not set
#endif

namespace mqnic::card {
namespace {

constexpr uint64_t kAddress = 0x40'0000'0000;
constexpr size_t kGuardBytes = 64 * 1024, kPageBytes = 4096, kPages = 64;
constexpr uint8_t kGuard = 0xa5;

class AnyWire final : public Wire {
 public:
  AnyWire(std::mt19937_64& random, size_t largest) : random_(&random), largest_(largest) {}

  bool connected() override { return (*random_)() % 8 != 0; }
  std::span<uint8_t> reserve(size_t bytes) override {
    if ((*random_)() % 16 == 0) return {};
    reserved_ = std::make_unique<uint8_t[]>(bytes);  // no more than asked for: sanitizers notice a byte beyond
    reserved_bytes_ = bytes;
    return {reserved_.get(), bytes};
  }
  void commit(size_t bytes) override {
    EXPECT_LE(bytes, reserved_bytes_);
    EXPECT_GE(bytes, 1u);
    EXPECT_LE(bytes, largest_);
    ++sent;
  }
  std::span<const uint8_t> front() override { return {frame_.get(), frame_bytes_}; }
  void pop() override {
    frame_.reset();
    frame_bytes_ = 0;
    if (left_ != 0) {
      --left_;
      make_frame();
    }
  }
  void flush(uint64_t) override {}

  void arrive(size_t frames) {
    left_ = frames;
    make_frame();
  }

  uint64_t sent = 0;

 private:
  void make_frame() {
    std::mt19937_64& random = *random_;
    frame_bytes_ = random() % 8 == 0 ? 1 + random() % 20000 : 1 + random() % 200;
    frame_ = std::make_unique<uint8_t[]>(frame_bytes_);
    const uint64_t fill = random();
    for (size_t i = 0; i < frame_bytes_; ++i) frame_[i] = static_cast<uint8_t>(fill >> (i % 8 * 8));
    if (frame_bytes_ < 40) return;
    static constexpr uint8_t kPause[] = {0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 7, 0x88, 0x08, 0, 1};
    if (random() % 8 == 0) {
      std::memcpy(frame_.get(), kPause, sizeof(kPause));
      if (random() % 2 == 0) frame_[14] = 1;  // PFC
    } else if (random() % 2 == 0) {
      frame_[12] = 0x08;
      frame_[13] = 0x00;
      frame_[14] = 0x45;
      frame_[23] = static_cast<uint8_t>(random() % 2 == 0 ? 17 : 6);
    }
  }

  std::mt19937_64* random_;
  size_t largest_;
  std::unique_ptr<uint8_t[]> reserved_, frame_;
  size_t reserved_bytes_ = 0, frame_bytes_ = 0, left_ = 0;
};

class Round {
 public:
  explicit Round(uint64_t seed) : random_(seed), host_(2 * kGuardBytes + kPages * kPageBytes, kGuard) {
    config_.interfaces = 1 + pick(2);
    config_.ports_per_interface = 1 + pick(3);
    config_.tx_queues = 1 + pick(9);
    config_.rx_queues = 1 + pick(9);
    config_.completion_queues = 1 + pick(20);
    config_.event_queues = 1 + pick(5);
    config_.interrupts = 1 + pick(8);
    config_.log2_block_max = pick(4);
    config_.log2_rss_table = pick(6);
    config_.max_frame_bytes = one_in(4) ? 64 + pick(500) : 9214;
    config_.rx_fifo_bytes = 64 + pick(40000);
    config_.port_bits_per_second = one_in(4) ? 1 : 100'000'000'000;
    config_.ptp = !one_in(4);
    std::vector<Wire*> plain;
    for (unsigned i = 0; i < config_.interfaces * config_.ports_per_interface; ++i) {
      wires_.push_back(std::make_unique<AnyWire>(random_, std::max<size_t>(config_.max_frame_bytes, 60)));
      plain.push_back(one_in(10) ? nullptr : wires_.back().get());
    }
    words_.resize(size_t{config_.interfaces} * 4 * 8192);
    memory_.map(kAddress, kPages * kPageBytes, pages());
    for (size_t i = 0; i < kPages * kPageBytes; ++i) pages()[i] = static_cast<uint8_t>(random_());
    card_ = std::make_unique<Card>(config_, memory_, plain);
    card_->set_interrupt_handler([this](unsigned vector) { EXPECT_LT(vector, config_.interrupts); });
    if (!one_in(4)) card_->set_doorbell_words(words_.data());
    stride_ = (16u << 20) / (config_.interfaces == 1 ? 1 : 2);
  }

  void run(unsigned steps) {
    if (!one_in(4)) bring_up();
    for (unsigned i = 0; i < steps; ++i) step();
    for (size_t i = 0; i < kGuardBytes; ++i) {
      ASSERT_EQ(host_[i], kGuard) << "before the mapped memory, " << i;
      ASSERT_EQ(host_[host_.size() - 1 - i], kGuard) << "behind the mapped memory, " << i;
    }
  }
  uint64_t frames() const { return card_->report().tx_frames + card_->report().rx_frames; }

 private:
  uint32_t pick(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }
  bool one_in(uint32_t n) { return pick(n) == 0; }
  uint32_t any32() { return static_cast<uint32_t>(random_()); }
  uint8_t* pages() { return host_.data() + kGuardBytes; }

  /// Offsets in an interface's space, from the documented layout.
  uint32_t eq() const { return stride_ / 32 * 3; }
  uint32_t cq() const { return stride_ / 8; }
  uint32_t txq() const { return stride_ / 8 * 2; }
  uint32_t rxq() const { return stride_ / 8 * 3; }
  uint32_t channels() const { return stride_ / 8 * 4; }
  uint32_t list() const { return stride_ / 32; }

  uint32_t any_queue_register() {
    switch (pick(4)) {
      case 0:
        return txq() + pick(config_.tx_queues + 1) * 32 + pick(6) * 4;
      case 1:
        return rxq() + pick(config_.rx_queues + 1) * 32 + pick(6) * 4;
      case 2:
        return cq() + pick(config_.completion_queues + 1) * 16 + pick(4) * 4;
      default:
        return eq() + pick(config_.event_queues + 1) * 16 + pick(4) * 4;
    }
  }
  uint32_t any_offset() {
    const uint32_t base = pick(config_.interfaces + 1) * stride_;
    switch (pick(9)) {
      case 0:
        return any32();
      case 8:  // MSI-X and statistics
        return base + 0x10000 + pick(one_in(2) ? 0x20000 : 0x100) / 4 * 4 + (one_in(4) ? 0x8000 : 0);
      case 1:
        return base + (one_in(8) ? pick(0x300) : pick(0x300) / 4 * 4);
      case 2:
        return base + list() + pick(0x200) / 4 * 4;
      case 3:
        return base + list() + 0x1000 * (1 + pick(7)) + pick(0x60) / 4 * 4;
      case 4:
        return base + channels() + pick(3) * (stride_ / 8) + pick(config_.tx_queues + 1) * 4;
      case 5:
        return base + list() * 2 + pick(0x200) / 4 * 4;
      default:
        return base + any_queue_register();
    }
  }
  uint32_t any_value() {
    const uint32_t argument = any32();
    switch (pick(12)) {
      case 0:
        return argument;
      case 1:
        return 0x80020000 | pick(4) << 8 | pick(9);
      case 2:
        return 0xc0000000 | (argument & 0xffffff);
      case 3:
      case 4:
        return 0x80800000 | (one_in(4) ? argument & 0xffff : pick(40));
      case 5:
        return 0x80900000 | (one_in(4) ? argument & 0xffff : pick(40));
      case 6:
        return 0x80910000 | pick(40);
      case 7:
        return 0x40000100 | (one_in(4) ? 0u : 1u);
      case 8:
        return 0x40000200 | pick(2);
      case 9:
        return static_cast<uint32_t>(kAddress) + pick(kPages + 2) * kPageBytes;
      case 10:
        return static_cast<uint32_t>(kAddress >> 32);
      default:
        return pick(4);
    }
  }

  void set_base(uint32_t queue) {
    bases_.push_back(pick(kPages + 1) * kPageBytes);
    card_->write32(queue, static_cast<uint32_t>(kAddress) + bases_.back());
    card_->write32(queue + 4, static_cast<uint32_t>(kAddress >> 32));
  }
  /// Brings most of the card up, so that the random steps meet a card that works.
  void bring_up() {
    bases_.clear();
    for (uint32_t i = 0; i < config_.interfaces; ++i) {
      const uint32_t base = i * stride_;
      const auto start = [&](uint32_t queue, uint32_t command, uint32_t targets) {
        set_base(queue);
        card_->write32(queue + command, 0x80020000 | pick(4) << 8 | pick(7));
        card_->write32(queue + command, 0xc0000000 | pick(targets));
        card_->write32(queue + command, 0x40000101);
        if (one_in(2)) card_->write32(queue + command, 0x40000201);
      };
      for (uint32_t q = 0; q < config_.event_queues; ++q) start(base + eq() + q * 16, 0x0c, config_.interrupts);
      for (uint32_t q = 0; q < config_.completion_queues; ++q) start(base + cq() + q * 16, 0x0c, config_.event_queues);
      for (uint32_t q = 0; q < config_.tx_queues; ++q) start(base + txq() + q * 32, 0x10, config_.completion_queues);
      for (uint32_t q = 0; q < config_.rx_queues; ++q) start(base + rxq() + q * 32, 0x10, config_.completion_queues);
      for (uint32_t p = 0; p < config_.ports_per_interface; ++p) {
        card_->write32(base + list() + 0x1000 * (1 + p) + 0x20, 1);
        card_->write32(base + list() + 0x1000 * (1 + p) + 0x24, 1);
        card_->write32(base + list() + 0x1000 * (1 + p) + 0x2c, 0x03000000 | pick(40000));
        card_->write32(base + list() + 0x1000 * (1 + config_.ports_per_interface + p) + 0x28, 1);
        for (uint32_t c = 0; c < config_.tx_queues; ++c) {
          card_->write32(base + channels() + p * (stride_ / 8) + c * 4, 3);
        }
      }
    }
  }

  /// A descriptor at a random place, with a length and an address that are sometimes valid.
  void put_descriptor() {
    size_t at = pick(kPages * kPageBytes / 16) * 16;
    if (!bases_.empty() && !one_in(4)) at = (bases_[pick(static_cast<uint32_t>(bases_.size()))] + pick(128) * 16);
    if (at >= kPages * kPageBytes) return;
    const uint64_t length = one_in(6) ? any32() : one_in(30) ? 0 : 1 + pick(2000);  // 0 ends all TX of the interface
    uint64_t address = one_in(6) ? random_() : kAddress + pick(kPages * kPageBytes + 100);
    if (pieces_ != 0 && one_in(4)) address = kAddress + pieces_ - pick(64);  // across the seam
    const uint64_t first = (any32() & 0xffff) << 16 | length << 32;
    std::memcpy(pages() + at, &first, 8);
    std::memcpy(pages() + at + 8, &address, 8);
  }

  void step() {
    switch (pick(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
        card_->write32(any_offset(), any_value());
        break;
      case 4:
        card_->read32(any_offset());
        break;
      case 5:
      case 6: {
        const uint32_t kind = pick(4), interface = pick(config_.interfaces);
        words_[(interface * 4 + kind) * 8192 + pick(20)] = any_value();
        break;
      }
      case 7:
        for (uint32_t i = 0; i < 64; ++i) put_descriptor();
        break;
      case 8:
        wires_[pick(static_cast<uint32_t>(wires_.size()))]->arrive(1 + pick(20));
        break;
      case 9:
        if (one_in(20)) {
          card_->reset();
          if (!one_in(4)) bring_up();
        }
        break;
      case 10:
        if (one_in(6)) remap();
        break;
      case 11:
        if (one_in(4)) {
          static constexpr uint32_t kControls[] = {0, 1, 1, 0x100, 0x101};
          const uint32_t port = pick(config_.interfaces) * stride_ + list() + 0x1000 * (1 + pick(3));
          card_->write32(port + (one_in(2) ? 0x20 : 0x24), kControls[pick(5)]);
        }
        if (one_in(200)) card_->remove();
        (void)card_->take_messages();
        break;
      default:
        run_card();
        break;
    }
  }

  void run_card() {
    now_ns_ += one_in(50) ? random_() >> 20 : pick(one_in(2) ? 3000 : 100000);
    if (one_in(4)) {
      const uint32_t base = pick(config_.interfaces) * stride_;
      for (uint32_t q = 0; q < config_.event_queues; ++q) card_->write32(base + eq() + q * 16 + 0x0c, 0x40000201);
      for (uint32_t q = 0; q < config_.completion_queues; ++q) card_->write32(base + cq() + q * 16 + 0x0c, 0x40000201);
    }
    const uint32_t budget = one_in(10) ? 70000 : pick(40);
    const uint32_t ports = config_.interfaces * config_.ports_per_interface;
    const uint64_t limit = uint64_t{ports} * (2 * uint64_t{budget} + 1) + config_.interrupts;
    EXPECT_LE(card_->run(now_ns_, budget), limit);
  }

  void remap() {
    if (memory_.unmap(kAddress, kPages * kPageBytes) != nullptr) {
      if (one_in(4)) return;
      // The same memory, mapped in two pieces.
      const size_t first = (1 + pick(kPages - 1)) * kPageBytes - (one_in(2) ? 8 : 0);
      memory_.map(kAddress, first, pages());
      memory_.map(kAddress + first, kPages * kPageBytes - first, pages() + first);
      pieces_ = first;
      return;
    }
    if (pieces_ != 0) {
      memory_.unmap(kAddress, pieces_);
      memory_.unmap(kAddress + pieces_, kPages * kPageBytes - pieces_);
      pieces_ = 0;
    }
    memory_.map(kAddress, kPages * kPageBytes, pages());
  }

  std::mt19937_64 random_;
  CardConfig config_;
  std::vector<uint8_t> host_;
  HostMemory memory_;
  std::vector<std::unique_ptr<AnyWire>> wires_;
  std::vector<uint32_t> words_;
  std::unique_ptr<Card> card_;
  std::vector<uint32_t> bases_;  // of the rings of bring_up, in the mapped pages
  uint32_t stride_ = 0;
  size_t pieces_ = 0;
  uint64_t now_ns_ = 0;
};

TEST(CardFuzz, AnyHost) {
  const char* text = std::getenv("UROCE_SEED");
  const uint64_t base = text != nullptr ? std::strtoull(text, nullptr, 0) : 1;
  std::printf("UROCE_SEED=%" PRIu64 ", %d rounds\n", base, CARD_FUZZ_ROUNDS);  // all that a crash leaves
  std::fflush(stdout);
  uint64_t frames = 0;
  for (uint64_t i = 0; i < CARD_FUZZ_ROUNDS; ++i) {
    SCOPED_TRACE("round with UROCE_SEED=" + std::to_string(base + i));
    Round round(base + i);
    round.run(1000);
    frames += round.frames();
    if (::testing::Test::HasFailure()) return;
  }
  std::printf("%" PRIu64 " frames\n", frames);
  EXPECT_GT(frames, CARD_FUZZ_ROUNDS * 10u) << "the rounds do not reach the data path any more";
}

}  // namespace
}  // namespace mqnic::card
