// For wrappers of libc's functions: the definition that would have been called without us.
#pragma once

#include <dlfcn.h>

#include <atomic>

namespace uroce::verbs {

/// `Function`: a pointer to one.
template <typename Function>
class Next {
 public:
  /// The second argument only says which type it is.
  constexpr Next(const char* name, Function) : name_(name) {}

  /// Looked up with the first call. No guard: a signal handler may be that call while another is under way.
  template <typename... Arguments>
  auto operator()(const Arguments&... arguments) {
    Function function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) [[unlikely]] {
      void* found = dlsym(RTLD_NEXT, name_);
      if (found == nullptr) found = dlvsym(RTLD_NEXT, name_, "GLIBC_2.2.5");  // kept for old binaries only
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

/// `real` in a wrapper called `name`, and for names that no header declares.
#define UROCE_NEXT(name) static constinit uroce::verbs::Next real(#name, &::name)
#define UROCE_NEXT_AS(name, ...) static constinit uroce::verbs::Next<__VA_ARGS__> real(#name, nullptr)
