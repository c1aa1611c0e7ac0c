// Assertions that stay on in release builds, too.
//
// They check what uroce itself guarantees, and nothing else: the bounds of its rings, the order of its numbers, the
// owner of an engine, that a frame fits where it is written. Conditions that a peer, a program or a user can cause are
// never checked here: they have a counter, an error code or a message that says what to change. So a failed assertion
// is a mistake in uroce, after which nothing can be relied on; the process prints where it happened, and aborts.
#pragma once

namespace uroce {

/// Prints one line on standard error and aborts.
[[noreturn, gnu::cold, gnu::noinline]] void ensure_failed(const char* promise, const char* file, int line);

/// `promise` says in a few words what has to hold. Costs a comparison and a branch that is not taken. (`file` and
/// `line` are builtins because Clang 14 cannot use std::source_location.)
constexpr void ensure(bool holds, const char* promise, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  if (!holds) [[unlikely]] {
    ensure_failed(promise, file, line);
  }
}

}  // namespace uroce
