// A DPDK port's place on a segment (roce/segment): frames are copied between mbufs and the memory that members share.
//
// A member of a segment has one user at a time. An application may receive and send on different lcores, and ask for
// statistics on a third: every call takes a lock, so all may be called by any thread.
#pragma once

#include <rte_mbuf.h>
#include <rte_spinlock.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "pmd/shmlan/arguments.h"
#include "pmd/vdev/port.h"
#include "pmd/vdev/rx_buffers.h"
#include "pmd/vdev/rx_interrupt.h"
#include "segment/segment_port.h"

namespace uroce::shmlan {

struct StationCounters {
  uint64_t rx_packets = 0;
  uint64_t rx_bytes = 0;
  uint64_t rx_too_long = 0;  // more than the port's MTU, or than its buffers hold
  uint64_t rx_no_mbufs = 0;  // times that frames had to wait for the pool, or were cut short by it and lost
  uint64_t tx_packets = 0;
  uint64_t tx_bytes = 0;
  uint64_t tx_too_long = 0;   // more than a frame of the segment holds
  uint64_t tx_too_short = 0;  // no whole Ethernet header
};

using vdev::RxBuffers;

class Station final : public vdev::SoftwarePort {
 public:
  /// Joins. Returns nullptr, with one line in `error`, when that fails.
  static std::unique_ptr<Station> join(const Arguments& arguments, std::string& error);

  const MacAddress& mac() const override { return mac_; }
  uint16_t max_mtu() const override { return segment::kFrameBytes - vdev::kFrameOverhead; }
  vdev::Statistics statistics() const override;
  void set_rx_frame_bytes(uint32_t bytes) override;
  void discard_received() override;
  void enable_interrupt() override;
  void disable_interrupt() override;
  int interrupt_fd() const override { return interrupt_.fd(); }

  uint16_t receive(RxBuffers& buffers, rte_mbuf** mbufs, uint16_t max);
  /// Sends the first of the mbufs and frees them. Returns how many: fewer when the receivers are behind.
  uint16_t send(rte_mbuf** mbufs, uint16_t count);
  /// How many frames of other members wait to be received.
  uint32_t waiting() const;

 private:
  class Lock {
   public:
    explicit Lock(rte_spinlock_t& lock) : lock_(lock) { rte_spinlock_lock(&lock_); }
    ~Lock() { rte_spinlock_unlock(&lock_); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    rte_spinlock_t& lock_;
  };

  Station();
  void turn();
  bool take(const RxFrame& frame, RxBuffers& buffers);
  void fill(TxFrame& out, const rte_mbuf& mbuf);

  mutable rte_spinlock_t lock_;
  std::unique_ptr<segment::SegmentPort> port_;
  MacAddress mac_;
  vdev::RxInterrupt interrupt_;
  uint32_t rx_frame_bytes_ = segment::kFrameBytes;
  StationCounters counters_;
  uint64_t started_ = 0;  // in cycles of the TSC
  double ns_per_cycle_ = 0;
};

}  // namespace uroce::shmlan
