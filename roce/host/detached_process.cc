#include "host/detached_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "base/unique_fd.h"

namespace uroce {
namespace {

constexpr size_t kStackBytes = 65536;
constexpr unsigned kFirstOther = 3;  // descriptor after standard input, output and error

/// What the two new processes share with this one, which waits meanwhile, as with posix_spawn.
struct Start {
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  int input = -1;
  int output = -1;
  char* second_stack = nullptr;
  int code = 0;  // errno, when it did not start
};

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

void close_others() {
  if (syscall(SYS_close_range, kFirstOther, ~0u, 0) == 0) return;
  const long most = sysconf(_SC_OPEN_MAX);
  for (long fd = kFirstOther; fd < (most > 0 && most < 65536 ? most : 65536); fd++) close(static_cast<int>(fd));
}

/// The program may have ignored or blocked what it liked, and be tied to a processor.
void reset_place() {
  for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  cpu_set_t all;
  CPU_ZERO(&all);
  for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) CPU_SET(cpu, &all);
  sched_setaffinity(0, sizeof all, &all);
  const sched_param usual{};
  sched_setscheduler(0, SCHED_OTHER, &usual);
  static_cast<void>(chdir("/") == 0);
}

int become_program(void* context) {
  Start& start = *static_cast<Start*>(context);
  reset_place();
  if (dup2(start.input, 0) >= 0 && dup2(start.output, 1) >= 0 && dup2(start.output, 2) >= 0) {
    close_others();
    execve(start.arguments[0], start.arguments, start.environment);
  }
  start.code = errno;
  _exit(127);
}

/// Ends at once, so that the program becomes a child of init.
int stand_between(void* context) {
  Start& start = *static_cast<Start*>(context);
  setsid();
  if (clone(become_program, start.second_stack, CLONE_VM | CLONE_VFORK | SIGCHLD, context) < 0) start.code = errno;
  _exit(0);
}

}  // namespace

int start_detached(const DetachedProcess& process) {
  std::vector<std::string> words = process.arguments;
  std::vector<std::string> variables = process.environment;
  const std::vector<char*> arguments = pointers_to(words);
  const std::vector<char*> environment = pointers_to(variables);
  const std::unique_ptr<char[]> stacks(new char[2 * kStackBytes]);
  // Not below 3, where a program without standard streams would have them.
  const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd input(fcntl(nothing.get(), F_DUPFD_CLOEXEC, kFirstOther));
  const UniqueFd output(fcntl(process.output, F_DUPFD_CLOEXEC, kFirstOther));
  if (!input || !output) return errno;
  const auto top_of = [&](size_t stack) {
    const auto end = reinterpret_cast<uintptr_t>(stacks.get()) + (stack + 1) * kStackBytes;
    return reinterpret_cast<char*>(end / 64 * 64);
  };
  Start start{arguments.data(), environment.data(), input.get(), output.get(), top_of(1), 0};
  sigset_t all, before;
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
