#include "quit_signals.h"

namespace uroce::launcher {
namespace {

volatile sig_atomic_t asked_to_quit = 0;

}  // namespace

void take_quit_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { asked_to_quit = asked_to_quit == 0 ? 1 : 2; };  // no SA_RESTART
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

const volatile sig_atomic_t& quit_asked() { return asked_to_quit; }

QuitSignalsBlocked::QuitSignalsBlocked() {
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGINT);
  sigaddset(&both, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &both, &before_);
}

QuitSignalsBlocked::~QuitSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace uroce::launcher
