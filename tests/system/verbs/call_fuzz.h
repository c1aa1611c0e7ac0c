// Random verbs calls: objects are made, used and destroyed in any order, with arguments that fit and that do not.
//
// The fuzzer knows which object uses which, and so whether a destruction has to succeed or to say "busy". Any other
// call only must not crash, and what it returns and errno must be the same sane number.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fuzz_random.h"

namespace call_fuzz {

enum class Kind : uint8_t { kPd, kParent, kTd, kChannel, kCq, kSrq, kQp, kMr, kMw, kAh, kDm };
inline constexpr int kKinds = 11;

struct Object {
  Kind kind;
  void* handle;
  std::vector<Object*> uses;
  uint32_t users = 0;
  uint64_t base = 0;         // regions: the first address
  bool maybe_bound = false;  // regions: a window may be bound to it
};

using fuzz::Random;

/// Checks what calls return, and counts problems.
class Judge {
 public:
  /// To be called before a call.
  static void begin() { errno = 0; }
  /// Returns 0 or the errno of the call.
  int number(const char* call, int result);
  template <typename T>
  T* pointer(const char* call, T* result) {
    if (result == nullptr) sane(call, errno);
    count(call, result != nullptr);
    return result;
  }
  /// Completions, which show whether anything was sent at all.
  void completed(bool success) { count(success ? "(completion)" : "(completion in error)", true); }
  void problem(const char* call, const char* what, int value);
  /// Prints how often each call succeeded and failed. A call that never succeeded is a problem: it was not tested.
  void sum_up();
  uint64_t calls() const { return calls_; }
  uint64_t problems() const { return problems_; }

 private:
  struct Outcomes {
    uint64_t good = 0;
    uint64_t bad = 0;
  };

  void sane(const char* call, int error);
  void count(const char* call, bool good) {
    calls_++;
    Outcomes& outcomes = outcomes_[call];
    (good ? outcomes.good : outcomes.bad)++;
  }

  uint64_t calls_ = 0;
  uint64_t problems_ = 0;
  std::map<std::string, Outcomes> outcomes_;
};

/// The objects, and which of them use which.
class World {
 public:
  static constexpr size_t kObjectsMax = 150;
  static constexpr size_t kArenaBytes = 1 << 18;

  World(ibv_context* context, Random& random, Judge& judge)
      : context_(context), random_(random), judge_(judge), arena_(kArenaBytes) {}

  ibv_context* context() { return context_; }
  size_t size() const { return objects_.size(); }
  uint64_t arena() { return reinterpret_cast<uint64_t>(arena_.data()); }

  /// An object of that kind; null when there is none, and sometimes otherwise.
  Object* any(Kind kind);
  template <typename T>
  T* handle(Kind kind) {
    Object* object = any(kind);
    return object != nullptr ? static_cast<T*>(object->handle) : nullptr;
  }
  /// A protection domain, or a parent domain.
  Object* any_domain() { return random_.one_in(3) ? any(Kind::kParent) : any(Kind::kPd); }

  void make(Kind kind);
  /// Destroys one that no other uses.
  void destroy_one() {
    if (!objects_.empty()) destroy(random_.below(objects_.size()));
  }
  /// Destroys all, in any order that works.
  void destroy_all();
  /// Notes that the region now belongs to this domain.
  void move_to(Object& region, Object* domain);

 private:
  void add(Kind kind, void* handle, std::vector<Object*> uses);
  bool destroy(size_t index);
  int call_destroy(const Object& object);
  void make_cq();
  void make_srq();
  void make_qp();
  void make_region();
  void make_handle();
  void make_parent();

  ibv_context* context_;
  Random& random_;
  Judge& judge_;
  std::vector<uint8_t> arena_;
  std::vector<std::unique_ptr<Object>> objects_;
};

}  // namespace call_fuzz
