#include "dpdk/lcore_lease.h"

#include <pthread.h>
#include <signal.h>

#include <bitset>
#include <cerrno>
#include <mutex>
#include <thread>

#include <rte_errno.h>
#include <rte_lcore.h>

#include "base/check.h"
#include "base/immortal.h"
#include "dpdk/log.h"

namespace uroce {
namespace {

/// The ids that endpoints have without having registered for them.
struct Preferred {
  std::mutex mutex;
  std::bitset<RTE_MAX_LCORE> taken;
};

Preferred& preferred_ids() {
  static Immortal<Preferred> ids;  // an endpoint may be closed while the process exits
  return *ids;
}

/// Registering changes what DPDK knows about a thread. The caller may be a thread of the application or of EAL, so a
/// short-lived thread does it; the id remains when that thread has ended. The program's signals are blocked in it.
template <typename F>
void in_a_thread_of_the_moment(F&& f) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(f);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  thread.join();
}

}  // namespace

bool LcoreLease::take(unsigned preferred, std::string& error) {
  ensure(held_ == Held::kNothing, "a lease is taken once");
  {
    const std::lock_guard guard(preferred_ids().mutex);
    if (preferred < RTE_MAX_LCORE && !preferred_ids().taken[preferred]) {
      preferred_ids().taken.set(preferred);
      id_ = preferred;
      held_ = Held::kPreferred;
      return true;
    }
  }
  const QuietDpdk quiet;
  int why = 0;
  in_a_thread_of_the_moment([&] {
    if (rte_thread_register() == 0) {
      id_ = rte_lcore_id();
      held_ = Held::kRegistered;
    } else {
      why = rte_errno;
    }
  });
  if (held_ == Held::kRegistered) return true;
  error = why == ENOMEM ? "DPDK has no lcore id left for another endpoint (" + std::to_string(RTE_MAX_LCORE) +
                              " at most, the application's among them): close an endpoint, or start EAL with fewer"
                        : "DPDK gives no lcore id to another endpoint while secondary processes are attached: one "
                          "endpoint in this process, or no secondary processes";
  return false;
}

void LcoreLease::give_back() {
  if (held_ == Held::kPreferred) {
    const std::lock_guard guard(preferred_ids().mutex);
    ensure(preferred_ids().taken[id_], "an id that is given back was taken");
    preferred_ids().taken.reset(id_);
  } else if (held_ == Held::kRegistered) {
    in_a_thread_of_the_moment([this] {
      RTE_PER_LCORE(_lcore_id) = id_;  // DPDK takes back the id of the calling thread
      rte_thread_unregister();
    });
  }
  held_ = Held::kNothing;
}

}  // namespace uroce
