// What a driver of a software port supplies; what DPDK asks of such a port beside it is in this folder, once.
//
// Such a port has one RX and one TX queue without descriptors, no filter that could be changed, and counters of its
// own. Its driver supplies a class of port, and a `Driver` (driver.h) that says what all its ports have in common.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "uroce/address.h"

namespace uroce::vdev {

/// Extended statistics: each time the same names in the same order. Takes no memory, since they are read under the lock
/// of the data path; the names are constants.
class NamedCounters {
 public:
  static constexpr size_t kMost = 64;

  void add(const char* name, uint64_t value) {
    if (count_ < kMost) all_[count_++] = {name, value};
  }
  size_t size() const { return count_; }
  const std::pair<const char*, uint64_t>& operator[](size_t i) const { return all_[i]; }

 private:
  std::array<std::pair<const char*, uint64_t>, kMost> all_{};
  size_t count_ = 0;
};

/// What a port has counted since it was made.
struct Statistics {
  uint64_t rx_packets = 0;
  uint64_t rx_bytes = 0;
  uint64_t rx_missed = 0;    // dropped before the driver saw them
  uint64_t rx_errors = 0;    // dropped by the driver
  uint64_t rx_no_mbufs = 0;  // times that the pool was empty
  uint64_t tx_packets = 0;
  uint64_t tx_bytes = 0;
  uint64_t tx_errors = 0;
  NamedCounters named;
};

/// Ethernet header and one VLAN tag, which a frame has beyond the MTU.
inline constexpr uint32_t kFrameOverhead = 14 + 4;

struct Link {
  bool up = true;
  uint32_t mbps = 0;  // 0: unknown
};

/// An ethdev owns it until it is closed. Any thread may make any call at any time.
///
/// Not among them is what moves packets, since it is not called through a table; a class of port has it beside them:
///
///     uint16_t receive(RxBuffers& buffers, rte_mbuf** mbufs, uint16_t max);
///     uint16_t send(rte_mbuf** mbufs, uint16_t count);  // as a TX burst: frees those that it took
///     uint32_t waiting() const;                         // not needed: how many frames could be received
class SoftwarePort {
 public:
  virtual ~SoftwarePort() = default;

  virtual const MacAddress& mac() const = 0;
  virtual uint16_t max_mtu() const = 0;
  virtual Link link() const { return {}; }
  virtual Statistics statistics() const = 0;

  /// Longer frames are dropped.
  virtual void set_rx_frame_bytes(uint32_t bytes) = 0;
  /// Drops what came while the application did not receive.
  virtual void discard_received() = 0;

  /// Before the application sleeps: `interrupt_fd` becomes readable when there is something to do.
  virtual void enable_interrupt() = 0;
  virtual void disable_interrupt() = 0;
  virtual int interrupt_fd() const = 0;
};

}  // namespace uroce::vdev
