// What the parts of one end of a reliable connection share: its QP, its memory, what it has posted and must receive,
// and whether it is over. The drawer of operations writes down what each must do, the judges hold the engine to it.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "oracle/host_share.h"
#include "oracle/landing.h"
#include "oracle/memory_window.h"
#include "oracle/message_ledger.h"
#include "oracle/options.h"
#include "oracle/retry_wait.h"
#include "oracle/send_ledger.h"
#include "oracle/target_memory.h"
#include "oracle/verdict.h"
#include "sim/testbed.h"

namespace uroce::oracle {

inline constexpr uint32_t kAtomicWords = 64;  // at the beginning of the target memory
inline constexpr uint32_t kQueueDepth = 64;

struct RcContext {
  RcContext(const sim::Side& qp_side, HostShare& host_share, const MixedOptions& run_options, uint64_t seed,
            uint64_t ops, Verdict& run_verdict);

  /// From now on the QP's patience with its peer counts anew.
  void note_progress() { wait.begin(side, share.leaps); }

  sim::Side side;
  HostShare& share;
  const MixedOptions& options;
  Verdict& verdict;
  SeededRandom random;
  TargetMemory target;  // what the peer writes and reads
  Landing landing;
  MemoryWindow window;  // onto `target`
  SendLedger sends;
  MessageLedger messages;  // from the peer
  RetryWait wait;          // since progress was seen
  RcContext* peer = nullptr;

  bool stopped = false;   // silenced on purpose: everything flushed from now on is in order
  bool vanished = false;  // without a word
  bool broken = false;    // the QP gave up, as far as its completions have told
};

}  // namespace uroce::oracle
