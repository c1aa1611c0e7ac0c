#include "host/fault_handler.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/guarded_memory.h"

// glibc's internal name of sigaction, which nobody intercepts, not even the verbs shim.
extern "C" int __sigaction(int signal, const struct sigaction* action, struct sigaction* old) noexcept;

namespace uroce {

namespace {

constexpr int kResetHand = static_cast<int>(SA_RESETHAND);

std::atomic<bool> g_installed{false};

/// What the program wants done with a signal. The mask that it asked for is in the kernel, with our handler. The fields
/// are atomic because a fault may come at any moment; at worst it finds the old handler.
struct Wanted {
  std::atomic<sighandler_t> handler{SIG_DFL};
  std::atomic<int> flags{0};
};
Wanted g_segv;
Wanted g_bus;

Wanted& wanted(int signal) { return signal == SIGBUS ? g_bus : g_segv; }

/// Held while handlers are changed: by one thread at a time, and with all signals blocked, because handlers may call
/// sigaction, too.
class Changing {
 public:
  Changing() {
    const uint64_t all = ~uint64_t{0};
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before_, sizeof all);
    while (busy_.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Changing() {
    busy_.clear(std::memory_order_release);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof before_);
  }
  Changing(const Changing&) = delete;
  Changing& operator=(const Changing&) = delete;

 private:
  static std::atomic_flag busy_;
  uint64_t before_ = 0;  // the signal mask, as the kernel stores it
};
std::atomic_flag Changing::busy_ = ATOMIC_FLAG_INIT;

/// Removes the handler and lets the fault happen again, or sends the signal again: so the process dies as it would
/// without this handler.
void die(int signal, siginfo_t* info) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  __sigaction(signal, &action, nullptr);
  if (info->si_code <= 0) syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), signal, info);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  if (recover_from_fault(*info, context)) return;
  Wanted& program = wanted(signal);
  struct sigaction action {};  // sa_handler and sa_sigaction share their place in it
  action.sa_handler = program.handler.load();
  if (action.sa_handler == SIG_IGN && info->si_code <= 0) return;  // a fault cannot be ignored
  if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) return die(signal, info);
  if ((program.flags.load() & kResetHand) != 0) program.handler.store(SIG_DFL);
  action.sa_sigaction(signal, info, context);
}

/// Installs our handler with the mask and flags that the program asked for.
void install(int signal, const struct sigaction& program) {
  Wanted& w = wanted(signal);
  w.flags.store(program.sa_flags);
  w.handler.store(program.sa_handler);
  struct sigaction ours = program;
  ours.sa_sigaction = on_fault;
  ours.sa_flags = (program.sa_flags & ~kResetHand) | SA_SIGINFO;
  const bool has_handler = program.sa_handler != SIG_DFL && program.sa_handler != SIG_IGN;
  if (!has_handler) {
    ours.sa_flags |= SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
  }
  __sigaction(signal, &ours, nullptr);
}

}  // namespace

void install_fault_handler() {
  if (g_installed.load()) return;
  {
    const Changing changing;
    if (g_installed.load()) return;
    for (const int signal : {SIGSEGV, SIGBUS}) {
      struct sigaction before {};
      __sigaction(signal, nullptr, &before);
      install(signal, before);
    }
    g_installed.store(true);
  }
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGSEGV);
  sigaddset(&both, SIGBUS);
  pthread_sigmask(SIG_UNBLOCK, &both, nullptr);
}

bool fault_handler_installed() { return g_installed.load(); }

bool is_fault_signal(int signal) { return (signal == SIGSEGV || signal == SIGBUS) && fault_handler_installed(); }

int program_sigaction(int signal, const struct sigaction* action, struct sigaction* old) {
  // Copied before the lock is taken: a bad pointer of the program faults here, as it would in libc.
  struct sigaction wanted_now {};
  if (action != nullptr) wanted_now = *action;
  struct sigaction before {};
  {
    const Changing changing;
    __sigaction(signal, nullptr, &before);
    before.sa_handler = wanted(signal).handler.load();
    before.sa_flags = wanted(signal).flags.load();
    if (action != nullptr) install(signal, wanted_now);
  }
  if (old != nullptr) *old = before;
  return 0;
}

}  // namespace uroce
