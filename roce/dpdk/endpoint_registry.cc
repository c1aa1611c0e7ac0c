#include "dpdk/endpoint_registry.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/fork.h"
#include "base/immortal.h"
#include "dpdk/eal.h"
#include "dpdk/endpoint_impl.h"
#include "dpdk/log.h"
#include "host/object_rows.h"

namespace uroce {

EndpointRegistry& EndpointRegistry::get() {
  static Immortal<EndpointRegistry> registry;
  return *registry;
}

bool EndpointRegistry::add(EndpointImpl& endpoint, std::string& error) {
  for (auto& slot : slots_) {
    EndpointImpl* none = nullptr;
    if (slot.compare_exchange_strong(none, &endpoint)) return true;
  }
  error = "this process has " + std::to_string(kMaxEndpoints) + " endpoints already, as many as DPDK has ports";
  return false;
}

void EndpointRegistry::remove(const EndpointImpl& endpoint) {
  for (auto& slot : slots_) {
    if (slot.load() == &endpoint) slot.store(nullptr);
  }
}

void EndpointRegistry::publish(EndpointImpl& endpoint) {
  const std::lock_guard guard(mutex_);
  published_.push_back({next_number_++, &endpoint});
  std::string error;
  if (published_.size() != 1) return;
  unnoted_ = !publish_note(error);
  if (unnoted_) log_message(LogLevel::kWarning, "`uroce stats` does not find this program: %s", error.c_str());
}

void EndpointRegistry::look_after_note() {
  // A thread that looks at an endpoint may have to wait for it; then the note is left for another time.
  const std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock() || published_.empty()) return;
  const bool whole = own_files_are_there();
  if (whole && !unnoted_) return;
  std::string error;
  unnoted_ = (!whole && !make_own_files_again(error)) || !publish_note(error);
  if (whole || std::exchange(torn_, unnoted_)) return;
  if (unnoted_) {
    log_message(LogLevel::kWarning, "the files by which `uroce stats` finds this program were removed: %s",
                error.c_str());
  } else {
    log_message(LogLevel::kInfo, "the files by which `uroce stats` finds this program were removed, and are made anew");
  }
}

void EndpointRegistry::withdraw(const EndpointImpl& endpoint) {
  const std::lock_guard guard(mutex_);
  const size_t gone = std::erase_if(published_, [&](const Published& p) { return p.endpoint == &endpoint; });
  if (gone != 0 && published_.empty()) withdraw_note();
}

std::vector<uint64_t> EndpointRegistry::numbers() {
  const std::lock_guard guard(mutex_);
  std::vector<uint64_t> numbers;
  for (const Published& p : published_) numbers.push_back(p.number);
  return numbers;
}

bool EndpointRegistry::look_at(std::optional<uint64_t> number, void (*f)(EndpointImpl&, Look, void*), void* context) {
  // A turn takes microseconds. A thread that stays in the engine for longer than this is stuck, which is just what a
  // user wants to see.
  constexpr Duration kStuckAfter = milliseconds(200);
  const std::lock_guard guard(mutex_);
  const auto found = std::find_if(published_.begin(), published_.end(),
                                  [&](const Published& p) { return !number || p.number == *number; });
  if (found == published_.end()) return false;
  EngineMutex& ownership = found->endpoint->ownership();
  const bool inside = ownership.try_acquire_for(kStuckAfter);
  f(*found->endpoint, inside ? Look::kInside : Look::kOutside, context);
  if (inside) ownership.release();
  return true;
}

Counters EndpointRegistry::counted_on(uint64_t mac) {
  struct Asked {
    uint64_t mac;
    Counters sum;
  } asked{mac, {}};
  for (const uint64_t number : numbers()) {
    look_at(
        number,
        [](EndpointImpl& endpoint, Look /*look*/, void* context) {
          auto& [wanted, sum] = *static_cast<Asked*>(context);
          if (number_of(endpoint.identity().guid_mac()) == wanted) sum += endpoint.engine().counters();
        },
        &asked);
  }
  return asked.sum;
}

void EndpointRegistry::abandon_all() {
  for (auto& slot : slots_) {
    EndpointImpl* const endpoint = slot.load();
    if (endpoint == nullptr) continue;
    is_child_ = true;
    endpoint->abandon();
    slot.store(nullptr);
  }
  if (!is_child_) return;
  renew_after_fork(mutex_);
  new (&published_) std::vector<Published>;  // another thread may have been changing it
}

void EndpointRegistry::finish_all() {
  const std::lock_guard guard(mutex_);
  if (!published_.empty()) withdraw_note();
  for (const Published& p : std::exchange(published_, {})) p.endpoint->finish();
}

}  // namespace uroce
