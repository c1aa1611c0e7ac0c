// The owner of an engine also has the lcore id of its endpoint.
//
// DPDK keeps per-lcore caches by a thread-local lcore id. The thread that owns an engine has the id of the engine's
// endpoint, and gets its own back when it releases the engine. No two endpoints have the same id (lcore_lease.h), so
// threads that own different engines never share a cache.
#pragma once

#include <rte_lcore.h>

#include "base/lock_holder.h"
#include "dpdk/interrupt_guard.h"
#include "host/handover_mutex.h"

namespace uroce {

class EngineMutex final : public GuardedLock {
 public:
  void acquire() override {
    mutex_.lock();
    take();
  }
  bool try_acquire_for(Duration patience) {
    if (!mutex_.try_lock_for(patience)) return false;
    take();
    return true;
  }
  void release() override {
    RTE_PER_LCORE(_lcore_id) = saved_lcore_;
    owner_.leave();
    mutex_.unlock();
  }
  /// To be called before any other thread can own it.
  void set_lcore(unsigned lcore) { lcore_ = lcore; }
  void reset_after_fork() {
    mutex_.reset_after_fork();
    owner_.leave();
  }
  const LockHolder& owner() const { return owner_; }

 private:
  void take() {
    owner_.take();
    saved_lcore_ = RTE_PER_LCORE(_lcore_id);
    RTE_PER_LCORE(_lcore_id) = lcore_;
  }

  HandoverMutex mutex_;
  LockHolder owner_;
  unsigned lcore_ = LCORE_ID_ANY;
  unsigned saved_lcore_ = LCORE_ID_ANY;
};

}  // namespace uroce
