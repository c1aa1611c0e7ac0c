// wire=port:NAME: the other end of the cable is another DPDK port of this process (a NIC, net_memif, net_af_packet,
// ...), which has to be probed before this one. The port then belongs to the wire, and applications do not see it any
// more.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "pmd/card/wire.h"

namespace mqnic::ethdev {

class PortWire final : public card::Wire {
 public:
  /// Returns nullptr, with one line in `error`, when something is wrong.
  static std::unique_ptr<PortWire> open(const std::string& port_name, std::string& error);
  ~PortWire() override;

  bool connected() override { return link_up_; }
  std::span<uint8_t> reserve(size_t bytes) override;
  void commit(size_t bytes) override;
  std::span<const uint8_t> front() override;
  void pop() override;
  void flush(uint64_t now_ns) override;

 private:
  static constexpr uint16_t kBurst = 32;

  PortWire() = default;
  std::string start(const std::string& port_name);
  void send();

  uint16_t port_ = UINT16_MAX;
  bool started_ = false;
  uint64_t owner_ = 0;
  rte_mempool* pool_ = nullptr;
  bool link_up_ = false;
  uint64_t link_seen_ns_ = 0;
  rte_mbuf* open_ = nullptr;  // reserved
  std::array<rte_mbuf*, kBurst> out_{};
  uint16_t out_count_ = 0;
  std::array<rte_mbuf*, kBurst> in_{};
  uint16_t in_count_ = 0, in_next_ = 0;
  std::vector<uint8_t> joined_;  // for a frame that came in several segments
};

}  // namespace mqnic::ethdev
