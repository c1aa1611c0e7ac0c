// Sweeps: each request of a program fails in turn, alone or with all that follow. What the program asked for is refused
// with an errno that fits, or made all the same; nothing is lost, and the next try succeeds.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <functional>
#include <string>

#include "trouble.h"

namespace verbs_test {

/// What is made, and how it is destroyed again. `make` returns null, with errno, when it cannot.
struct Maker {
  const char* name;
  std::function<void*()> make;
  std::function<int(void*)> destroy;
  bool is_change = false;  // then what undoes it is another, which may fail as well
};

template <typename T, typename Make>
Maker maker(const char* name, Make make, int (*destroy)(T*)) {
  return {name, [make] { return static_cast<void*>(make()); },
          [destroy](void* made) { return destroy(static_cast<T*>(made)); }};
}

/// What is done to something, with 0 or an errno, and undone again.
template <typename Do, typename Undo>
Maker change(const char* name, Do act, Undo undo) {
  return {name,
          [act]() -> void* {
            static char done;
            const int error = act();
            if (error != 0) errno = error;
            return error == 0 ? &done : nullptr;
          },
          [undo](void* /*done*/) { return undo(); }, true};
}

constexpr int kGids = 8;
struct Identity {
  __be64 guid;
  ibv_gid gids[kGids];
  bool operator==(const Identity& other) const;
};

/// To be made before the device is opened here.
class Sweep {
 public:
  explicit Sweep(Trouble& trouble);

  /// Every request of one that is made, and of one that is destroyed.
  void of(const Maker& maker);
  /// Every request of the first that a process opens. It can do that once, so each request without which it opens all
  /// the same is the end of one.
  void of_opening(Trouble::Mode mode);
  /// Opens with failures from number `n` on, until it opens: at which that was is written to `result`. Then exits.
  [[noreturn]] void open_in_a_process(long n, Trouble::Mode mode, int result);
  /// What the engine lends it has back: there is room for as many as the device says, beside those that are there.
  void expect_room(const Maker& maker, int limit, int there);

  void complain(const char* what, long n, Trouble::Mode mode, const std::string& why);
  bool good() const { return failures_ == 0; }
  /// How many requests failed.
  long refused() const { return refused_; }

 private:
  /// How the n-th failure ended.
  enum class End { kNotReached, kRefused, kMade };
  void of_destroying(const Maker& maker);
  End try_once(const Maker& maker, long n, Trouble::Mode mode);
  void expect_nothing_is_kept(const Maker& maker);
  void expect_nothing_is_lost(const Maker& maker, long n, Trouble::Mode mode);

  void expect_as_good_as_any(long n, Trouble::Mode mode);

  Trouble& trouble_;
  Identity ordinary_{};
  int failures_ = 0;
  long refused_ = 0;
};

ibv_device* the_device();

}  // namespace verbs_test
