// The endpoints of this process, for code that does not belong to one of them: the hooks of fork and exit, and DPDK's
// telemetry.
//
// Order of locks: the registry's comes before that of every engine. So a thread that owns an engine must not publish,
// withdraw or look; and the fork hook, which may interrupt any of them, takes no lock at all.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "transport/counters.h"

namespace uroce {

class EndpointImpl;

/// How `look_at` sees the endpoint: as owner of the engine, or from outside, because the owner does not release it.
enum class Look : uint8_t { kInside, kOutside };

class EndpointRegistry {
 public:
  /// As many as DPDK has ports.
  static constexpr size_t kMaxEndpoints = 32;

  /// Never destroyed: threads may still look while the process exits.
  static EndpointRegistry& get();

  /// An endpoint is in the registry from the first step of opening to the last of closing. `add` returns false, with
  /// one line in `error`, when there are too many.
  bool add(EndpointImpl& endpoint, std::string& error);
  void remove(const EndpointImpl& endpoint);

  /// An endpoint is published while it is open: then telemetry and, by the process's note, `uroce stats` see it, and it
  /// is finished when the process exits. Each has a number, which is not used again.
  void publish(EndpointImpl& endpoint);
  void withdraw(const EndpointImpl& endpoint);
  /// To be called now and then by a thread that owns no engine: writes the note if there was no room for it, and
  /// restores its files and telemetry's when they were removed.
  void look_after_note();

  /// The numbers of those that are published, the oldest first.
  std::vector<uint64_t> numbers();
  /// Runs `f` with endpoint `number`, or with the oldest when no number is given. False when there is none. With
  /// Look::kOutside, `f` may read only counters and what does not change.
  bool look_at(std::optional<uint64_t> number, void (*f)(EndpointImpl&, Look, void*), void* context);
  /// What the published ones of the device with that MAC (`number_of`, host/object_rows.h) have counted, also where a
  /// thread stays in the engine.
  Counters counted_on(uint64_t mac);

  /// To be called in the child of a fork: all endpoints belong to the parent. The child may have its own afterwards.
  void abandon_all();
  /// This process is the child of one that had an endpoint open.
  bool is_child() const { return is_child_; }
  /// To be called at exit: sends the last frames of each, in the order of opening. None is published afterwards.
  void finish_all();

 private:
  struct Published {
    uint64_t number;
    EndpointImpl* endpoint;
  };

  std::array<std::atomic<EndpointImpl*>, kMaxEndpoints> slots_{};  // atomic, because a fork hook may look at any time
  std::atomic<bool> is_child_{false};
  std::mutex mutex_;  // held by `look_at` for as long as it looks
  std::vector<Published> published_;
  uint64_t next_number_ = 0;
  bool unnoted_ = false;
  bool torn_ = false;  // the last attempt to restore files failed
};

}  // namespace uroce
