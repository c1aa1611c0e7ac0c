// A DPDK port over the kernel's UDP sockets: RoCEv2 without any privilege (doc/net_udp.md).
//
// Frames and mbufs are on one side, sockets on the other. An application may receive and send on different lcores, and
// ask for statistics on a third: every call takes a lock, so all may be called by any thread.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/ring.h"
#include "pmd/udp/arguments.h"
#include "pmd/udp/inbox.h"
#include "pmd/udp/interface.h"
#include "pmd/udp/neighbour_answers.h"
#include "pmd/udp/outbox.h"
#include "pmd/udp/sockets.h"
#include "pmd/vdev/port.h"
#include "pmd/vdev/rx_buffers.h"
#include "pmd/vdev/rx_interrupt.h"

namespace uroce::udp {

struct PortCounters {
  uint64_t rx_packets = 0;
  uint64_t rx_bytes = 0;
  uint64_t rx_too_long = 0;     // more than the port's MTU, or than its buffers hold
  uint64_t rx_no_mbufs = 0;     // times that packets had to wait for the pool
  uint64_t rx_foreign_ids = 0;  // identifications that our kind does not send
  uint64_t rx_bad_icrc = 0;     // no identification makes the iCRC right; the application gets the packet all the same
  uint64_t tx_no_address = 0;   // from an address whose UDP port 4791 we do not have
  uint64_t tx_not_ours = 0;     // in mbufs that are shared, or of several pieces
  uint64_t tx_not_roce = 0;     // other frames, which end here
  uint64_t neighbour_answers = 0;
};

using vdev::RxBuffers;

class SocketPort final : public vdev::SoftwarePort {
 public:
  /// Finds the interface and takes the addresses' ports. Returns nullptr, with one line in `error`, when that fails.
  static std::unique_ptr<SocketPort> open(const Arguments& arguments, std::string& error);

  const MacAddress& mac() const override { return mac_; }
  uint16_t max_mtu() const override;
  vdev::Link link() const override;
  vdev::Statistics statistics() const override;
  void set_rx_frame_bytes(uint32_t bytes) override;
  void discard_received() override;
  void enable_interrupt() override;
  void disable_interrupt() override;
  int interrupt_fd() const override { return interrupt_.fd(); }

  uint16_t receive(RxBuffers& buffers, rte_mbuf** mbufs, uint16_t max);
  /// Takes so many of the mbufs, and frees them; fewer when a socket has no room. Those that are left are then the last
  /// ones of the array.
  uint16_t send(rte_mbuf** mbufs, uint16_t count);

 private:
  struct Answer {
    std::array<uint8_t, kAnswerBytes> frame{};
    uint32_t bytes = 0;
  };

  SocketPort();
  bool take_address(const IpAddress& ip, std::string& error);
  void try_address(const IpAddress& ip);
  void forget_addresses();
  bool on_other_frame(std::span<const uint8_t> frame);
  void answer(std::span<const uint8_t> question, const NeighbourFrame& heard);
  void queue(rte_mbuf& mbuf, uint32_t tag);
  uint32_t send_burst(rte_mbuf** mbufs, uint32_t count);
  bool read_more();
  bool read_another();
  bool take_answer(RxBuffers& buffers, rte_mbuf*& out);
  bool take(const InDatagram& datagram, RxBuffers& buffers, rte_mbuf*& out);
  void complain(const OutFrame& frame, int code);

  mutable std::mutex mutex_;
  std::string device_;
  Netdev netdev_;
  MacAddress mac_;
  Sockets sockets_;
  vdev::RxInterrupt interrupt_;
  Inbox inbox_;
  Outbox outbox_;
  Ring<Answer> answers_;
  const AddressSockets* active_ = nullptr;  // where something came last
  uint32_t reads_ = 0;
  bool look_everywhere_ = true;
  std::vector<IpAddress> refused_;  // addresses that could not be had, of which it was said
  std::array<bool, 2> said_{};      // too long, unreachable
  uint32_t rx_frame_bytes_ = UINT16_MAX;
  PortCounters counters_;
};

}  // namespace uroce::udp
