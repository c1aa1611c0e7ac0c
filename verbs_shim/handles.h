// The objects that a program may import by their handle: protection domains, memory regions, device memory.
//
// With a kernel, a handle names an object of an open device file, and every context on that file can import it. Here
// the file is a number that a context and its imports share, and what an object and its imports share is a core.
// Destroying the object takes the handle out; imports only forget their structure (ibv_unimport_pd and so on).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "base/fork.h"
#include "base/immortal.h"
#include "uroce/types.h"

namespace uroce::verbs {

struct PdCore {
  PdId id = 0;
  std::atomic<uint32_t> parent_domains{0};  // parent domains that extend it
};

/// Device memory: the host's.
struct DmCore {
  explicit DmCore(size_t bytes);
  ~DmCore();
  DmCore(const DmCore&) = delete;
  DmCore& operator=(const DmCore&) = delete;

  uint8_t* memory;
  const size_t bytes;
  std::atomic<uint32_t> regions{0};  // regions registered in it
};

struct MrCore {
  uint32_t key = 0;
  uint32_t rkey = 0;  // 0 for null regions
  uint64_t length = 0;
  std::shared_ptr<DmCore> dm;  // of a region in device memory
};

/// Thread-safe.
template <typename Core>
class Handles {
 public:
  static Handles& get() {
    static Immortal<Handles> handles;  // threads may still run while the process exits
    return *handles;
  }

  void add(uint32_t handle, uint64_t file, std::shared_ptr<Core> core) {
    const std::lock_guard guard(mutex_);
    entries_.emplace(handle, Entry{file, std::move(core)});
  }
  /// nullptr: no object of this file and kind has the handle.
  std::shared_ptr<Core> find(uint32_t handle, uint64_t file) {
    const std::lock_guard guard(mutex_);
    const auto found = entries_.find(handle);
    return found != entries_.end() && found->second.file == file ? found->second.core : nullptr;
  }
  /// False when the object is gone already, through an import of it.
  bool remove(uint32_t handle) {
    const std::lock_guard guard(mutex_);
    return entries_.erase(handle) != 0;
  }

  /// In the child of a fork: what it has is the parent's, and cannot be imported.
  void leave() {
    renew_after_fork(mutex_);
    new (&entries_) Entries;  // the old ones may be half changed
  }

 private:
  struct Entry {
    uint64_t file;
    std::shared_ptr<Core> core;
  };
  std::mutex mutex_;
  using Entries = std::unordered_map<uint32_t, Entry>;
  Entries entries_;
};

/// Gives an object its handle before it is made, so that nothing can fail any more once the engine has it. The handle
/// goes again unless the object is `made`.
template <typename Core>
class NewHandle {
 public:
  NewHandle(uint32_t handle, uint64_t file, std::shared_ptr<Core> core) : handle_(handle) {
    Handles<Core>::get().add(handle, file, std::move(core));
  }
  ~NewHandle() {
    if (!made_) Handles<Core>::get().remove(handle_);
  }
  NewHandle(const NewHandle&) = delete;
  NewHandle& operator=(const NewHandle&) = delete;
  uint32_t made() {
    made_ = true;
    return handle_;
  }

 private:
  const uint32_t handle_;
  bool made_ = false;
};

}  // namespace uroce::verbs
