// One end of a reliable connection under test: posts mixed operations to its peer, and knows what each must do.
//
// The oracle is program order. A WRITE or an atomic changes the model of the peer's memory when it is posted; a READ
// notes then what it must return. What the transport may do out of that order (a READ's memory is looked at late, and
// again on a retry) is excluded by a fence where a later operation would change what an earlier READ returns.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "oracle/landing.h"
#include "oracle/options.h"
#include "oracle/receiver.h"
#include "oracle/retry_wait.h"
#include "oracle/verdict.h"
#include "sim/testbed.h"

namespace uroce::oracle {

/// What all ends on one host share.
struct HostShare {
  sim::Buffer source;   // random bytes that never change
  sim::Buffer counter;  // one word that everybody adds to
  uint64_t counter_adds = 0;
  std::vector<bool> counter_seen;  // which values FETCH_ADDs have returned
  std::vector<Leap> leaps;
  uint64_t counter_unsure = 0;  // of counter_adds: FETCH_ADDs of QPs that gave up, carried out or not
};

class RcEnd {
 public:
  RcEnd(const sim::Side& side, Receiver& receiver, HostShare& share, const MixedOptions& options, uint64_t seed,
        uint64_t ops, Verdict& verdict);

  void set_peer(RcEnd& peer) { peer_ = &peer; }

  // When a connection ends before its time (rc_break.cc).
  /// The QP gave up, as far as its completions have told.
  bool broken() const { return broken_; }
  /// It is silenced on purpose: everything flushed from now on is in order. `vanished`: without a word.
  void stop(bool vanished);
  /// All completions are here, and nothing more can happen to the memory: it must be what some part of the operations
  /// that are not known to be done, or all, or none, have made of it. Both ends, before either's `restart`.
  void check_broken();
  void restart();
  void set_qp(Qp& qp) { side_.qp = &qp; }
  /// Its engine is another one.
  void move_to(const sim::Side& side);
  Qp& qp() { return *side_.qp; }
  const Qp& qp() const { return *side_.qp; }
  const sim::Buffer& target() const { return target_; }

  /// Posts what there is room for.
  void post_some();
  void on_sent(const Completion& completion);
  void on_received(const Completion& completion);
  bool done() const { return !stopped_ && !broken_ && ops_left_ == 0 && pending_.empty() && incoming_.empty(); }
  bool waits() const { return !stopped_ && !pending_.empty(); }
  bool idle() const { return ops_left_ == 0 && pending_.empty(); }
  /// At the very end: memory is what the model says.
  void check_memory();
  uint64_t posted_bytes() const { return posted_bytes_; }
  uint64_t received() const { return received_; }
  std::string state() const;

 private:
  /// A message that must arrive here.
  struct Incoming {
    WcOpcode opcode;
    uint8_t flags;
    uint32_t bytes;
    uint32_t imm_or_rkey;
    std::vector<Span> pieces;  // of the sender's source; empty for WRITE with immediate
    uint64_t wr_id = 0;
  };
  struct Pending {
    uint64_t wr_id;
    WrOpcode opcode;
    bool signalled;
    uint32_t bytes;
    uint32_t remote_offset;  // READ: what may not change meanwhile
    Landing::Place landing;  // where READ data and atomic results go
    std::vector<uint8_t> expected;
    bool shared_counter = false;
    // What it does to the peer's memory; kept only when connections may end.
    uint32_t changed_offset = 0;
    std::vector<uint8_t> before;
    std::vector<uint8_t> after;
  };
  enum class Window : uint8_t { kUnbound, kBinding, kBound, kInvalidating, kReleasing };

  // rc_post.cc
  bool post_one();
  WrOpcode draw_opcode();
  uint32_t draw_length();
  std::vector<Span> draw_source(uint32_t bytes);
  bool draw_landing(Pending& op);
  void overlap_fence(SendWr& wr, uint32_t offset, uint32_t bytes);
  bool prepare(SendWr& wr, Pending& op);
  bool prepare_send(SendWr& wr, Pending& op);
  bool prepare_write(SendWr& wr, Pending& op);
  bool prepare_read(SendWr& wr, Pending& op);
  bool prepare_atomic(SendWr& wr, Pending& op);
  bool prepare_bind(SendWr& wr, Pending& op);
  void choose_remote(SendWr& wr, uint32_t bytes, uint32_t& offset);
  bool submit(SendWr& wr, Pending&& op);

  void note_before(Pending& op, uint32_t offset, uint32_t bytes);
  void note_after(Pending& op);

  // rc_break.cc
  void on_failed(const Completion& completion);
  void on_flushed_receive(const Completion& completion);
  bool explained(uint32_t offset) const;
  void note_progress() { wait_.begin(side_, share_.leaps); }

  // rc_check.cc
  bool retire_before(const Completion& completion);
  void retire(const Pending& op);
  void check_landing(const Pending& op);
  void check_message(const Incoming& message, const Receiver::Slot& slot);

  sim::Side side_;
  Receiver& receiver_;
  HostShare& share_;
  HostShare* peer_share() { return &peer_->share_; }
  MixedOptions options_;
  SeededRandom random_;
  Verdict& verdict_;
  RcEnd* peer_ = nullptr;

  sim::Buffer target_;          // what the peer writes and reads
  std::vector<uint8_t> model_;  // of target_
  Landing landing_;

  Window window_ = Window::kUnbound;
  uint32_t window_key_ = 0;
  uint32_t window_offset_ = 0;
  uint32_t window_bytes_ = 0;

  std::deque<Pending> pending_;
  std::deque<Incoming> incoming_;
  std::vector<Span> source_;           // of the operation being posted
  std::vector<uint8_t> inline_bytes_;  // scribbled over as soon as it is posted
  std::vector<Sge> sges_;
  std::vector<Pending> unsure_;  // of a QP that gave up
  bool stopped_ = false;
  bool vanished_ = false;
  bool broken_ = false;
  RetryWait wait_;          // since progress was seen
  uint64_t last_done_ = 0;  // wr_id that is known to have succeeded
  uint64_t next_wr_id_ = 1;
  uint32_t unsignalled_ = 0;
  uint64_t ops_left_;
  uint64_t posted_bytes_ = 0;
  uint64_t received_ = 0;
};

inline constexpr uint32_t kAtomicWords = 64;
inline constexpr uint32_t kQueueDepth = 64;

}  // namespace uroce::oracle
