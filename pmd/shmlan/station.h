// A DPDK port's place on a segment (roce/segment): frames are copied between mbufs and the memory that members share.
//
// A member of a segment has one user at a time. An application may receive and send on different lcores, and ask for
// statistics on a third: every call takes a lock, so all may be called by any thread.
#pragma once

#include <rte_mbuf.h>
#include <rte_spinlock.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "pmd/shmlan/arguments.h"
#include "pmd/shmlan/rx_interrupt.h"
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

/// Where received frames go: mbufs of one pool, taken in advance.
struct RxBuffers {
  rte_mempool* pool = nullptr;
  uint16_t port_id = 0;
  bool scatter = false;  // a frame may be in several segments
  uint32_t count = 0;
  std::array<rte_mbuf*, Port::kMaxBurst> ready{};

  /// Returns false when the pool is empty, and none is ready.
  bool fill();
  void drop();
};

class Station {
 public:
  /// Joins. Returns nullptr, with one line in `error`, when that fails.
  static std::unique_ptr<Station> join(const Arguments& arguments, std::string& error);

  const MacAddress& mac() const { return mac_; }
  /// Longer frames are dropped.
  void set_rx_frame_bytes(uint32_t bytes);

  uint16_t receive(RxBuffers& buffers, rte_mbuf** mbufs, uint16_t max);
  /// Sends the first of the mbufs and frees them. Returns how many: fewer when the receivers are behind.
  uint16_t send(rte_mbuf** mbufs, uint16_t count);
  /// How many frames of other members wait to be received.
  uint32_t waiting() const;
  /// Drops the frames that came while the application did not receive.
  void discard_received();

  /// Before the application sleeps: `interrupt_fd` becomes readable when there is something to do.
  void enable_interrupt();
  void disable_interrupt();
  int interrupt_fd() const { return interrupt_.fd(); }

  StationCounters counters() const;
  segment::SegmentCounters segment_counters() const;

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
  RxInterrupt interrupt_;
  uint32_t rx_frame_bytes_ = segment::kFrameBytes;
  StationCounters counters_;
  uint64_t started_ = 0;  // in cycles of the TSC
  double ns_per_cycle_ = 0;
};

}  // namespace uroce::shmlan
