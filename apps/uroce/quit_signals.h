// SIGINT and SIGTERM for commands that run until they are ended.
#pragma once

#include <csignal>

namespace uroce::launcher {

/// From now on both only set what `quit_asked` shows (1, from the second one on 2), and interrupt what waits in the
/// caller's thread. SIGPIPE is ignored.
void take_quit_signals();
const volatile sig_atomic_t& quit_asked();

/// While it lives, threads that are started leave both to the one that starts them.
class QuitSignalsBlocked {
 public:
  QuitSignalsBlocked();
  ~QuitSignalsBlocked();
  QuitSignalsBlocked(const QuitSignalsBlocked&) = delete;
  QuitSignalsBlocked& operator=(const QuitSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace uroce::launcher
