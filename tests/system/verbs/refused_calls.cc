#include "refused_calls.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "named_calls.h"

namespace verbs_test {
namespace {

constexpr int kErrnos = 256;
constexpr int kSkipped = 77;
constexpr size_t kNameBytes = 256;

/// Memory shared by the two processes.
struct Control {
  std::atomic<long> left;  // calls until one is refused; 0: none is
  std::atomic<bool> all_after;
  std::atomic<int> kind;
  std::atomic<pid_t> process;  // whose calls are counted
  std::atomic<long> begun;     // how often counting was begun
  std::atomic<bool> has_failed;
  std::atomic<int> first;  // the first refused call
  std::atomic<bool> given[kErrnos];
  char name[kNameBytes];  // of BeforeNames: what the first call names
};
Control* control = nullptr;
const BeforeNames* before_names = nullptr;  // of the second process

using Data = seccomp_data;

/// Whether it is a file that can grow, and not a device.
bool is_file(pid_t thread, uint64_t fd) {
  if (fd <= STDERR_FILENO) return false;
  char name[64];
  char target[512] = {};
  std::snprintf(name, sizeof name, "/proc/%d/fd/%d", static_cast<int>(thread), static_cast<int>(fd));
  if (readlink(name, target, sizeof target - 1) <= 0) return false;
  return target[0] == '/' && std::strncmp(target, "/memfd:", 7) != 0 && std::strncmp(target, "/dev/", 5) != 0 &&
         std::strncmp(target, "/proc/", 6) != 0;
}

template <typename T>
T read_argument(pid_t thread, uint64_t at) {
  T value{};
  iovec here{&value, sizeof value};
  iovec there{reinterpret_cast<void*>(at), sizeof value};  // NOLINT: an address of the other process
  static_cast<void>(process_vm_readv(thread, &here, 1, &there, 1, 0));
  return value;
}

int always(int error) { return error; }
int file_only(pid_t thread, uint64_t fd, int error) { return is_file(thread, fd) ? error : 0; }
int if_made(uint64_t flags) { return (flags & O_CREAT) != 0 ? ENOSPC : 0; }

int fcntl_refusal(RefusedCalls::Kind kind, pid_t thread, const Data& data) {
  const auto command = static_cast<int>(data.args[1]);
  if (kind == RefusedCalls::kDescriptors) return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? EMFILE : 0;
  if (kind != RefusedCalls::kTables) return 0;
  if (command != F_OFD_SETLK && command != F_OFD_SETLKW && command != F_SETLK && command != F_SETLKW) return 0;
  return read_argument<struct flock>(thread, data.args[2]).l_type != F_UNLCK ? ENOLCK : 0;
}

/// Only the name of a file needs room on a disk.
int bind_refusal(pid_t thread, const Data& data) {
  const auto name = read_argument<sockaddr_un>(thread, data.args[1]);
  return name.sun_family == AF_UNIX && name.sun_path[0] != 0 && data.args[2] > sizeof name.sun_family ? ENOSPC : 0;
}

int flock_refusal(const Data& data) { return (data.args[1] & LOCK_UN) == 0 ? ENOLCK : 0; }

/// A watched call. `refusal` returns the errno with which it may be refused, 0 when it may not.
struct Call {
  int number;
  const char* name;
  int (*refusal)(RefusedCalls::Kind kind, pid_t thread, const Data& data);
};

#define CALL(name) SYS_##name, #name
#define AS(wanted, value)                                                                         \
  [](RefusedCalls::Kind kind, [[maybe_unused]] pid_t thread, [[maybe_unused]] const Data& data) { \
    return kind == RefusedCalls::wanted ? (value) : 0;                                            \
  }
#define OPENING(flags_at)                                                    \
  [](RefusedCalls::Kind kind, pid_t, const Data& data) {                     \
    return kind == RefusedCalls::kDescriptors ? EMFILE                       \
           : kind == RefusedCalls::kDisk      ? if_made(data.args[flags_at]) \
                                              : 0;                                \
  }

constexpr Call kCalls[] = {
    {CALL(openat), OPENING(2)},
    {CALL(socket), AS(kDescriptors, EMFILE)},
    {CALL(socketpair), AS(kDescriptors, EMFILE)},
    {CALL(eventfd2), AS(kDescriptors, EMFILE)},
    {CALL(epoll_create1), AS(kDescriptors, EMFILE)},
    {CALL(timerfd_create), AS(kDescriptors, EMFILE)},
    {CALL(pipe2), AS(kDescriptors, EMFILE)},
    {CALL(memfd_create), AS(kDescriptors, EMFILE)},
    {CALL(accept4), AS(kDescriptors, EMFILE)},
    {CALL(inotify_init1), AS(kDescriptors, EMFILE)},
    {CALL(dup), AS(kDescriptors, EMFILE)},
    {CALL(fcntl), fcntl_refusal},
    {CALL(write), AS(kDisk, file_only(thread, data.args[0], ENOSPC))},
    {CALL(pwrite64), AS(kDisk, file_only(thread, data.args[0], ENOSPC))},
    {CALL(ftruncate), AS(kDisk, file_only(thread, data.args[0], ENOSPC))},
    {CALL(fchmod), AS(kDisk, file_only(thread, data.args[0], ENOSPC))},
    {CALL(mkdirat), AS(kDisk, always(ENOSPC))},
    {CALL(renameat2), AS(kDisk, always(ENOSPC))},
    {CALL(linkat), AS(kDisk, always(ENOSPC))},
    {CALL(symlinkat), AS(kDisk, always(ENOSPC))},
    {CALL(bind), AS(kDisk, bind_refusal(thread, data))},
    {CALL(listen), AS(kTables, always(ENOBUFS))},
    {CALL(flock), AS(kTables, flock_refusal(data))},
    {CALL(epoll_ctl), AS(kTables, data.args[1] == EPOLL_CTL_ADD ? ENOSPC : 0)},
    {CALL(inotify_add_watch), AS(kTables, always(ENOSPC))},
    {CALL(mlock), AS(kTables, always(ENOMEM))},
    {CALL(mlock2), AS(kTables, always(ENOMEM))},
    {CALL(mlockall), AS(kTables, always(ENOMEM))},
#ifdef SYS_open  // what newer architectures do not have
    {CALL(open), OPENING(1)},
    {CALL(eventfd), AS(kDescriptors, EMFILE)},
    {CALL(epoll_create), AS(kDescriptors, EMFILE)},
    {CALL(pipe), AS(kDescriptors, EMFILE)},
    {CALL(accept), AS(kDescriptors, EMFILE)},
    {CALL(inotify_init), AS(kDescriptors, EMFILE)},
    {CALL(mkdir), AS(kDisk, always(ENOSPC))},
    {CALL(rename), AS(kDisk, always(ENOSPC))},
    {CALL(link), AS(kDisk, always(ENOSPC))},
    {CALL(symlink), AS(kDisk, always(ENOSPC))},
    {CALL(chmod), AS(kDisk, always(ENOSPC))},
#endif
};
constexpr size_t kCallCount = std::size(kCalls);

long refused[kCallCount][RefusedCalls::kKinds];  // counted by the supervising process

const char* name_of(int number) {
  for (const Call& call : kCalls) {
    if (call.number == number) return call.name;
  }
  return "nothing";
}

/// The process of a thread. Cached for one try only: the thread's number may be another's in the next.
pid_t process_of(pid_t thread) {
  static std::map<pid_t, pid_t> known;
  static long known_since = 0;
  if (const long begun = control->begun; known_since != begun) {
    known.clear();
    known_since = begun;
  }
  pid_t& process = known[thread];
  if (process != 0) return process;
  std::ifstream status("/proc/" + std::to_string(thread) + "/status");
  for (std::string word; status >> word;) {
    if (word == "Tgid:") status >> process;
  }
  return process;
}

/// Whether this call is the one that is waited for, or one behind it.
bool is_due() {
  long left = control->left;
  do {
    if (left == 0) return false;  // ended in the meantime
  } while (!control->left.compare_exchange_weak(left, left == 1 && control->all_after ? 1 : left - 1));
  return left == 1;
}

void look_at_name(pid_t thread, const Data& data) {
  const std::string name = name_in_call(thread, data);
  const bool is_letter = data.nr == SYS_sendmsg || data.nr == SYS_sendto;
  const bool counts =
      !name.empty() && (is_letter || !before_names->only_letters) &&
      (name.front() != '/' || name.compare(0, before_names->directory.size(), before_names->directory) == 0);
  if (!counts || !is_due()) return;
  before_names->happens();
  control->first = data.nr;
  std::snprintf(control->name, sizeof control->name, "%s", name.c_str());
  control->has_failed = true;
}

/// Returns the errno of a refusal, or 0.
int judge(pid_t thread, const Data& data) {
  if (control->left == 0 || process_of(thread) != control->process) return 0;
  if (before_names != nullptr) {
    look_at_name(thread, data);
    return 0;
  }
  size_t which = 0;
  while (which < kCallCount && kCalls[which].number != data.nr) which++;
  const auto kind = static_cast<RefusedCalls::Kind>(control->kind.load());
  const int error = which < kCallCount ? kCalls[which].refusal(kind, thread, data) : 0;
  if (error == 0 || !is_due()) return 0;
  if (!control->has_failed) control->first = data.nr;
  control->has_failed = true;
  control->given[error] = true;
  refused[which][kind]++;
  return error;
}

/// Serves until no process is left that could make calls.
void supervise(int listener) {
  for (;;) {
    // Before Linux 6.11, asking for a call blocks for ever once the last caller is gone.
    pollfd entry{listener, POLLIN, 0};
    if (poll(&entry, 1, -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if ((entry.revents & POLLIN) == 0) return;
    seccomp_notif call{};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
      if (errno == EINTR || errno == ENOENT) continue;  // ENOENT: the caller was interrupted
      return;
    }
    seccomp_notif_resp answer{};
    answer.id = call.id;
    answer.error = -judge(static_cast<pid_t>(call.pid), call.data);
    if (answer.error == 0) answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    static_cast<void>(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer));
  }
}

/// Returns the descriptor for watched calls, -1 when the machine has none.
int install_filter() {
  std::vector<int> numbers = numbers_of_named_calls();
  if (before_names == nullptr) {
    numbers.clear();
    for (const Call& call : kCalls) numbers.push_back(call.number);
  }
  std::vector<sock_filter> filter;
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(Data, nr)));
  for (size_t i = 0; i < numbers.size(); i++) {
    const auto number = static_cast<uint32_t>(numbers[i]);
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, static_cast<uint8_t>(numbers.size() - i), 0));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
  const sock_fprog program{static_cast<uint16_t>(filter.size()), filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return static_cast<int>(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
}

void send_descriptor(int through, int fd) {
  char byte = 0;
  iovec bytes{&byte, 1};
  alignas(cmsghdr) uint8_t space[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  // With the call that is never watched: nobody answers for one yet.
  mmsghdr one{message, 0};
  if (sendmmsg(through, &one, 1, 0) != 1) std::abort();
}

int receive_descriptor(int through) {
  char byte;
  iovec bytes{&byte, 1};
  alignas(cmsghdr) uint8_t space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  int fd = -1;
  if (recvmsg(through, &message, 0) != 1) return -1;
  if (const cmsghdr* const header = CMSG_FIRSTHDR(&message); header != nullptr)
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

void tell_what_was_refused() {
  for (int kind = 0; kind < RefusedCalls::kKinds; kind++) {
    for (size_t i = 0; i < kCallCount; i++) {
      if (refused[i][kind] != 0) std::printf("refused: %s %ld\n", kCalls[i].name, refused[i][kind]);
    }
  }
}

}  // namespace

int run_supervised(int (*program)(int, char**), int argc, char** argv) {
  void* const shared = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int ends[2];
  if (shared == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return 1;
  control = new (shared) Control{};
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int listener = install_filter();
    send_descriptor(ends[1], listener);
    if (listener >= 0) close(listener);
    close(ends[0]);
    close(ends[1]);
    if (listener < 0) _exit(kSkipped);
    std::exit(program(argc, argv));
  }
  close(ends[1]);
  const int listener = receive_descriptor(ends[0]);
  if (listener >= 0) {
    supervise(listener);
    tell_what_was_refused();
  } else {
    std::printf("skipped: no user notifications of seccomp here\n");
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run_supervised(int (*program)(int, char**), int argc, char** argv, const BeforeNames& before) {
  before_names = &before;
  return run_supervised(program, argc, argv);
}

void RefusedCalls::begin(long nth, Mode mode) {
  for (auto& given : control->given) given = false;
  control->has_failed = false;
  control->first = -1;
  control->name[0] = 0;
  control->kind = kind_;
  control->process = getpid();
  control->begun++;
  control->all_after = mode == kFromThenOn;
  control->left = nth;
}

void RefusedCalls::end() { control->left = 0; }
bool RefusedCalls::failed() const { return control->has_failed; }
bool RefusedCalls::fits(int error) const { return error > 0 && error < kErrnos && control->given[error]; }
std::string RefusedCalls::what() const {
  return kind_ == kNames ? name_of_named_call(control->first) + " " + control->name : name_of(control->first);
}

}  // namespace verbs_test
