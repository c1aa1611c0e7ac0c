// What programs do with the descriptors of events, beside waiting in libibverbs and librdmacm: everything works as with
// a kernel's. Each row is done with each descriptor.
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <ostream>
#include <thread>

#include "event_sources.h"

namespace {

using namespace verbs_test;

void set_flags(int fd, int flags) { ASSERT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | flags), 0); }

/// Blocks signals, which only `next` takes.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int s : {SIGIO, SIGRTMIN + 3}) sigaddset(&set_, s);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~Signals() {
    while (next(0) != 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  /// The next signal; 0 when none comes.
  int next(int timeout_ms, siginfo_t* info = nullptr) const {
    const timespec timeout{timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    const int signal = sigtimedwait(&set_, info, &timeout);
    return signal < 0 ? 0 : signal;
  }

 private:
  sigset_t set_;
  sigset_t before_;
};

void one_signal_for_each_event(EventSource& source, int expected) {
  const Signals signals;
  EXPECT_EQ(signals.next(0), 0);
  for (int i = 0; i < 3; i++) {  // for the second one, too, while the first one is not taken
    source.raise();
    siginfo_t info{};
    EXPECT_EQ(signals.next(kPatienceMs, &info), expected);
    if (expected == SIGIO) continue;  // which has no more information
    EXPECT_EQ(info.si_fd, source.fd());
    EXPECT_NE(info.si_band & POLLIN, 0);
  }
  for (int i = 0; i < 3; i++) EXPECT_EQ(source.take(), 0);
  EXPECT_EQ(signals.next(0), 0);  // taking events raises no signals
}

void signal_io(EventSource& source) {
  ASSERT_EQ(fcntl(source.fd(), F_SETOWN, getpid()), 0);
  EXPECT_EQ(fcntl(source.fd(), F_GETOWN), getpid());
  set_flags(source.fd(), O_ASYNC);
  EXPECT_NE(fcntl(source.fd(), F_GETFL) & O_ASYNC, 0);
  one_signal_for_each_event(source, SIGIO);
}

void signal_of_ones_own(EventSource& source) {
  ASSERT_EQ(fcntl(source.fd(), F_SETOWN, getpid()), 0);
  ASSERT_EQ(fcntl(source.fd(), F_SETSIG, SIGRTMIN + 3), 0);
  set_flags(source.fd(), O_ASYNC);
  one_signal_for_each_event(source, SIGRTMIN + 3);
}

void signal_to_a_thread(EventSource& source) {
  const f_owner_ex owner{F_OWNER_TID, gettid()};
  ASSERT_EQ(fcntl(source.fd(), F_SETOWN_EX, &owner), 0);
  set_flags(source.fd(), O_ASYNC);
  one_signal_for_each_event(source, SIGIO);
}

void signal_by_ioctl(EventSource& source) {
  int on = 1;
  ASSERT_EQ(fcntl(source.fd(), F_SETOWN, getpid()), 0);
  ASSERT_EQ(ioctl(source.fd(), FIOASYNC, &on), 0);
  one_signal_for_each_event(source, SIGIO);
}

/// However the descriptor is duplicated, the copy becomes readable like the first, and outlives it.
void duplicated(EventSource& source) {
  const int spare = open("/dev/null", O_RDWR | O_CLOEXEC);
  const int spare3 = open("/dev/null", O_RDWR | O_CLOEXEC);
  const int copies[] = {dup(source.fd()), dup2(source.fd(), spare), dup3(source.fd(), spare3, O_CLOEXEC),
                        fcntl(source.fd(), F_DUPFD_CLOEXEC, 50)};
  for (const int copy : copies) EXPECT_FALSE(readable(copy, 0));
  source.raise();
  for (const int copy : copies) EXPECT_TRUE(readable(copy, kPatienceMs));
  EXPECT_EQ(source.take(), 0);
  for (const int copy : copies) EXPECT_FALSE(readable(copy, 0));
  for (const int copy : copies) EXPECT_EQ(close(copy), 0);
  source.raise();
  EXPECT_EQ(source.take(), 0);
}

int receive_descriptor(int from) {
  char byte;
  iovec piece{&byte, 1};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  if (recvmsg(from, &message, 0) != 1) return -1;
  int fd;
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  return fd;
}

void send_descriptor(int to, int fd) {
  char byte = 0;
  iovec piece{&byte, 1};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(header), &fd, sizeof fd);
  EXPECT_EQ(sendmsg(to, &message, 0), 1);
}

void passed_to_another_process(EventSource& source) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const int fd = receive_descriptor(ends[1]);
    _exit(fd >= 0 && readable(fd, kPatienceMs) ? 0 : 1);
  }
  send_descriptor(ends[0], source.fd());
  source.raise();
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(source.take(), 0);
  for (const int end : ends) close(end);
}

void selected(EventSource& source) {
  fd_set set;
  const auto look = [&](timeval timeout) {
    FD_ZERO(&set);
    FD_SET(source.fd(), &set);
    return select(source.fd() + 1, &set, nullptr, nullptr, &timeout);
  };
  EXPECT_EQ(look({}), 0);
  source.raise();
  EXPECT_EQ(look({kPatienceMs / 1000, 0}), 1);
  EXPECT_EQ(source.take(), 0);
  EXPECT_EQ(look({}), 0);
}

/// An edge for each event, as with a kernel's descriptor.
void edges(EventSource& source, uint32_t flags) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event wanted{EPOLLIN | flags, {}};
  ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, source.fd(), &wanted), 0);
  epoll_event got{};
  const int tries = (flags & EPOLLET) != 0 ? 3 : 1;
  for (int i = 0; i < tries; i++) {
    EXPECT_EQ(epoll_wait(epoll, &got, 1, 0), 0);
    source.raise();
    EXPECT_EQ(epoll_wait(epoll, &got, 1, kPatienceMs), 1);
    EXPECT_EQ(got.events, uint32_t{EPOLLIN});
  }
  for (int i = 0; i < tries; i++) EXPECT_EQ(source.take(), 0);
  EXPECT_EQ(epoll_wait(epoll, &got, 1, 0), 0);
  close(epoll);
}

/// A poll in an io_uring of one entry. False when the kernel or the test's user has none.
void polled_in_a_ring(EventSource& source) {
  io_uring_params params{};
  const auto ring = static_cast<int>(syscall(SYS_io_uring_setup, 1, &params));
  if (ring < 0) GTEST_SKIP() << "skipped: io_uring is not there: " << strerror(errno);
  const size_t bytes = std::max<size_t>(params.sq_off.array + params.sq_entries * 4,
                                        params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe));
  auto* const rings = static_cast<uint8_t*>(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING));
  auto* const entry = static_cast<io_uring_sqe*>(
      mmap(nullptr, sizeof(io_uring_sqe), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES));
  ASSERT_NE(params.features & IORING_FEAT_SINGLE_MMAP, 0u);
  entry->opcode = IORING_OP_POLL_ADD;
  entry->fd = source.fd();
  entry->poll32_events = POLLIN;
  *reinterpret_cast<uint32_t*>(rings + params.sq_off.array) = 0;
  __atomic_store_n(reinterpret_cast<uint32_t*>(rings + params.sq_off.tail), 1, __ATOMIC_RELEASE);
  ASSERT_EQ(syscall(SYS_io_uring_enter, ring, 1, 0, 0, nullptr, 0), 1);
  EXPECT_FALSE(readable(ring, 0));
  source.raise();
  EXPECT_TRUE(readable(ring, kPatienceMs));
  EXPECT_NE(reinterpret_cast<io_uring_cqe*>(rings + params.cq_off.cqes)->res & POLLIN, 0);
  EXPECT_EQ(source.take(), 0);
  munmap(entry, sizeof(io_uring_sqe));
  munmap(rings, bytes);
  close(ring);
}

void non_blocking(EventSource& source) {
  EXPECT_EQ(source.take(), EAGAIN);
  source.raise();
  ASSERT_TRUE(readable(source.fd(), kPatienceMs));
  EXPECT_EQ(source.take(), 0);
  EXPECT_EQ(source.take(), EAGAIN);
}
void non_blocking_by_fcntl(EventSource& source) {
  set_flags(source.fd(), O_NONBLOCK);
  non_blocking(source);
}
void non_blocking_by_ioctl(EventSource& source) {
  int on = 1;
  ASSERT_EQ(ioctl(source.fd(), FIONBIO, &on), 0);
  non_blocking(source);
  on = 0;
  ASSERT_EQ(ioctl(source.fd(), FIONBIO, &on), 0);
  source.raise();
  EXPECT_EQ(source.take(), 0);  // it blocks
}

/// Reading the descriptor, with too little room or enough, takes no event away (doc/features.md).
void read_from(EventSource& source) {
  source.raise();
  source.raise();
  ASSERT_TRUE(readable(source.fd(), kPatienceMs));
  set_flags(source.fd(), O_NONBLOCK);
  char room[64];
  for (const size_t bytes : {size_t{1}, sizeof room, sizeof room, sizeof room}) {
    EXPECT_LE(read(source.fd(), room, bytes), 1);
  }
  EXPECT_EQ(source.take(), 0);
  EXPECT_TRUE(readable(source.fd(), kPatienceMs));  // there is a second one
  EXPECT_EQ(source.take(), 0);
  EXPECT_EQ(source.take(), EAGAIN);
}

/// More events than a socket has room for.
void many_wait(EventSource& source) {
  constexpr int kMany = 700;
  for (int i = 0; i < kMany; i++) source.raise();
  for (int i = 0; i < kMany; i++) {
    ASSERT_TRUE(readable(source.fd(), kPatienceMs)) << i;
    ASSERT_EQ(source.take(), 0);
  }
  EXPECT_FALSE(readable(source.fd(), 0));
}

/// A thread that waits when the program has no descriptor left still gets the next event.
void no_descriptor_left(EventSource& source) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  std::atomic<int> result{-1};
  std::thread waiter([&] { result = source.take(); });
  usleep(100000);
  EXPECT_EQ(result, -1) << "it waits";
  setrlimit(RLIMIT_NOFILE, &before);
  source.raise();
  waiter.join();
  EXPECT_EQ(result, 0);
}

struct Use {
  const char* name;
  std::function<void(EventSource&)> act;
};
std::ostream& operator<<(std::ostream& out, const Use& use) { return out << use.name; }

const Use kUses[] = {
    {"Sigio", signal_io},
    {"SetSig", signal_of_ones_own},
    {"SetOwnEx", signal_to_a_thread},
    {"Fioasync", signal_by_ioctl},
    {"Duplicated", duplicated},
    {"PassedOn", passed_to_another_process},
    {"Select", selected},
    {"EpollLevel", [](EventSource& source) { edges(source, 0); }},
    {"EpollEdge", [](EventSource& source) { edges(source, EPOLLET); }},
    {"EpollExclusive", [](EventSource& source) { edges(source, EPOLLEXCLUSIVE); }},
    {"IoUring", polled_in_a_ring},
    {"NonBlocking", non_blocking_by_fcntl},
    {"Fionbio", non_blocking_by_ioctl},
    {"Read", read_from},
    {"ManyWait", many_wait},
    {"NoDescriptorLeft", no_descriptor_left},
};

template <typename Source>
std::unique_ptr<EventSource> make() {
  return std::make_unique<Source>();
}
struct Kind {
  const char* name;
  std::unique_ptr<EventSource> (*make)();
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

const Kind kKinds[] = {
    {"Completion", make<CompletionEvents>}, {"Async", make<AsyncEvents>}, {"Connection", make<ConnectionEvents>}};

class EventDescriptorsTest : public testing::TestWithParam<std::tuple<Kind, Use>> {};

TEST_P(EventDescriptorsTest, AreAsThoseOfAKernel) {
  device();
  const std::unique_ptr<EventSource> source = std::get<0>(GetParam()).make();
  std::get<1>(GetParam()).act(*source);
}

INSTANTIATE_TEST_SUITE_P(Every, EventDescriptorsTest,
                         testing::Combine(testing::ValuesIn(kKinds), testing::ValuesIn(kUses)), [](const auto& row) {
                           return std::string(std::get<0>(row.param).name) + std::get<1>(row.param).name;
                         });

}  // namespace
