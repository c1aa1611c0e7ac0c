// Packets that arrived before their turn, kept until the gap in front of them closes.
//
// They are copies: nothing of them reaches the program's memory, and no key or length is checked, before the packet is
// taken out in its turn and is treated like any other. One pool bounds what all QPs of an engine keep together. A QP is
// given a slot only while it has no more slots than are free: a single QP may use half of the pool, and n that need
// slots get 1/(n + 1) each. What a QP holds for a peer that has fallen silent is dropped when another one needs slots.
//
// Packets whose PSNs are adjacent form a run. A selective ACK lists runs, and between them lie the gaps.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "packet/packet.h"
#include "packet/sack.h"
#include "uroce/psn.h"
#include "uroce/time.h"

namespace uroce {

class ReorderBuffer;

class ReorderPool {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  /// When nothing has come to a buffer for so long, other buffers may take its slots. Longer than the round trip of any
  /// path.
  static constexpr Duration kSilence = milliseconds(1000);

  /// The memory is allocated when the first QP calls `prepare`.
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
    Psn end;                // the PSN behind the last of its own
    uint32_t next = kNone;  // the next packet of the run, or the next free slot
    // The following are valid in the first packet of a run only.
    uint32_t last = kNone;  // the last packet of the run
    uint32_t run_before = kNone;
    uint32_t run_after = kNone;
    uint32_t older = kNone;  // the runs are linked by the time of their last change
    uint32_t newer = kNone;
    Instant asked_at{0};    // when the gap before it was asked for; 0: never
    uint64_t arrivals = 0;  // the number of arrivals when the gap appeared
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
  uint32_t untouched_ = 0;                   // the slots from this on were never used
  ReorderBuffer* longest_silent_ = nullptr;  // the buffers that hold something, in the order of their last arrivals
  ReorderBuffer* latest_ = nullptr;
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<uint8_t[]> bytes_;
};

class ReorderBuffer {
 public:
  static constexpr uint32_t kNone = ReorderPool::kNone;
  enum class Result : uint8_t {
    kHeld,
    kAgain,  // it is held already, or overlaps with what is
    kFull,
  };

  /// Without a pool, `hold` always returns kFull.
  explicit ReorderBuffer(ReorderPool* pool) : pool_(pool) {}
  ~ReorderBuffer() { clear(); }
  ReorderBuffer(const ReorderBuffer&) = delete;
  ReorderBuffer& operator=(const ReorderBuffer&) = delete;

  /// Holds a copy of the packet, which takes `psns` PSNs. All that is held must lie within a quarter of the PSN circle.
  Result hold(const PacketView& packet, uint32_t psns, Instant now);
  /// Takes out the packet that begins at `psn`, and drops those before it. The view is valid until the next `hold`, and
  /// has no headers below the BTH. False when no such packet is held.
  bool take(Psn psn, PacketView& packet);
  void clear();

  bool empty() const { return packets_ == 0; }
  uint32_t packets() const { return packets_; }

  /// Writes the runs, the one that changed last first. Returns how many were written.
  uint32_t recent(std::span<SackRange> ranges) const;

  // Runs in the order of their PSNs, by number. The number of a run changes with its first packet.
  uint32_t first_run() const { return first_run_; }
  /// The run that changed last.
  uint32_t newest_run() const { return newest_; }
  uint32_t run_after(uint32_t run) const { return pool_->slots_[run].run_after; }
  SackRange range(uint32_t run) const;
  /// When the gap before the run was asked for, and the number of arrivals when it appeared. The user of the buffer
  /// keeps them here.
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
  // Its place among the pool's buffers that hold something.
  Instant arrival_{0};  // of the latest packet
  ReorderBuffer* silent_longer_ = nullptr;
  ReorderBuffer* silent_shorter_ = nullptr;
};

}  // namespace uroce
