// Somebody who posts receives, often too late: for one QP, or for all that share a queue.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/random.h"
#include "oracle/verdict.h"
#include "sim/testbed.h"

namespace uroce::oracle {

class Receiver {
 public:
  static constexpr uint8_t kCanary = 0xC5;
  static constexpr uint32_t kGuardBytes = 64;  // after each piece of a receive

  struct Slot {
    sim::Buffer buffer;
    std::vector<Sge> sges;
    bool posted = false;
  };

  /// `slots` receives of `bytes` each. `srq`: none, the QP's own queue.
  Receiver(const sim::Side& side, SharedReceiveQueue* srq, uint32_t slots, uint32_t bytes, RandomSource& random);

  void set_qp(Qp* qp) { side_.qp = qp; }
  /// Its engine is another one. Nothing is posted there.
  void move_to(const sim::Side& side, SharedReceiveQueue* srq);
  /// Sometimes posts some; `all`: posts everything that is free.
  void post(bool all, Verdict& verdict);
  /// The slot of a completion, which must be the oldest posted. nullptr, and a verdict, if it is not.
  Slot* complete(uint64_t wr_id, Verdict& verdict);
  /// After its bytes were looked at: makes it ready for the next post.
  void recycle(Slot& slot, uint32_t used_bytes);
  /// Where byte `offset` of the message lies, and how many follow it in the same piece.
  static std::pair<const uint8_t*, uint32_t> find(const Slot& slot, uint32_t offset);
  /// The receive was given up, and nobody knows what is in it: makes it ready for the next post.
  void wipe(Slot& slot);
  /// The QP forgot its receives.
  void take_back();
  /// Nothing was written after the first `used_bytes`, as far as the guards tell. `restarted`: a message that was lost
  /// may have left something in the receive before this one (UC).
  static bool rest_untouched(const Slot& slot, uint32_t used_bytes, bool restarted = false);

 private:
  void post_one(uint32_t index, Verdict& verdict);
  void make_free(const Slot& slot);

  sim::Side side_;
  SharedReceiveQueue* srq_;
  RandomSource& random_;
  std::vector<Slot> slots_;
  std::deque<uint32_t> free_;
  std::deque<uint64_t> posted_;
  uint32_t lazy_percent_;
};

}  // namespace uroce::oracle
