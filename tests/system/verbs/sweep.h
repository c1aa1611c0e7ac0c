// Sweeps: each request of a program fails in turn, alone or with all that follow. What the program asked for is refused
// with an errno that fits, or made all the same; nothing is lost, and the next try succeeds.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <functional>
#include <string>

#include "trouble.h"

namespace verbs_test {

/// How to make an object and destroy it again. `make` returns null and sets errno when it fails.
struct Maker {
  const char* name;
  std::function<void*()> make;
  std::function<int(void*)> destroy;
  bool is_change = false;  // undoing it is another change, which may fail as well
};

template <typename T, typename Make>
Maker maker(const char* name, Make make, int (*destroy)(T*)) {
  return {name, [make] { return static_cast<void*>(make()); },
          [destroy](void* made) { return destroy(static_cast<T*>(made)); }};
}

/// A change, which returns 0 or an errno, and its undoing.
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

/// To be constructed before this process opens the device.
class Sweep {
 public:
  explicit Sweep(Trouble& trouble);

  /// Fails every request of making, then every request of destroying.
  void of(const Maker& maker);
  /// Fails every request of a process's first opening. A process can do that once, so each request without which
  /// opening succeeds ends one.
  void of_opening(Trouble::Mode mode);
  /// Opens with failures from request `n` on until it succeeds, writes that request's number to `result`, and exits.
  [[noreturn]] void open_in_a_process(long n, Trouble::Mode mode, int result);
  /// Expects that the engine has everything back: as many objects can be made as the limit says, less those `there`.
  void expect_room(const Maker& maker, int limit, int there);

  void complain(const char* what, long n, Trouble::Mode mode, const std::string& why);
  bool good() const { return failures_ == 0; }
  /// The number of failed requests.
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
