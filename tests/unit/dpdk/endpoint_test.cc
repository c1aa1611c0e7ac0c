// An endpoint in this process, on a port without a peer: what others see of it, and what its thread leaves to the
// program.
#include "dpdk/endpoint.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "ask_telemetry.h"
#include "eal_environment.h"
#include "engine/object_tables.h"
#include "transport/observer.h"
#include "transport/qp_init.h"

namespace uroce {
namespace {

class EndpointTest : public testing::Test {
 protected:
  void open() {
    config_.port = "net_ring0";
    std::string error;
    endpoint_ = Endpoint::open(config_, observer_, error);
    ASSERT_NE(endpoint_, nullptr) << error;
  }
  uint32_t make_qp() {
    const EngineLock owner(*endpoint_);
    Engine& engine = endpoint_->engine();
    QpInit init;
    init.pd = engine.objects().allocate_pd();
    init.send_cq = init.recv_cq = engine.objects().create_cq(16, nullptr);
    init.cap = {4, 4, 1, 1, 0};
    return engine.create_qp(init, nullptr)->qpn();
  }

  Observer observer_;
  EndpointConfig config_;
  std::unique_ptr<Endpoint> endpoint_;
};

TEST_F(EndpointTest, OpensAndClosesWithoutAWord) {
  testing::internal::CaptureStderr();
  open();
  endpoint_.reset();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(EndpointTest, TellsOfItsQueuePairs) {
  open();
  const std::string one = std::to_string(make_qp());
  const std::string two = std::to_string(make_qp());
  const std::string list = asked("/uroce/qps");
  EXPECT_NE(list.find(one), std::string::npos) << list;
  EXPECT_NE(list.find(two), std::string::npos) << list;
  const std::string second = asked("/uroce/qp," + two);
  EXPECT_EQ(second.rfind("{\"/uroce/qp\":{\"qpn\":" + two + ",\"type\":\"RC\",\"state\":\"RESET\"", 0), 0u) << second;
  for (const char* what :
       {"dest_qpn", "dest_gid", "sgid_index", "path_mtu", "path", "timeout", "retry_cnt", "rnr_retry", "max_rd_atomic",
        "max_dest_rd_atomic", "sends_queued", "receives_queued", "error"}) {
    EXPECT_NE(second.find(",\"" + std::string(what) + "\":"), std::string::npos) << what << " of " << second;
  }
  EXPECT_EQ(asked("/uroce/qp,16777215"), "{\"/uroce/qp\":null}") << "there is no such number";
  EXPECT_EQ(asked("/uroce/qp"), "{\"/uroce/qp\":null}");
  endpoint_.reset();
  EXPECT_EQ(asked("/uroce/qps"), "{\"/uroce/qps\":null}") << "nothing is there to tell of";
}

/// The number of the endpoint's thread, as text.
std::string its_thread() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name == "uroce") return task.path().filename();
  }
  ADD_FAILURE() << "there is no thread 'uroce'";
  return "0";
}

/// The signals that it blocks, as the kernel has them: bit 0 is signal 1.
uint64_t blocked_by_its_thread() {
  std::ifstream status("/proc/self/task/" + its_thread() + "/status");
  uint64_t mask = 0;
  for (std::string word; status >> word;) {
    if (word == "SigBlk:" && status >> std::hex >> mask) return mask;
  }
  ADD_FAILURE() << "the kernel does not say";
  return 0;
}

TEST_F(EndpointTest, ItsThreadLeavesSignalsToTheProgram) {
  open();
  const uint64_t blocked = blocked_by_its_thread();
  const auto blocks = [&](int signal) { return (blocked >> (signal - 1) & 1) != 0; };
  for (int signal = 1; signal <= SIGRTMAX; signal++) {
    if (signal == SIGKILL || signal == SIGSTOP || (signal > SIGSYS && signal < SIGRTMIN)) continue;  // cannot be
    const bool by_an_instruction = signal == SIGSEGV || signal == SIGBUS;
    EXPECT_EQ(blocks(signal), !by_an_instruction) << signal;
  }
}

struct SchedulerAttributes {  // the kernel's sched_attr, as it was at first
  uint32_t size = sizeof(SchedulerAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};

SchedulerAttributes attributes_of(pid_t thread) {
  SchedulerAttributes attributes;
  EXPECT_EQ(syscall(SYS_sched_getattr, thread, &attributes, sizeof attributes, 0), 0);
  return attributes;
}

/// Whether the kernel has them, tried with a thread of the test.
bool kernel_has_slices() {
  uint64_t slice = 0;
  std::thread([&] {
    SchedulerAttributes attributes = attributes_of(0);
    attributes.runtime_ns = 200'000;
    syscall(SYS_sched_setattr, 0, &attributes, 0);
    slice = attributes_of(0).runtime_ns;
  }).join();
  return slice == 200'000;
}

TEST_F(EndpointTest, ItsThreadAsksForShortSlicesOfTheCpu) {
  if (!kernel_has_slices()) GTEST_SKIP() << "this kernel gives everybody the same";
  open();
  EXPECT_EQ(attributes_of(std::stoi(its_thread())).runtime_ns, 100'000u);
}

/// Its thread sleeps for a tenth of a second at a time when the program drives alone; closing does not wait for that.
/// Repeated until it was quick once: the thread may go to sleep late, and the machine may be busy.
TEST_F(EndpointTest, ClosesWithoutWaitingForItsThreadToWake) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kQuick = std::chrono::milliseconds(50);
  config_.progress = Progress::kInline;
  auto shortest = Clock::duration::max();
  for (int i = 0; i < 20 && shortest >= kQuick; i++) {
    open();
    usleep(20000);
    const auto begin = Clock::now();
    endpoint_.reset();
    shortest = std::min(shortest, Clock::now() - begin);
  }
  EXPECT_LT(shortest, kQuick);
}

}  // namespace
}  // namespace uroce
