// Packets that arrived before their turn, kept until the gap in front of them closes.
//
// Copies: nothing of them reaches the program's memory, and no key or length is checked, before the packet is taken out
// in its turn and goes the ordinary way. One pool bounds what all QPs of an engine keep together. A QP is given a slot
// only while it has no more than are left: one alone may use half of the pool, n in need share it in n + 1 parts. What
// a QP holds for a peer that has fallen silent is dropped when another one needs slots.
//
// Packets whose PSNs touch form a run. Runs are what a selective ACK tells, and between them lie the gaps.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "uroce/psn.h"
#include "uroce/time.h"
#include "wire/packet.h"
#include "wire/sack.h"

namespace uroce {

class ReorderBuffer;

class ReorderPool {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  /// For so long nothing may come to a buffer before others may take its slots: longer than any path's round trip.
  static constexpr Duration kSilence = milliseconds(1000);

  /// Memory is taken when the first QP calls `prepare`.
  ReorderPool(uint32_t packets, uint32_t mtu) : packets_(packets), slot_bytes_(kMaxExtension + mtu) {}
  void prepare();

  uint32_t free() const { return free_; }
  /// The largest payload that fits.
  uint32_t mtu() const { return slot_bytes_ - kMaxExtension; }

 private:
  friend class ReorderBuffer;
  static constexpr uint32_t kMaxExtension = 32;

  struct Slot {
    Bth bth;
    const OpcodeInfo* info = nullptr;
    uint32_t payload_bytes = 0;
    Psn end;                // behind its PSNs
    uint32_t next = kNone;  // packet of the run, or free slot
    // Of a run's first packet only.
    uint32_t last = kNone;  // packet of the run
    uint32_t run_before = kNone;
    uint32_t run_after = kNone;
    uint32_t older = kNone;  // by the time of their last change
    uint32_t newer = kNone;
    Instant asked_at{0};    // for what lies in the gap before it; 0: never
    uint64_t arrivals = 0;  // that there were when the gap appeared
  };

  void put_last(ReorderBuffer& buffer);
  void put_off(ReorderBuffer& buffer);
  bool reclaim(const ReorderBuffer& for_whom, Instant now);
  uint32_t take();
  void give_back(uint32_t slot);
  uint8_t* bytes(uint32_t slot) { return bytes_.get() + size_t{slot} * slot_bytes_; }

  uint32_t packets_;
  uint32_t slot_bytes_;
  uint32_t free_ = 0;
  uint32_t first_free_ = kNone;
  uint32_t untouched_ = 0;                   // slots from here on were never used
  ReorderBuffer* longest_silent_ = nullptr;  // of those that hold something, in the order of their last arrivals
  ReorderBuffer* latest_ = nullptr;
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<uint8_t[]> bytes_;
};

class ReorderBuffer {
 public:
  static constexpr uint32_t kNone = ReorderPool::kNone;
  enum class Result : uint8_t {
    kHeld,
    kAgain,  // held already, or it overlaps with what is
    kFull,
  };

  /// Without a pool everything is kFull.
  explicit ReorderBuffer(ReorderPool* pool) : pool_(pool) {}
  ~ReorderBuffer() { clear(); }
  ReorderBuffer(const ReorderBuffer&) = delete;
  ReorderBuffer& operator=(const ReorderBuffer&) = delete;

  /// `psns`: how many the packet takes. All that is held must lie within a quarter of the circle.
  Result hold(const PacketView& packet, uint32_t psns, Instant now);
  /// Takes out the packet that begins at `psn`; what lies before it is dropped. The view is good until the next `hold`,
  /// and has no headers below the BTH. False: there is none.
  bool take(Psn psn, PacketView& packet);
  void clear();

  bool empty() const { return packets_ == 0; }
  uint32_t packets() const { return packets_; }

  /// Runs, the one that changed last first. Returns how many were written.
  uint32_t recent(std::span<SackRange> ranges) const;

  // Runs in order, by number. A run's number changes with its first packet.
  uint32_t first_run() const { return first_run_; }
  /// The one that changed last.
  uint32_t newest_run() const { return newest_; }
  uint32_t run_after(uint32_t run) const { return pool_->slots_[run].run_after; }
  SackRange range(uint32_t run) const;
  /// What belongs to the gap before the run.
  Instant& asked_at(uint32_t run) { return pool_->slots_[run].asked_at; }
  uint64_t& arrivals(uint32_t run) { return pool_->slots_[run].arrivals; }

 private:
  friend class ReorderPool;
  bool may_hold(const PacketView& packet) const;
  ReorderPool::Slot& slot(uint32_t n) const { return pool_->slots_[n]; }
  void store(uint32_t n, const PacketView& packet, Psn end);
  void insert_run(uint32_t run, uint32_t before, uint32_t after);
  void remove_run(uint32_t run);
  void move_run(uint32_t from, uint32_t to);
  void link_newest(uint32_t run);
  void unlink_age(uint32_t run);
  void drop_first();

  ReorderPool* pool_;
  uint32_t packets_ = 0;
  uint32_t first_run_ = kNone;
  uint32_t last_run_ = kNone;
  uint32_t newest_ = kNone;
  // Among the pool's buffers that hold something.
  Instant arrival_{0};  // the latest
  ReorderBuffer* silent_longer_ = nullptr;
  ReorderBuffer* silent_shorter_ = nullptr;
};

}  // namespace uroce
