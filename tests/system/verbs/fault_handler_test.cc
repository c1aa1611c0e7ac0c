// Handlers that the program has for SIGSEGV and SIGBUS, installed before the device was opened and after, work as they
// would without us; and what memory that went away costs us never reaches them.
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "mapped.h"
#include "verbs_fixture.h"

namespace {

using namespace verbs_test;
using uroce::test::kPage;
using uroce::test::Mapped;

volatile sig_atomic_t calls = 0;
void* volatile last_address = nullptr;
volatile int last_code = 0;
volatile bool on_other_stack = false;
volatile bool others_blocked = false;
uint8_t* other_stack = nullptr;
constexpr size_t kOtherStack = 65536;

/// As programs do that map pages on demand.
void give_page(int /*signal*/, siginfo_t* info, void* /*context*/) {
  calls = calls + 1;
  last_address = info->si_addr;
  last_code = info->si_code;
  uint8_t here;
  on_other_stack = &here >= other_stack && &here < other_stack + kOtherStack;
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  others_blocked = sigismember(&blocked, SIGUSR2) != 0;
  const auto page = reinterpret_cast<uint64_t>(info->si_addr) & ~uint64_t{kPage - 1};
  // A fault elsewhere would repeat for ever.
  if (mprotect(reinterpret_cast<void*>(page), kPage, PROT_READ | PROT_WRITE) != 0) abort();
}

void only_count(int /*signal*/) { calls = calls + 1; }

class FaultHandlerTest : public PairTest {
 protected:
  /// Runs before anybody opens the device.
  static void SetUpTestSuite() {
    struct sigaction action {};
    action.sa_sigaction = give_page;
    action.sa_flags = SA_SIGINFO;
    sigaddset(&action.sa_mask, SIGUSR2);
    ASSERT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
  }
  static void TearDownTestSuite() { signal(SIGSEGV, SIG_DFL); }

  FaultHandlerTest() {
    calls = 0;
    last_address = nullptr;
  }

  /// A WRITE from memory that is gone, made in this thread.
  void use_gone_memory() {
    make_pair();
    Mapped memory(kPage);
    const Owned<ibv_mr> mr(ibv_reg_mr(pd_.get(), memory.data(), kPage, kAllAccess));
    memory.unmap(0);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = b_.addr();
    wr.wr.rdma.rkey = b_.rkey();
    ASSERT_EQ(post_send(left_.get(), wr, {memory.addr(), 100, mr->lkey}), 0);
    EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_LOC_PROT_ERR);
  }

  Mapped page_{kPage, Mapped::Of::kNothing, PROT_NONE};
};

/// How a child that runs `act` ended. With `trace`, also what the last signal before its end was.
template <typename Act>
int end_of_child(Act act, siginfo_t* last = nullptr) {
  const pid_t child = fork();
  if (child == 0) {
    if (last != nullptr) ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    act();
    _exit(0);
  }
  int status = 0;
  for (;;) {
    EXPECT_EQ(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status)) return status;
    ptrace(PTRACE_GETSIGINFO, child, nullptr, last);
    ptrace(PTRACE_CONT, child, nullptr, WSTOPSIG(status));
  }
}

TEST_F(FaultHandlerTest, InstalledBefore) {
  use_gone_memory();
  EXPECT_EQ(calls, 0);
  page_.data()[10] = 1;
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(last_address, page_.data() + 10);
  EXPECT_EQ(last_code, SEGV_ACCERR);
  EXPECT_TRUE(others_blocked);
  use_gone_memory();
  EXPECT_EQ(calls, 1);
}

TEST_F(FaultHandlerTest, TheProgramSeesItsOwn) {
  struct sigaction now {};
  ASSERT_EQ(sigaction(SIGSEGV, nullptr, &now), 0);
  EXPECT_EQ(now.sa_sigaction, give_page);
  EXPECT_EQ(now.sa_flags & (SA_SIGINFO | SA_ONSTACK | SA_RESETHAND), SA_SIGINFO);
  EXPECT_EQ(sigismember(&now.sa_mask, SIGUSR2), 1);
  struct sigaction bus {};
  ASSERT_EQ(sigaction(SIGBUS, nullptr, &bus), 0);
  EXPECT_EQ(bus.sa_handler, SIG_DFL);
  EXPECT_EQ(bus.sa_flags, 0);
}

TEST_F(FaultHandlerTest, InstalledAfter) {
  struct sigaction before {};
  struct sigaction action {};
  action.sa_sigaction = give_page;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ASSERT_EQ(sigaction(SIGSEGV, &action, &before), 0);
  EXPECT_EQ(before.sa_sigaction, give_page);
  std::vector<uint8_t> room(kOtherStack);
  other_stack = room.data();
  const stack_t stack{room.data(), 0, kOtherStack};
  stack_t old_stack;
  ASSERT_EQ(sigaltstack(&stack, &old_stack), 0);
  use_gone_memory();
  EXPECT_EQ(calls, 0);
  page_.data()[20] = 1;
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(last_address, page_.data() + 20);
  EXPECT_TRUE(on_other_stack);
  EXPECT_FALSE(others_blocked);
  // As before: on the stack of the thread.
  ASSERT_EQ(sigaction(SIGSEGV, &before, nullptr), 0);
  page_.protect(PROT_NONE);
  page_.data()[21] = 1;
  EXPECT_FALSE(on_other_stack);
  EXPECT_TRUE(others_blocked);
  ASSERT_EQ(sigaltstack(&old_stack, nullptr), 0);
}

TEST_F(FaultHandlerTest, InstalledWithSignal) {
  const sighandler_t before = signal(SIGBUS, only_count);
  EXPECT_EQ(before, SIG_DFL);
  use_gone_memory();
  kill(getpid(), SIGBUS);
  raise(SIGBUS);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(sysv_signal(SIGBUS, only_count), only_count);
  raise(SIGBUS);  // System V's handlers work once
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(signal(SIGBUS, SIG_IGN), SIG_DFL);
  kill(getpid(), SIGBUS);
  EXPECT_EQ(signal(SIGBUS, SIG_DFL), SIG_IGN);
}

/// Without a handler the process dies of the fault itself, so that a core file shows the place.
TEST_F(FaultHandlerTest, WithoutAHandler) {
  uint8_t* const hole = page_.data() + 33;
  for (const sighandler_t handler : {SIG_DFL, SIG_IGN}) {
    siginfo_t last{};
    const auto touch = [&] {
      signal(SIGSEGV, handler);
      *hole = 1;
    };
    const int status = end_of_child(touch, &last);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGSEGV);
    EXPECT_EQ(last.si_code, SEGV_ACCERR);
    EXPECT_EQ(last.si_addr, hole);
  }
}

TEST_F(FaultHandlerTest, SentWithoutAHandler) {
  siginfo_t last{};
  pid_t child = 0;
  const auto send_self = [] {
    signal(SIGSEGV, SIG_DFL);
    kill(getpid(), SIGSEGV);
    pause();
  };
  const int status = end_of_child(send_self, &last);
  child = last.si_pid;
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
  EXPECT_EQ(last.si_code, SI_USER);
  EXPECT_NE(child, 0);
}

/// A thread that blocks all signals still handles its own faults.
TEST_F(FaultHandlerTest, ThreadThatBlocksEverything) {
  std::thread([this] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    use_gone_memory();
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, nullptr, &blocked);
    EXPECT_EQ(sigismember(&blocked, SIGUSR1), 1);
    EXPECT_EQ(sigismember(&blocked, SIGSEGV), 0);
  }).join();
}

}  // namespace
