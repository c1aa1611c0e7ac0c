// Programs keep their signal handlers: for SIGSEGV and SIGBUS they are called by ours (host/fault_handler.h).
//
// The two signals are never blocked, because a fault that is blocked ends the process. Threads that block "all signals"
// in order to leave them to one thread mean signals that are sent, not those that an instruction raises.
//
// sigset, sigignore and the bare system call are not intercepted: they replace our handler, and then an access to
// memory that went away is a crash, as in any other program.
#include <dlfcn.h>

#include <atomic>
#include <csignal>

#include "host/fault_handler.h"
#include "shim.h"

extern "C" int __sigaction(int signal, const struct sigaction* action, struct sigaction* old) noexcept;

namespace {

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

/// signal(2) in terms of sigaction(2); `flags` distinguish the BSD and System V semantics.
sighandler_t set_handler(int signal, sighandler_t handler, int flags) {
  struct sigaction action {};
  struct sigaction old {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  if ((flags & SA_NODEFER) == 0) sigaddset(&action.sa_mask, signal);
  uroce::program_sigaction(signal, &action, &old);
  return old.sa_handler;
}

sighandler_t bsd(const char* name, int signal, sighandler_t handler) {
  if (uroce::is_fault_signal(signal) && handler != SIG_ERR) return set_handler(signal, handler, SA_RESTART);
  return next<sighandler_t (*)(int, sighandler_t)>(name)(signal, handler);
}

sighandler_t system_v(const char* name, int signal, sighandler_t handler) {
  if (uroce::is_fault_signal(signal) && handler != SIG_ERR) {
    return set_handler(signal, handler, static_cast<int>(SA_RESETHAND) | SA_NODEFER);
  }
  return next<sighandler_t (*)(int, sighandler_t)>(name)(signal, handler);
}

using SetMask = int (*)(int, const sigset_t*, sigset_t*);

/// The function that ours wraps, looked up once. Not a function-local `static`, which needs a lock, because signal
/// handlers call these, too.
struct Behind {
  const char* name;
  std::atomic<SetMask> function{nullptr};

  SetMask get() {
    SetMask found = function.load(std::memory_order_relaxed);
    if (found == nullptr) function.store(found = next<SetMask>(name), std::memory_order_relaxed);
    return found;
  }
};
Behind thread_mask{"pthread_sigmask"};
Behind process_mask{"sigprocmask"};

int set_mask(Behind& behind, int how, const sigset_t* set, sigset_t* old) {
  if (set == nullptr || how == SIG_UNBLOCK) return behind.get()(how, set, old);
  sigset_t without = *set;
  sigdelset(&without, SIGSEGV);
  sigdelset(&without, SIGBUS);
  return behind.get()(how, &without, old);
}

}  // namespace

UROCE_VERBS_EXPORT int sigaction(int signal, const struct sigaction* action, struct sigaction* old) noexcept {
  if (uroce::is_fault_signal(signal)) return uroce::program_sigaction(signal, action, old);
  return __sigaction(signal, action, old);
}

UROCE_VERBS_EXPORT sighandler_t signal(int number, sighandler_t handler) noexcept {
  return bsd("signal", number, handler);
}
UROCE_VERBS_EXPORT sighandler_t bsd_signal(int number, sighandler_t handler) noexcept {
  return bsd("bsd_signal", number, handler);
}
UROCE_VERBS_EXPORT sighandler_t ssignal(int number, sighandler_t handler) noexcept {
  return bsd("ssignal", number, handler);
}
UROCE_VERBS_EXPORT sighandler_t sysv_signal(int number, sighandler_t handler) noexcept {
  return system_v("sysv_signal", number, handler);
}
UROCE_VERBS_EXPORT sighandler_t __sysv_signal(int number, sighandler_t handler) noexcept {
  return system_v("__sysv_signal", number, handler);
}

UROCE_VERBS_EXPORT int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  return set_mask(thread_mask, how, set, old);
}

UROCE_VERBS_EXPORT int sigprocmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  return set_mask(process_mask, how, set, old);
}
