// What a capture says of each packet: whose it is, which queue pair's, and with whom that talks.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace uroce::launcher {

class PacketComments {
 public:
  /// "ib_write_bw[1234] QP 0x000101 to 10.0.0.1 QP 0x002101", or "... from ..." for one that was received; as far as it
  /// is known. `frame` is whole. `qpn`: of the local queue pair that sent it; 0: not known. To be called in the order
  /// in which packets were sent: the peer of a connection is known by what it sent, or was sent.
  std::string describe(const std::string& program, bool sent, uint32_t qpn, std::span<const uint8_t> frame);

 private:
  using End = std::pair<std::array<uint8_t, 16>, uint32_t>;  // address and queue pair
  void connect(const End& one, const End& other);
  std::optional<uint32_t> peer_of(const End& end) const;

  std::map<End, uint32_t> peers_;  // the queue pair at the other end of a connection
};

}  // namespace uroce::launcher
