#include "netlink_answer.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "paths.h"
#include "runtime.h"

namespace uroce::verbs {

namespace {

constexpr std::chrono::seconds kPatience{30};
constexpr std::chrono::milliseconds kLookAgain{1};

/// The sockets that wait for more, each with the process that sends to it; so many at most. In the child of a fork
/// those of its parent count no more, and no lock can have been left behind.
class WaitingSockets {
 public:
  bool has(uint64_t inode) const {
    for (const auto& place : places_) {
      if (place == key(inode)) return true;
    }
    return false;
  }
  /// False: too many wait.
  bool add(uint64_t inode) {
    for (auto& place : places_) {
      uint64_t old = place;
      const bool is_free = old == 0 || old >> 32 != fork_generation + 1;
      if (is_free && place.compare_exchange_strong(old, key(inode))) return true;
    }
    return false;
  }
  void remove(uint64_t inode) {
    for (auto& place : places_) {
      uint64_t old = key(inode);
      if (place.compare_exchange_strong(old, 0)) return;
    }
  }

 private:
  static uint64_t key(uint64_t inode) { return uint64_t{fork_generation + 1} << 32 | (inode & 0xFFFFFFFF); }

  std::array<std::atomic<uint64_t>, 16> places_{};
};

constinit WaitingSockets waiting;

struct StopsWaiting {
  const uint64_t inode;
  ~StopsWaiting() { waiting.remove(inode); }
};

/// False: it was closed. Where /proc does not tell, it is taken for still there.
bool is_at(uint64_t inode, uint32_t port) {
  std::ifstream sockets("/proc/net/netlink");
  std::string line;
  if (!std::getline(sockets, line)) return true;
  while (std::getline(sockets, line)) {
    unsigned protocol = 0;
    unsigned at = 0;
    unsigned long long number = 0;
    if (std::sscanf(line.c_str(), "%*s %u %u %*s %*s %*s %*s %*s %*s %llu", &protocol, &at, &number) == 3 &&
        protocol == NETLINK_USERSOCK && at == port) {
      return number == inode;
    }
  }
  return false;
}

/// Starts a thread that nobody waits for, and that gets none of the program's signals.
bool run_apart(void* (*f)(void*), void* argument) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, f, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return error == 0;
}

}  // namespace

NetlinkAnswer::NetlinkAnswer(uint64_t inode, uint32_t port, UniqueFd sender)
    : inode_(inode), sender_(std::move(sender)) {
  to_.nl_family = AF_NETLINK;
  to_.nl_pid = port;
}

std::unique_ptr<NetlinkAnswer> NetlinkAnswer::begin(int fd, uint32_t port) {
  struct stat socket {};
  if (fstat(fd, &socket) != 0) return nullptr;
  if (waiting.has(socket.st_ino)) {
    errno = EBUSY;
    return nullptr;
  }
  UniqueFd sender(static_cast<int>(syscall(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK)));
  if (!sender) return nullptr;
  return std::unique_ptr<NetlinkAnswer>(new NetlinkAnswer(socket.st_ino, port, std::move(sender)));
}

bool NetlinkAnswer::send(const std::string& datagram) {
  if (rest_.empty() && send_now(datagram)) return true;
  if (rest_.empty() && errno != EAGAIN) return false;
  rest_.push_back(datagram);
  return true;
}

void NetlinkAnswer::finish(std::unique_ptr<NetlinkAnswer> answer) {
  const uint64_t inode = answer->inode_;
  if (answer->rest_.empty() || !waiting.add(inode)) return;
  if (run_apart(&send_rest, answer.get())) {
    static_cast<void>(answer.release());  // the thread's now
  } else {
    waiting.remove(inode);
  }
}

bool NetlinkAnswer::send_now(const std::string& datagram) const {
  return syscall(SYS_sendto, sender_.get(), datagram.data(), datagram.size(), MSG_DONTWAIT, &to_, sizeof to_) >= 0;
}

/// Does not wait in the call: the kernel would go on to the next socket at this port when the program closes its own,
/// and that would get the rest of an answer to another request.
bool NetlinkAnswer::send_when_read(const std::string& datagram) const {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (is_at(inode_, to_.nl_pid)) {
    if (send_now(datagram)) return true;
    if (errno != EAGAIN || std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(kLookAgain);
  }
  return false;
}

void* NetlinkAnswer::send_rest(void* argument) try {
  const OwnFiles guard;
  const std::unique_ptr<NetlinkAnswer> answer(static_cast<NetlinkAnswer*>(argument));
  const StopsWaiting stops{answer->inode_};
  for (const std::string& datagram : answer->rest_) {
    if (!answer->send_when_read(datagram)) break;
  }
  return nullptr;
} catch (const std::bad_alloc&) {
  return nullptr;
}

}  // namespace uroce::verbs
