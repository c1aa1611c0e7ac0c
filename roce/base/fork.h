// The child of a fork has one thread. Mutexes that other threads of its parent held are never released in it.
#pragma once

#include <mutex>
#include <new>

namespace uroce {

/// To be called in the child, before anything there uses the mutex. What it protects may be half changed.
inline void renew_after_fork(std::mutex& mutex) { new (&mutex) std::mutex; }

}  // namespace uroce
