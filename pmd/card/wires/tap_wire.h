// A TAP interface of the kernel at the other end of the cable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pmd/card/wire.h"

namespace mqnic::card {

class TapWire final : public Wire {
 public:
  /// Makes the interface, or takes an existing one that nobody uses. Sets it up, with jumbo frames.
  static std::unique_ptr<Wire> open(const std::string& interface, std::string& error);
  ~TapWire() override;
  TapWire(const TapWire&) = delete;
  TapWire& operator=(const TapWire&) = delete;

  bool connected() override { return true; }
  std::span<uint8_t> reserve(size_t bytes) override;
  void commit(size_t bytes) override;
  std::span<const uint8_t> front() override;
  void pop() override { received_bytes_ = 0; }
  void flush(uint64_t) override {}

 private:
  explicit TapWire(int fd);

  int fd_;
  std::vector<uint8_t> sent_;
  std::vector<uint8_t> received_;
  size_t received_bytes_ = 0;
};

}  // namespace mqnic::card
