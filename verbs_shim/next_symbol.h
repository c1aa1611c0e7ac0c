// For wrappers of libc's functions: finds the definition that would be called without the shim.
#pragma once

#include <dlfcn.h>

#include <atomic>

#include "newer_libraries.h"

namespace uroce::verbs {

/// `Function` is a pointer to a function.
template <typename Function>
class Next {
 public:
  /// The second argument only gives the type.
  constexpr Next(const char* name, Function) : name_(name) {}

  /// The function is looked up with the first call. There is no lock, because a signal handler may call this while
  /// another call is under way.
  template <typename... Arguments>
  auto operator()(const Arguments&... arguments) {
    Function function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) [[unlikely]] {
      void* found = dlsym(RTLD_NEXT, name_);
      if (found == nullptr) found = dlvsym(RTLD_NEXT, name_, "GLIBC_2.2.5");  // kept for old binaries only
      if (found == nullptr) found = call_of_newer_libraries(name_);
      function = reinterpret_cast<Function>(found);
      function_.store(function, std::memory_order_relaxed);
    }
    return function(arguments...);
  }

 private:
  const char* name_;
  std::atomic<Function> function_{nullptr};
};

}  // namespace uroce::verbs

/// Defines `real` in a wrapper of `name`. The second form is for names that no header declares.
#define UROCE_NEXT(name) static constinit uroce::verbs::Next real(#name, &::name)
#define UROCE_NEXT_AS(name, ...) static constinit uroce::verbs::Next<__VA_ARGS__> real(#name, nullptr)
