// Another DPDK port at the other end of the cable: wire=port:NAME.
#pragma once

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "pmd/card/wire.h"

namespace mqnic::ethdev {

/// The port is taken from the application's list (it gets an owner), configured when the card's port first receives,
/// and given back, stopped, at the end. It has to be there before the card: earlier on the command line.
class EthdevWire final : public card::Wire {
 public:
  static std::unique_ptr<card::Wire> open(const std::string& port_name, std::string& error);
  ~EthdevWire() override;
  EthdevWire(const EthdevWire&) = delete;
  EthdevWire& operator=(const EthdevWire&) = delete;

  bool connected() override { return link_up_; }
  void set_receiving(bool receiving) override;
  std::span<uint8_t> reserve(size_t bytes) override;
  void commit(size_t bytes) override;
  std::span<const uint8_t> front() override;
  void pop() override;
  void flush(uint64_t now_ns) override;

 private:
  static constexpr uint16_t kBurst = 32;

  EthdevWire(uint16_t port, uint64_t owner, std::string name)
      : port_(port), owner_(owner), name_(std::move(name)), linear_(kFrameBytesMax) {}

  static constexpr size_t kFrameBytesMax = 10240;

  std::string start();
  std::string set_queues();
  void send_waiting();

  uint16_t port_;
  uint64_t owner_;
  std::string name_;
  rte_mempool* pool_ = nullptr;
  bool tried_ = false;
  bool started_ = false;
  bool link_up_ = false;
  uint64_t next_look_ns_ = 0;

  rte_mbuf* open_ = nullptr;  // is being filled
  std::array<rte_mbuf*, kBurst> sent_{};
  uint16_t sent_count_ = 0;
  std::array<rte_mbuf*, kBurst> received_{};
  uint16_t received_count_ = 0;
  uint16_t received_next_ = 0;
  std::vector<uint8_t> linear_;  // a frame in several pieces, in one
};

}  // namespace mqnic::ethdev
