#include "host/detached_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>

#include "base/unique_fd.h"

namespace uroce {
namespace {

constexpr size_t kStackBytes = 65536;
constexpr unsigned kFirstOther = 3;  // descriptor after standard input, output and error
constexpr size_t kSignalSetBytes = 8;

/// What the two new processes share with this one, which waits meanwhile, as with posix_spawn.
struct Start {
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  int input = -1;
  int output = -1;
  char* second_stack = nullptr;
  unsigned descriptors = 0;  // so many there may be
  int code = 0;              // errno, when it did not start
};

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

// From here on it is another process, in the memory of this one. Functions of libc may be somebody else's (the shim's
// own signal(), those of a sanitizer or of Java), who keeps books of this process: so the kernel is called, no
// function.

void close_others(const Start& start) {
  if (syscall(SYS_close_range, kFirstOther, ~0u, 0) == 0) return;
  for (unsigned fd = kFirstOther; fd < start.descriptors; fd++) syscall(SYS_close, fd);
}

/// The program may have ignored or blocked what it liked, and be tied to a processor.
void reset_signals_and_place() {
  const std::array<uint64_t, 4> by_default{};  // the kernel's sigaction: SIG_DFL, no flags, no mask
  for (int number = 1; number < NSIG; number++)
    syscall(SYS_rt_sigaction, number, by_default.data(), nullptr, kSignalSetBytes);
  const uint64_t none = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, kSignalSetBytes);
  std::array<uint64_t, 16> all;
  all.fill(~uint64_t{0});
  syscall(SYS_sched_setaffinity, 0, sizeof all, all.data());
  const sched_param usual{};
  syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &usual);
  syscall(SYS_chdir, "/");
  syscall(SYS_umask, 077);
}

/// It serves other programs than the one whose limits these are.
void raise_limits() {
  for (const int resource : {RLIMIT_NOFILE, RLIMIT_CPU, RLIMIT_FSIZE}) {
    std::array<uint64_t, 2> limit{};
    if (syscall(SYS_prlimit64, 0, resource, nullptr, limit.data()) != 0) continue;
    limit[0] = limit[1];
    syscall(SYS_prlimit64, 0, resource, limit.data(), nullptr);
  }
}

int become_program(void* context) {
  Start& start = *static_cast<Start*>(context);
  reset_signals_and_place();
  raise_limits();
  const bool ready = syscall(SYS_dup3, start.input, 0, 0) >= 0 && syscall(SYS_dup3, start.output, 1, 0) >= 0 &&
                     syscall(SYS_dup3, start.output, 2, 0) >= 0;
  if (ready) {
    close_others(start);
    syscall(SYS_execve, start.arguments[0], start.arguments, start.environment);
  }
  start.code = errno;
  for (;;) syscall(SYS_exit_group, 127);
}

/// Ends at once, so that the program becomes a child of init.
int stand_between(void* context) {
  Start& start = *static_cast<Start*>(context);
  syscall(SYS_setsid);
  if (clone(become_program, start.second_stack, CLONE_VM | CLONE_VFORK | SIGCHLD, context) < 0) start.code = errno;
  for (;;) syscall(SYS_exit_group, 0);
}

}  // namespace

bool takes_in_orphans() {
  int subreaper = 0;
  return getpid() == 1 || (prctl(PR_GET_CHILD_SUBREAPER, &subreaper) == 0 && subreaper != 0);
}

int start_detached(const DetachedProcess& process) {
  std::vector<std::string> words = process.arguments;
  std::vector<std::string> variables = process.environment;
  const std::vector<char*> arguments = pointers_to(words);
  const std::vector<char*> environment = pointers_to(variables);
  const std::unique_ptr<char[]> stacks(new char[2 * kStackBytes]);
  const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing) return errno;
  // Not below 3, where a program without standard streams would have them.
  const UniqueFd input(fcntl(nothing.get(), F_DUPFD_CLOEXEC, kFirstOther));
  if (!input) return errno;
  const UniqueFd output(fcntl(process.output, F_DUPFD_CLOEXEC, kFirstOther));
  if (!output) return errno;
  const auto top_of = [&](size_t stack) {
    const auto end = reinterpret_cast<uintptr_t>(stacks.get()) + (stack + 1) * kStackBytes;
    return reinterpret_cast<char*>(end / 64 * 64);
  };
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  Start start{arguments.data(), environment.data(), input.get(), output.get(), top_of(1), 1u << 20, 0};
  if (descriptors.rlim_max < start.descriptors) start.descriptors = static_cast<unsigned>(descriptors.rlim_max);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // no handler of the program's runs in the new processes
  // Its end is told by no signal, so no wait() of the program's finds it.
  const pid_t between = clone(stand_between, top_of(0), CLONE_VM | CLONE_VFORK, &start);
  if (between < 0) start.code = errno;
  while (between > 0 && waitpid(between, nullptr, __WCLONE) < 0 && errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return start.code;
}

}  // namespace uroce
