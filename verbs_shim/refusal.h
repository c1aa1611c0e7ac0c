// An entry point that is not supported, of any type: fails with EOPNOTSUPP, and logs one line the first time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <type_traits>

#include "dpdk/log.h"

namespace uroce::verbs {

template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&t)[N]) { std::copy_n(t, N, text); }  // NOLINT: a string literal stands for itself
};

/// Sets errno to EOPNOTSUPP. The result is null for pointers and EOPNOTSUPP for ints.
template <typename R, Name kName>
R refuse() {
  static std::atomic<bool> said{false};
  if (!said.exchange(true, std::memory_order_relaxed)) {
    log_message(LogLevel::kWarning, "%s is not supported (EOPNOTSUPP)", kName.text);
  }
  errno = EOPNOTSUPP;
  if constexpr (std::is_pointer_v<R>) {
    return nullptr;
  } else if constexpr (!std::is_void_v<R>) {
    return EOPNOTSUPP;
  }
}

/// The same, as a function of a given type for tables.
template <typename Function>
struct Refusal;
template <typename R, typename... Arguments>
struct Refusal<R (*)(Arguments...)> {
  template <Name kName>
  static R call(Arguments...) {
    return refuse<R, kName>();
  }
};

}  // namespace uroce::verbs
