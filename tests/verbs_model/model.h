// What verbs promise, in a form that a machine can be held to. The model is told everything that a program does and
// everything that it gets back; it knows no packets and no time, only what may be, what must be and what cannot be.
//
// The rules, in plain words:
//
// Posting. A work request is refused with EINVAL when the queue pair is in RESET, when it has too many elements, too
//   much inline data, more than 2^31 bytes (UD: more than the port's MTU), when an atomic has not 8 bytes, or when the
//   type does not have the operation. It is refused with ENOMEM when as many are posted as the queue has room for and
//   no completion that retires one of them was polled. Nothing else is refused.
//
// Completions of a send queue come in the order of the posts. Success is reported when it was asked for, an error
//   always. A completion says that all earlier requests of its queue were carried out. The first error ends the queue:
// everything behind it is flushed, each exactly once, signalled or not. What is posted behind a request that cannot
// succeed cannot succeed either.
// - LOC_PROT: an element that is used has a key that is not valid, of another PD or without the right, or reaches
//   beyond its region; of a receive only as far as the message fills it. A READ or atomic finds that out after the peer
//   has carried it out.
// - REM_ACCESS: the peer's key, range or right is wrong. A READ or WRITE of no bytes has no key to be wrong.
// - REM_INV_REQ: the operation is not enabled there, an atomic is not aligned, or a message is longer than its receive.
// - REM_OP: the receive that the message met was unusable, or the completion queue there had no room for its
//   completion, or a region that is read went away meanwhile.
// - RNR_RETRY_EXC: receives were missing, and retries are counted. RETRY_EXC: the peer is gone, or more frames are
//   lost than there are retries. MW_BIND: a window is bound in vain, and is what it was before.
// - A key that changes while a request is under way may be valid for it or not: both are right.
//
// Receives complete in the order of posting (on a shared queue in any order), with the messages in the order in
//   which they were sent: on RC each once, without a gap; on UC and UD each at most once, unless the network repeats or
//   reorders; and on a network without faults each that finds a receive. Length, immediate data, flags and source are
//   the message's, and the GRH of a datagram names its sender. A message that was acknowledged to its sender
//   has a completion at the receiver. An error takes the queue pair down, and all other receives are flushed.
//
// Memory. Nothing outside of what a work request names changes, ever.
// - A receive, and the memory that READs and atomics fill, has exactly the message, and keeps its other bytes. When it
//   failed, was flushed or forgotten, each byte is what it was or what should have come there. After its completion, or
//   after RESET or destruction, it belongs to the program: nothing writes there any more.
// - A WRITE that succeeded is there. One that failed may be there in whole or in part, byte by byte, but nothing from
// the
//   packet on in which its first unusable element lies, and nothing when its key was wrong. If several write the same
//   byte, it has what one of the last wrote: a writer is not among the last when another that succeeded began after its
//   end, or stands behind it in the same send queue.
// - A READ returns for each byte something that was there between its post and its completion; earlier WRITEs of its
//   queue are seen. Later ones may be seen too, unless one of them is fenced.
// - Each FETCH_ADD and COMPARE_SWAP that succeeded was carried out once, one that failed at most once, and what they
//   return is what was there before.
//
// States. A queue pair goes to ERR when the program says so, when one of its completions is in error (UC and UD: an
//   error of a send makes it SQE), when its peer asks for what is not allowed, or when a completion queue has no room
//   for its completion. In ERR everything that is posted is flushed. RESET and destruction forget what is posted, and
//   take the queue pair's completions out of its queues, no others. In SQD nothing new begins.
// - A completion queue has room for what it was made for. It may overrun only when more could be in it.
//
// Time. Every completion carries one, not before its post and not in the future. A queue pair that gives up for want of
//   an answer has waited for one as often as it has retries, but for those that a NAK asked for; a clock that leaps
//   ends one wait.
//
// Rest. When nothing happens any more, everything that was posted has completed, unless it waits for receives (with
//   rnr_retry 7) or in SQD. At the end everything can be freed.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "verbs_model/machine.h"
#include "verbs_model/memory.h"
#include "verbs_model/program.h"
#include "verbs_model/verdict.h"

namespace uroce::model {

enum class Sure : uint8_t { kNo, kMaybe, kYes };

/// What is expected of the machine; all of it by default.
struct Rules {
  bool slots_until_polled = true;       // a send queue slot is free once its completion was polled, not earlier
  bool reset_takes_completions = true;  // RESET and destruction remove the queue pair's completions
  bool times = true;                    // completions have time stamps
  bool causes = true;                   // completions have causes
  bool arrival = true;                  // packets sent on a clean cable arrive
  bool rest = true;                     // an idle machine comes to rest
  bool exact_queues = true;             // queues have the requested size, not more
  uint32_t port_mtu = 4096;
  bool planted_mistake = false;  // the model wrongly expects RECV for a WRITE with immediate, to test the shrinker
};

class Model {
 public:
  /// `extra`: steps that may follow those of the program.
  Model(const Program& program, const Rules& rules, Memory& memory, const Machine& machine, uint32_t extra = 0);

  bool failed() const { return verdict_.failed(); }
  const std::string& failure() const { return verdict_.text(); }

  // The program's calls; `id` is the step's number and the work request's wr_id.
  void on_post_send(uint32_t id, const Step& step, Answer answer);
  void on_post_receive(uint32_t id, const Step& step, Answer answer);
  void on_poll(unsigned endpoint, unsigned cq, std::span<const Completion> completions, bool overrun);
  void on_modify(const Step& step, bool done);
  void before_connect(unsigned qp);
  void on_destroy(unsigned qp);
  void on_vanish(unsigned qp);
  void on_restart(unsigned endpoint);
  /// To be called before the leap.
  void on_leap(unsigned endpoint, Duration by);
  /// Before keys of the endpoint become invalid or new.
  void on_key_change(unsigned endpoint, Region region, bool valid);
  /// False: windows are bound to it, so it must be refused. kMaybe: not known.
  Sure may_deregister(unsigned endpoint, Region region) const;
  /// No frame is in flight.
  void on_quiet();
  /// Steps that bound a window and are known to have succeeded since the last call, signalled or not.
  std::vector<uint32_t> take_binds() { return std::exchange(binds_, {}); }

  // At the end of a round.
  /// Whether it works, as far as the program knows.
  bool works(unsigned qp) const;
  uint32_t receives_waiting(unsigned qp) const { return static_cast<uint32_t>(queues_[qp].receives.size()); }
  uint32_t sends_waiting(unsigned qp) const { return static_cast<uint32_t>(queues_[qp].sends.size()); }
  /// It works, and all that was posted is complete.
  bool at_its_end(unsigned qp) const;

  // At the end.
  /// Everything was polled, and nothing more happens.
  void check_rest();
  /// All queue pairs were moved to ERR, and everything was polled.
  void check_flushed();
  void check_memory();

  [[gnu::format(printf, 2, 3)]] void fail(const char* format, ...);

 private:
  static constexpr uint32_t kOpen = UINT32_MAX;
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Send {
    const Step* step = nullptr;
    uint8_t qp = 0;
    bool outstanding = false;
    bool signalled = false;
    bool hopeless = false;  // behind a request that cannot succeed
    bool buried = false;    // behind one after which nothing is executed
    uint32_t length = 0;
    uint32_t generation = 0;
    uint32_t order = 0;
    uint32_t began = 0;
    Instant posted{};
    Sure local = Sure::kYes;    // its own elements and windows
    Sure remote = Sure::kYes;   // its request to the peer
    Sure reached = Sure::kYes;  // whether the peer gets it
    uint32_t remote_statuses = 0;
    uint32_t message = kNone;  // number among the messages of its queue
    uint32_t invalidates = 0;  // SEND_WITH_INV: the window's key
    bool acknowledged = false;
    bool delivered = false;
    bool sent = false;  // its success, or that of a later one, was reported
    bool owed = false;  // unreliable, and nothing prevents it: if sent, it arrives
    std::vector<uint8_t> payload;
    bool swapped = false;      // COMPARE_SWAP that found its comparand
    uint64_t adds_before = 0;  // FETCH_ADD: those known to have been executed before; for the counter: how many
  };
  struct Receive {
    const Step* step = nullptr;
    uint8_t qp = 0;  // through which it was posted
    bool outstanding = false;
    uint32_t room = 0;
    uint32_t generation = 0;
    Instant posted{};
    uint32_t good = 0;     // bytes before the first unusable one
    bool changed = false;  // a key of it has changed since
    /// For a message of `length` bytes. Elements behind its end are not checked.
    Sure usable(uint32_t length) const { return length > good ? Sure::kNo : changed ? Sure::kMaybe : Sure::kYes; }
  };
  /// The wait for an answer from the peer.
  struct Wait {
    Instant since{};  // of the last progress
    uint64_t naks_before = 0;
  };
  struct Queue {
    QueuePair spec;
    QpState state = QpState::kRts;  // as known to the program
    bool destroyed = false;
    uint32_t generation = 0;
    bool was_reset = false;  // since it was connected: its earlier completions are gone
    Sure failed = Sure::kNo;
    bool sends_failed = false;     // an error was polled
    bool receives_failed = false;  // an error was polled
    bool vague = false;            // it may have left SQE before its error was polled, so that little is known
    bool doomed = false;           // a request that cannot succeed is queued
    bool mute = false;             // that is one after which nothing is executed
    std::deque<uint32_t> sends;    // outstanding
    std::deque<uint32_t> receives;
    std::vector<uint32_t> messages;           // those that take a receive, since it was connected
    std::vector<uint32_t> receives_in_order;  // since it was connected
    uint32_t delivered = 0;                   // of the peer's messages
    uint32_t incoming = 0;                    // unreliable messages to it since it was connected
    uint32_t arrived = 0;                     // of those
    uint32_t order = 0;
    Wait wait;
  };
  struct Shared {
    std::deque<uint32_t> receives;
  };
  struct Cq {
    uint32_t possible = 0;  // completions that may be in it
    bool may_overrun = false;
    bool overrun = false;
    Instant latest{};
  };
  struct Window {
    Sure bound = Sure::kNo;
    Sure before = Sure::kNo;
    uint32_t offset = 0, length = 0, access = 0;
    uint8_t qp = 0;
    Region parent = Region::kTarget;
    unsigned pending = 0;
    bool tangled = false;
  };
  struct Leap {
    Instant at;
    Duration by;
  };
  struct Side {
    std::vector<Leap> leaps;
    bool valid[kRegions];
    Window windows[kWindows];
    Shared srq;
    Cq cqs[2];
    uint64_t added[kWords] = {};        // by successful FETCH_ADDs
    uint64_t maybe_added[kWords] = {};  // by others
    std::vector<uint32_t> swaps[kWords];
    // Of the counter: additions that may have been executed, those that were, and values returned.
    uint64_t counts = 0;
    uint64_t counted = 0;
    std::vector<bool> returned;
  };
  /// Bytes that a WRITE may have put into a target.
  struct Deed {
    uint8_t endpoint;
    uint8_t qp;
    uint32_t generation, order;
    uint32_t offset, length;
    uint32_t id;
    uint32_t began, ended;
    bool sure, fenced;
  };

  // model_post.cc
  Answer expected_answer(const Queue& queue, const Step& step, bool& either) const;
  void judge_local(Send& send, uint32_t& reach) const;
  uint32_t usable_bytes(unsigned endpoint, const Element& element, bool write) const;
  void judge_remote(Send& send) const;
  void judge_key(Send& send, uint32_t rights) const;
  Sure judge_window(const Send& send, unsigned endpoint, Region window, uint32_t rights) const;
  bool contested(const Send& send) const;
  void judge_window_work(Send& send);
  void note_effects(uint32_t id, Send& send, uint32_t reach);
  void note_message(uint32_t id, Send& send);
  bool will_arrive(const Send& send, const Queue& to) const;
  void meet(uint32_t message, uint32_t receive);
  void meet_messages(unsigned from, uint32_t receive);
  void note_atomic(uint32_t id, Send& send);
  void make_payload(Send& send, uint32_t reach);

  // model_keys.cc
  void note_faults();
  /// There are no more faults than it has retries.
  bool outlives_faults(const QueuePair& spec) const { return !network_cuts_ && faults_ <= spec.retries; }
  void begin_window_change(unsigned endpoint, Region window);
  void end_window_change(const Send& send, Sure done);
  void widen(unsigned endpoint, Region region);
  /// Something may fail between these two.
  void worry(unsigned qp);
  void count_send(const Queue& queue);
  void count_receive(const Queue& queue, int change);
  void note_room(const Queue& queue, unsigned number);

  // model_complete.cc
  void on_completion(unsigned endpoint, unsigned cq, const Completion& completion);
  void complete_send(uint32_t id, const Cq& cq, const Completion& completion);
  uint64_t naks(unsigned endpoint) const;
  bool waited_enough(const Queue& q, Instant until) const;
  bool may_succeed(const Send& send) const;
  uint32_t failures(const Send& send) const;
  void retire(Send& send, Sure done);
  void fail_queue(unsigned qp, bool send, bool flushed);
  void leave_error_of_sends(Queue& q, QpState from);
  void forget(unsigned qp);

  // model_receive.cc
  void complete_receive(uint32_t id, const Completion& completion);
  bool take_receive(uint32_t id, unsigned qp);
  void receive_reliable(uint32_t id, unsigned qp, const Completion& completion);
  void receive_unreliable(uint32_t id, unsigned qp, const Completion& completion);
  const char* mismatch(const Send& message, const Receive& receive, const Completion& completion, bool datagram) const;
  void receive_failure(uint32_t id, unsigned qp, const Completion& completion);
  void receive_too_short(uint32_t id, unsigned qp);
  void accept_message(Send& message, unsigned qp);
  bool names_sender(const Receive& receive, unsigned sender) const;
  void settle_partial(const Receive& receive);
  void settle_untouched(const Receive& receive, uint32_t used);
  bool may_have_received(const Receive& receive, uint32_t at, uint8_t value) const;
  void check_progress(unsigned qp);
  void check_owed(unsigned qp);
  void check_arrivals(unsigned qp);

  // model_memory.cc
  bool out_of_date(const Deed& deed, uint32_t at, const Send* reader) const;
  bool could_hold(unsigned endpoint, uint32_t at, uint8_t value, const Send* reader) const;
  void compare_read(const Send& send, bool partial);
  void check_atomic(Send& send, bool done);
  void check_count(const Send& send, uint64_t original);
  void check_swap(const Send& send, uint64_t original);
  void check_words(unsigned endpoint);
  void check_target(unsigned endpoint);
  bool holds_at_once(unsigned endpoint, uint32_t at, uint32_t bytes) const;

  Queue& queue(unsigned qp) { return queues_[qp]; }
  const Queue& queue(unsigned qp) const { return queues_[qp]; }
  Queue& peer(unsigned qp) { return queues_[qp ^ 1]; }
  const Queue& peer(unsigned qp) const { return queues_[qp ^ 1]; }
  Side& side(const Queue& queue) { return sides_[queue.spec.endpoint]; }
  const Side& side(const Queue& queue) const { return sides_[queue.spec.endpoint]; }
  Cq& cq_of(const Queue& queue, bool send);
  bool lossy(const Queue& queue, bool send) const;
  const Program& program_;
  const Rules rules_;
  Memory& memory_;
  const Machine& machine_;
  Verdict verdict_;
  std::vector<Send> sends_;  // by step
  std::vector<Receive> receives_;
  std::vector<Queue> queues_;
  std::vector<Side> sides_;
  std::vector<Deed> deeds_;
  std::vector<uint32_t> binds_;
  uint32_t moment_ = 0;
  bool network_reorders_ = false;
  bool network_cuts_ = false;
  uint32_t faults_ = 0;
};

constexpr uint32_t bit(WcStatus status) { return 1u << static_cast<unsigned>(status); }

}  // namespace uroce::model
