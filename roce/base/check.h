// Assertions that stay on: in release builds, too.
//
// For what we ourselves guarantee, and nothing else: the bounds of our rings, the order of our numbers, who owns an
// engine, that a frame fits where it is written. What a peer, a program or a user can cause is never checked here: it
// has a counter, an error code or a line that says what to change. So a failure is a mistake in uroce, behind which
// nothing can be relied on; the process says where, and ends.
#pragma once

namespace uroce {

/// Prints one line on standard error and aborts.
[[noreturn, gnu::cold, gnu::noinline]] void ensure_failed(const char* promise, const char* file, int line);

/// `promise`: what holds, in a few words. Costs a comparison and a branch that is not taken. (std::source_location
/// would say where, too, but not to Clang 14.)
constexpr void ensure(bool holds, const char* promise, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  if (!holds) [[unlikely]] {
    ensure_failed(promise, file, line);
  }
}

}  // namespace uroce
