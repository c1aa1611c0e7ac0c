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

/// Looks at what calls return, and counts what is wrong.
class Judge {
 public:
  /// To be called before a call.
  static void begin() { errno = 0; }
  /// Returns what the call returned: 0, or an error's number.
  int number(const char* call, int result);
  template <typename T>
  T* pointer(const char* call, T* result) {
    if (result == nullptr) sane(call, errno);
    count(call, result != nullptr);
    return result;
  }
  /// Completions, which tell whether anything was sent at all.
  void completed(bool success) { count(success ? "(completion)" : "(completion in error)", true); }
  void problem(const char* call, const char* what, int value);
  /// Prints how often each call succeeded and failed. One that never succeeded is a problem: nothing was tried then.
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

/// What there is, and who uses whom.
class World {
 public:
  static constexpr size_t kObjectsMax = 150;
  static constexpr size_t kArenaBytes = 1 << 18;

  World(ibv_context* context, Random& random, Judge& judge)
      : context_(context), random_(random), judge_(judge), arena_(kArenaBytes) {}

  ibv_context* context() { return context_; }
  size_t size() const { return objects_.size(); }
  uint64_t arena() { return reinterpret_cast<uint64_t>(arena_.data()); }

  /// One of that kind; null when there is none, or now and then.
  Object* any(Kind kind);
  template <typename T>
  T* handle(Kind kind) {
    Object* object = any(kind);
    return object != nullptr ? static_cast<T*>(object->handle) : nullptr;
  }
  /// A protection domain, or a parent domain.
  Object* any_domain() { return random_.one_in(3) ? any(Kind::kParent) : any(Kind::kPd); }

  void make(Kind kind);
  /// Destroys one, if nobody uses it.
  void destroy_one() {
    if (!objects_.empty()) destroy(random_.below(objects_.size()));
  }
  /// In whatever order works.
  void destroy_all();
  /// The region is another domain's now.
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
