// Interrupt vectors with a minimum interval (irq_rate_limit.v): a vector that is requested while its timer runs fires
// when the timer ends.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace mqnic::card {

class Interrupts {
 public:
  static constexpr uint32_t kDefaultIntervalUs = 10;

  explicit Interrupts(unsigned count) : vectors_(count) { running_.reserve(count); }

  void set_handler(std::function<void(unsigned)> handler) { handler_ = std::move(handler); }
  uint32_t interval_us() const { return interval_us_; }
  void set_interval_us(uint32_t value) { interval_us_ = value & 0xffff; }
  size_t count() const { return vectors_.size(); }

  void request(unsigned vector, uint64_t now_ns);
  /// Fires the vectors that have become due. Returns how many.
  uint32_t run(uint64_t now_ns);
  void reset();

 private:
  struct Vector {
    uint64_t until_ns = 0;
    bool running = false, pending = false;
  };
  void fire(unsigned number, uint64_t now_ns);

  std::vector<Vector> vectors_;
  std::vector<uint16_t> running_;
  std::function<void(unsigned)> handler_;
  uint32_t interval_us_ = kDefaultIntervalUs;
};

}  // namespace mqnic::card
