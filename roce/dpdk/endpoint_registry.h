// The endpoints of this process, for those who come without one: the hooks of fork and exit, and DPDK's telemetry.
//
// Order of locks: the registry's comes before every engine's. So nobody who owns an engine publishes, withdraws or
// looks; and the fork hook, which may interrupt anybody, takes no lock at all.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace uroce {

class EndpointImpl;

/// How an onlooker sees the endpoint: as owner of the engine; or from outside, since a thread does not come out of it.
enum class Look : uint8_t { kInside, kOutside };

class EndpointRegistry {
 public:
  /// As many as DPDK has ports.
  static constexpr size_t kMaxEndpoints = 32;

  /// Never destroyed: threads may still look while the process exits.
  static EndpointRegistry& get();

  /// From the first step of opening to the last of closing. False and one line in `error` when there are too many, or
  /// when this is the child of a process that had one: DPDK's threads are not here.
  bool add(EndpointImpl& endpoint, std::string& error);
  void remove(const EndpointImpl& endpoint);

  /// While it is open: others see it, also `uroce stats` by the process's note, and it is finished when the process
  /// exits. Each has a number of its own, which is not used again.
  void publish(EndpointImpl& endpoint);
  void withdraw(const EndpointImpl& endpoint);

  /// Of those that are published, the oldest first.
  std::vector<uint64_t> numbers();
  /// Runs `f` with endpoint `number`, without one with the oldest. False when there is none. From outside only what
  /// does not change may be read, and counters.
  bool look_at(std::optional<uint64_t> number, void (*f)(EndpointImpl&, Look, void*), void* context);

  /// In the child of a fork: all of them belong to the parent.
  void abandon_all();
  /// At exit: the last frames of each, in the order of opening. Nobody sees them any more.
  void finish_all();

 private:
  struct Published {
    uint64_t number;
    EndpointImpl* endpoint;
  };

  std::array<std::atomic<EndpointImpl*>, kMaxEndpoints> slots_{};  // atomic, as a fork looks at it any time
  std::atomic<bool> is_child_{false};
  std::mutex mutex_;  // an onlooker has it for as long as it looks
  std::vector<Published> published_;
  uint64_t next_number_ = 0;
};

}  // namespace uroce
