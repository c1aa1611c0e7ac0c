// Files at the other end of the cable: classic pcap with Ethernet frames, micro- or nanoseconds, in either byte order.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pmd/card/wire.h"

namespace mqnic::card {

/// From the moment when the port begins to receive, the frames of the file arrive as fast as the card takes them. What
/// the card sends is written with the time of day in nanoseconds.
class PcapWire final : public Wire {
 public:
  /// `argument` is "IN", "IN:OUT" or ":OUT". Returns nullptr when a file cannot be used; `error` says why.
  static std::unique_ptr<Wire> open(const std::string& argument, std::string& error);

  bool connected() override { return true; }
  void set_receiving(bool receiving) override { receiving_ = receiving; }
  std::span<uint8_t> reserve(size_t bytes) override;
  void commit(size_t bytes) override;
  std::span<const uint8_t> front() override;
  void pop() override { played_bytes_ = 0; }
  void flush(uint64_t now_ns) override;

  /// Why playing or recording ended early.
  std::string take_message() override { return std::exchange(trouble_, {}); }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;

  PcapWire();
  bool open_input(const std::string& path, std::string& error);
  bool open_output(const std::string& path, std::string& error);
  bool read_record();
  uint32_t word(const uint8_t* at) const;

  File input_;
  File output_;
  bool swapped_ = false;
  bool receiving_ = false;
  bool written_ = false;  // since the last flush
  std::vector<uint8_t> played_;
  std::vector<uint8_t> sent_;
  size_t played_bytes_ = 0;
  std::string trouble_;
};

}  // namespace mqnic::card
