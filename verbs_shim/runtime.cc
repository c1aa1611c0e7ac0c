#include "runtime.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <new>
#include <utility>

#include "base/fork.h"
#include "base/immortal.h"
#include "base/no_cancel.h"
#include "base/out_of_memory.h"
#include "dpdk/log.h"
#include "engine/object_tables.h"
#include "held_counters.h"
#include "host/fault_handler.h"
#include "rdma_cm_device.h"
#include "sysfs_tree.h"
#include "transport/observer.h"
#include "xrc.h"

namespace uroce::verbs {

Endpoint* open_endpoint = nullptr;
bool has_inherited_objects = false;
uint32_t fork_generation = 0;

namespace {

std::mutex runtime_mutex;

}  // namespace

Runtime& Runtime::get() {
  static Immortal<Runtime> runtime;
  return *runtime;
}

bool Runtime::configure() {
  if (configured_) return true;
  std::string error;
  EndpointConfig config;
  if (!endpoint_config_from_environment(config, error)) {
    log_message(LogLevel::kError, "%s", error.c_str());
    return false;
  }
  config_ = std::move(config);
  configured_ = true;
  return true;
}

// The child of a fork may open the device itself. What it inherited stays as it is, for threads that still use it.
void Runtime::on_fork_child() {
  renew_after_fork(runtime_mutex);
  Runtime& runtime = get();
  runtime.identified_ = runtime.endpoint_ != nullptr;
  fork_generation++;
  runtime.opened_.store(false, std::memory_order_relaxed);
  if (const Endpoint* parents = runtime.endpoint_.release(); parents != nullptr) {
    runtime.identity_ = parents->identity();
    has_inherited_objects = true;
  }
  leave_contexts();
  leave_sysfs_tree();
  leave_held_counters();
  leave_rdma_cm();
  leave_xrc_domains();
}

void Runtime::watch_forks() {
  [[maybe_unused]] static const int hooked = pthread_atfork(nullptr, nullptr, on_fork_child);
}

bool Runtime::identify(EndpointIdentity& identity, LogLevel level) try {
  const NoCancel with_the_mutex;
  const std::lock_guard guard(runtime_mutex);
  errno = ENODEV;
  if (!configure()) return false;
  watch_forks();
  if (endpoint_ != nullptr) {
    identity = endpoint_->identity();
    return true;
  }
  if (!identified_) {
    std::string error;
    if (!Endpoint::identify(config_, identity_, error)) {
      log_message(level, "%s", error.c_str());
      errno = errno_of(error, ENODEV);
      return false;
    }
    identified_ = true;
  }
  identity = identity_;
  return true;
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return false;
}

bool Runtime::open() try {
  const NoCancel with_the_mutex;
  const std::lock_guard guard(runtime_mutex);
  if (endpoint_ != nullptr) return true;
  if (!configure()) {
    errno = EINVAL;
    return false;
  }
  watch_forks();
  if (observer_ == nullptr) observer_ = make_observer();
  std::string error;
  endpoint_ = Endpoint::open(config_, *observer_, error);
  if (endpoint_ == nullptr) {
    const bool out_of_memory = is_out_of_memory(error);
    const bool hint = out_of_memory && error.find("ulimit") == std::string::npos;
    // A program that tries again and again hears the reason each time by errno, and reads it once.
    if (error != open_failure_)
      log_message(LogLevel::kError, "%s%s%s", out_of_memory ? "cannot open the device: " : "", error.c_str(),
                  hint ? "; is there a limit (ulimit -v)?" : "");
    open_failure_ = error;
    errno = errno_of(error, ENODEV);
    return false;
  }
  open_failure_.clear();
  open_endpoint = endpoint_.get();
  opened_.store(true, std::memory_order_release);
  install_fault_handler();
  return true;
} catch (const std::bad_alloc&) {
  log_message(LogLevel::kError, "cannot open the device: %s", kOutOfMemory);
  errno = ENOMEM;
  return false;
}

bool Runtime::is_open() const { return opened_.load(std::memory_order_acquire); }

int refuse_to_child() {
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) {
    log_message(
        LogLevel::kError,
        "process %d is the child of a process that opened the device: what it inherited belongs to the parent and "
        "does nothing here (ENODEV); let the child open the device itself",
        static_cast<int>(getpid()));
  }
  errno = ENODEV;
  return ENODEV;
}

void pause_between_turns() { usleep(20); }

}  // namespace uroce::verbs
