// Several endpoints in one process, joined by shared memory: driven at the same time by a thread each, closed while the
// others live, opened again, seen from outside, inherited by a fork, and refused.
#include <gtest/gtest.h>
#include <rte_lcore.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <functional>
#include <optional>
#include <thread>

#include "ask_telemetry.h"
#include "endpoint_on_wire.h"
#include "host/wire_end.h"
#include "sanitized.h"
#include "temporary_directory.h"

#ifdef __SANITIZE_THREAD__
// DPDK's own libraries are not built with the sanitizer, so that it sees them copy and clear memory of their heap, but
// not the heap's spinlock, through which memory of one endpoint becomes another's. As it ignores what they call, it
// does not see them close the descriptor that their interrupt thread waited on, but it sees the wait, which goes
// through us (dpdk/interrupt_guard.h): the next owner of that number seems to race with it.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "called_from_lib:librte_eal.so\n"
         "called_from_lib:librte_net_memif.so\n"
         "race_top:interceptor_epoll_wait$\n";
}
#endif

// Memory that only the parent's threads refer to looks like leaks to LeakSanitizer in a child, which does not have
// their stacks.
static bool in_a_child = false;
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() { return in_a_child ? 1 : 0; }

namespace uroce {
namespace {

/// DPDK uses it from the first endpoint on.
class RuntimeDirOfTheProcess : public testing::Environment {
 public:
  void SetUp() override { dir_.emplace(); }
  void TearDown() override {
    remove_eal_directory();
    dir_.reset();
  }

 private:
  std::optional<TemporaryRuntimeDir> dir_;
};
[[maybe_unused]] testing::Environment* const kDir = testing::AddGlobalTestEnvironment(new RuntimeDirOfTheProcess);

void exchange(EndpointOnWire& a, EndpointOnWire& b, int times, uint32_t seed) {
  a.fill(seed);
  b.fill(~seed);
  WcStatus status[2]{};
  std::thread one([&] { status[0] = a.write(times); });
  std::thread two([&] { status[1] = b.write(times); });
  one.join();
  two.join();
  EXPECT_EQ(status[0], WcStatus::kSuccess);
  EXPECT_EQ(status[1], WcStatus::kSuccess);
  EXPECT_EQ(a.received(), b.out);
  EXPECT_EQ(b.received(), a.out);
}

/// Exchanges one after the other, until the end. Nothing is allocated meanwhile: the allocator of Clang 14's
/// AddressSanitizer does not prepare its locks for a fork, and a child forked while one is held would wait for it for
/// ever.
class Exchanges {
 public:
  Exchanges(EndpointOnWire& a, EndpointOnWire& b)
      : one_([this, &a, &b] { run(a, b, 0); }), two_([this, &a, &b] { run(b, a, 1); }) {}
  ~Exchanges() { end(); }
  Exchanges(const Exchanges&) = delete;
  Exchanges& operator=(const Exchanges&) = delete;
  uint32_t end() {
    stop_ = true;
    if (one_.joinable()) one_.join();
    if (two_.joinable()) two_.join();
    return count_;
  }

 private:
  void run(EndpointOnWire& mine, EndpointOnWire& peer, unsigned number) {
    do {
      mine.fill(number == 0 ? count_ : ~count_);
      together_.arrive_and_wait();
      EXPECT_EQ(mine.write(2), WcStatus::kSuccess);
      together_.arrive_and_wait();
      EXPECT_TRUE(mine.has_received(peer.out));
      if (number == 0) {
        count_++;
        more_ = !stop_;
      }
      together_.arrive_and_wait();
    } while (more_);
  }

  std::barrier<> together_{2};
  std::atomic<bool> stop_{false};
  bool more_ = true;    // set by the first side, between barriers
  uint32_t count_ = 0;  // likewise
  std::thread one_;
  std::thread two_;
};

class SeveralEndpointsTest : public testing::Test {
 protected:
  /// Each test has wires of its own: the driver may still know the sockets of others that were just closed.
  SeveralEndpointsTest() : wire_(serial_++), other_wire_(serial_++) {}

  void open_pair(EndpointOnWire& a, EndpointOnWire& b) {
    ASSERT_TRUE(a.open()) << a.error;
    ASSERT_TRUE(b.open()) << b.error;
    a.connect(b);
    b.connect(a);
  }

  static inline unsigned serial_ = 0;
  unsigned wire_;
  unsigned other_wire_;
};

TEST_F(SeveralEndpointsTest, TwoWriteToEachOtherAtTheSameTime) {
  EndpointOnWire a(wire_, 0);
  EndpointOnWire b(wire_, 1);
  open_pair(a, b);
  EXPECT_FALSE(a.endpoint->identity().mac == b.endpoint->identity().mac);
  for (uint32_t round = 0; round < 4; round++) exchange(a, b, 20, round);
}

TEST_F(SeveralEndpointsTest, TheirOwnThreadsDriveThemAtTheSameTime) {
  EndpointOnWire a(wire_, 0, Progress::kThread);
  EndpointOnWire b(wire_, 1, Progress::kThread);
  open_pair(a, b);
  exchange(a, b, 20, 1);
}

TEST_F(SeveralEndpointsTest, OneClosesWhileTheOtherLivesAndIsOpenedAgain) {
  EndpointOnWire a(wire_, 0);
  EndpointOnWire lives(other_wire_, 0);
  EndpointOnWire lives_too(other_wire_, 1);
  open_pair(lives, lives_too);
  Exchanges busy(lives, lives_too);
  ASSERT_TRUE(a.open()) << a.error;
  for (uint32_t round = 0; round < 5; round++) {
    EndpointOnWire b(wire_, 1);
    ASSERT_TRUE(b.open()) << b.error;
    a.endpoint.reset();
    ASSERT_TRUE(a.open()) << a.error;
    a.connect(b);
    b.connect(a);
    exchange(a, b, 3, round);
  }
  EXPECT_GT(busy.end(), 0u);
  lives.endpoint.reset();
  lives_too.endpoint.reset();
  a.endpoint.reset();
  EndpointOnWire c(wire_, 1);
  open_pair(a, c);
  exchange(a, c, 3, 99);
}

unsigned carried(Endpoint& endpoint) {
  const EngineLock owner(endpoint);
  return rte_lcore_id();
}

TEST_F(SeveralEndpointsTest, EachHasAnLcoreIdOfItsOwnForWhoeverDrives) {
  EndpointOnWire one(wire_, 0);
  EndpointOnWire two(wire_, 1);
  EndpointOnWire three(other_wire_, 0);
  for (EndpointOnWire* each : {&one, &two, &three}) ASSERT_TRUE(each->open()) << each->error;
  const unsigned before = rte_lcore_id();
  EXPECT_EQ(carried(*one.endpoint), rte_get_main_lcore()) << "what is there anyway";
  EXPECT_NE(carried(*one.endpoint), carried(*two.endpoint));
  EXPECT_NE(carried(*two.endpoint), carried(*three.endpoint));
  EXPECT_NE(carried(*one.endpoint), carried(*three.endpoint));
  EXPECT_EQ(rte_lcore_id(), before);
  unsigned elsewhere = 0;
  std::thread([&] { elsewhere = carried(*two.endpoint); }).join();
  EXPECT_EQ(elsewhere, carried(*two.endpoint));
  {
    const EngineLock first(*one.endpoint);
    const EngineLock second(*two.endpoint);
    EXPECT_EQ(rte_lcore_id(), elsewhere);
  }
  EXPECT_EQ(rte_lcore_id(), before);
  one.endpoint.reset();
  ASSERT_TRUE(one.open()) << one.error;
  EXPECT_EQ(carried(*one.endpoint), rte_get_main_lcore()) << "free again";
}

TEST_F(SeveralEndpointsTest, WhenLcoreIdsRunOutALineSaysSo) {
  EndpointOnWire one(wire_, 0);
  EndpointOnWire two(wire_, 1);
  ASSERT_TRUE(one.open()) << one.error;
  std::thread([&] {
    std::vector<unsigned> ids;
    testing::internal::CaptureStderr();
    while (rte_thread_register() == 0) ids.push_back(rte_lcore_id());
    EXPECT_FALSE(two.open());
    testing::internal::GetCapturedStderr();
    EXPECT_EQ(two.error, "DPDK has no lcore id left for another endpoint (" + std::to_string(RTE_MAX_LCORE) +
                             " at most, the application's among them): "
                             "close an endpoint, or start EAL with fewer");
    for (const unsigned id : ids) {
      RTE_PER_LCORE(_lcore_id) = id;
      rte_thread_unregister();
    }
  }).join();
  EXPECT_TRUE(two.open()) << two.error;
}

TEST_F(SeveralEndpointsTest, TelemetryTellsOfEach) {
  EndpointOnWire one(wire_, 0);
  EndpointOnWire two(wire_, 1);
  open_pair(one, two);
  exchange(one, two, 1, 5);
  const std::string list = asked("/uroce/endpoints");
  unsigned first = 0;
  unsigned second = 0;
  ASSERT_EQ(std::sscanf(list.c_str(), "{\"/uroce/endpoints\":[%u,%u]}", &first, &second), 2) << list;
  EXPECT_LT(first, second);
  const auto mac = [](const EndpointOnWire& each) { return to_string(each.endpoint->identity().mac); };
  const auto tells = [&](const std::string& question, const EndpointOnWire& of) {
    const std::string answer = asked(question);
    EXPECT_NE(answer.find("\"mac\":\"" + mac(of) + "\""), std::string::npos) << question << ": " << answer;
  };
  tells("/uroce/endpoint", one);
  tells("/uroce/endpoint," + std::to_string(first), one);
  tells("/uroce/endpoint," + std::to_string(second), two);
  for (const char* question : {"/uroce/endpoint,", "/uroce/counters,", "/uroce/qps,"}) {
    for (const std::string& none : {std::to_string(second + 1), std::string("dog"), std::to_string(first) + ",0"}) {
      EXPECT_NE(asked(question + none).find(":null}"), std::string::npos) << question << none;
    }
  }
  const std::string qps = asked("/uroce/qps," + std::to_string(second));
  unsigned qpn = 0;
  ASSERT_EQ(std::sscanf(qps.c_str(), "{\"/uroce/qps\":[%u]}", &qpn), 1) << qps;
  EXPECT_NE(asked("/uroce/qp," + std::to_string(qpn) + "," + std::to_string(second)).find("\"RTS\""),
            std::string::npos);
  EXPECT_EQ(asked("/uroce/qp," + std::to_string(qpn)), "{\"/uroce/qp\":null}") << "the first has no such number";
  one.endpoint.reset();
  tells("/uroce/endpoint", two);
}

/// Runs `what` in a child and returns its exit status; 0 is good. The child ends without destroying the parent's
/// objects.
int status_of_child(const std::function<int()>& what) {
  const pid_t child = fork();
  if (child == 0) {
    in_a_child = true;
    alarm(120);
    _exit(what());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(SeveralEndpointsTest, AForkLeavesThemToTheParent) {
  EndpointOnWire a(wire_, 0);
  EndpointOnWire b(wire_, 1);
  open_pair(a, b);
  Exchanges busy(a, b);
  for (int i = 0; i < 20; i++) {
    usleep(1000);
    const int status = status_of_child([&] {
      for (EndpointOnWire* each : {&a, &b}) {
        const EngineLock owner(*each->endpoint);
        if (each->endpoint->drive() != 0) return 1;
      }
      EndpointOnWire third(other_wire_, 0);
      if (third.open()) return 2;
      if (third.error.find("use --port shmlan") == std::string::npos) return 3;
      a.endpoint.reset();
      b.endpoint.reset();
      return third.open() ? 4 : 0;
    });
    ASSERT_EQ(status, 0) << "fork " << i;
  }
  busy.end();
  exchange(a, b, 2, 7);
}

TEST_F(SeveralEndpointsTest, AChildMayHaveItsOwnOnASegment) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "skipped: ThreadSanitizer ends the child of a process with threads when it makes a thread itself";
#endif
  EndpointOnWire a(wire_, 0);
  EndpointOnWire b(wire_, 1);
  open_pair(a, b);
  Exchanges busy(a, b);
  for (int i = 0; i < 5; i++) {
    usleep(1000);
    const int status = status_of_child([&] {
      EndpointOnWire one("shmlan");
      EndpointOnWire two("shmlan");
      if (!one.open() || !two.open()) return 1;
      one.connect(two);
      two.connect(one);
      one.fill(17);
      std::thread other([&] { two.write(3); });
      const bool written = one.write(3) == WcStatus::kSuccess;
      other.join();
      if (!written || !two.has_received(one.out)) return 2;
      const std::string told = asked("/uroce/endpoint");
      return told.find("\"port\":\"shmlan\"") != std::string::npos ? 0 : 3;
    });
    ASSERT_EQ(status, 0) << "fork " << i;
  }
  busy.end();
  const std::string told = asked("/uroce/endpoint");
  EXPECT_NE(told.find("\"port\":\"net_memif" + std::to_string(2 * wire_) + "\""), std::string::npos) << told;
}

TEST_F(SeveralEndpointsTest, AChildMayHaveItsOwnAtASwitchWhateverOthersOpenMeanwhile) {
  if (kSanitized) GTEST_SKIP() << "skipped: the sanitizers do not make their locks ready for a fork";
  SwitchSign sign;
  std::string error;
  ASSERT_TRUE(sign.put_up("forked", 4, "note", error)) << error;
  EndpointOnWire one("switch:forked");
  ASSERT_TRUE(one.open()) << one.error;
  std::atomic<bool> stop{false};
  std::thread opens([&stop] {
    std::string ignored;
    do {
      EndpointOnWire two("switch:forked");
      EXPECT_TRUE(two.open()) << two.error;
      for (int i = 0; i < 100; i++) look_at_switch_port("forked", ignored);
    } while (!stop);
  });
  int status = 0;
  for (int i = 0; i < 40 && status == 0; i++) {
    usleep(1000);
    status = status_of_child([] {
      alarm(20);
      EndpointOnWire own("switch:forked");
      return own.open() ? 0 : 1;
    });
  }
  stop = true;
  opens.join();
  EXPECT_EQ(status, 0) << "a child waits for what a thread had that it does not have";
}

TEST_F(SeveralEndpointsTest, AChildThatEndsAsProgramsDoTouchesNothing) {
  EndpointOnWire a(wire_, 0);
  EndpointOnWire b(wire_, 1);
  open_pair(a, b);
  Exchanges busy(a, b);
  for (int i = 0; i < 20; i++) {
    usleep(1000);
    const int status = status_of_child([&]() -> int {
      a.endpoint.reset();
      std::exit(0);  // with the handlers of the process
    });
    ASSERT_EQ(status, 0) << "fork " << i;
  }
  busy.end();
  exchange(a, b, 2, 7);
}

TEST_F(SeveralEndpointsTest, AProgramMayEndWhileItOwnsAnEngine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process of its own, with an EAL of its own
  const auto end = [this] {
    EndpointOnWire one(wire_, 0);
    if (!one.open()) std::_Exit(1);
    alarm(120);
    const EngineLock owner(*one.endpoint);
    std::exit(0);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(0), "");
}

TEST_F(SeveralEndpointsTest, WhoFindsNoPortOfASwitchFreeIsRefused) {
  SwitchSign sign;
  std::string error;
  ASSERT_TRUE(sign.put_up("lab", 2, "note", error)) << error;
  EndpointOnWire one("switch:lab");
  EndpointOnWire two("switch:lab");
  EndpointOnWire three("switch:lab");
  ASSERT_TRUE(one.open()) << one.error;
  ASSERT_TRUE(two.open()) << two.error;
  EXPECT_FALSE(three.open());
  const std::string me = "process " + std::to_string(getpid());
  EXPECT_NE(three.error.find("are taken, by " + me + " and " + me), std::string::npos) << three.error;
  two.endpoint.reset();
  ASSERT_TRUE(three.open()) << three.error;
  EXPECT_EQ(to_string(three.endpoint->identity().addresses.at(0)), "198.18.0.2/24") << "the one that became free";
}

TEST_F(SeveralEndpointsTest, AnOpenPortIsRefused) {
  EndpointOnWire one("net_ring0");
  EndpointOnWire two("net_ring0");
  ASSERT_TRUE(one.open()) << one.error;
  EXPECT_FALSE(two.open());
  EXPECT_EQ(two.error, "port net_ring0 is open already, for another endpoint of this process");
  two.config.eal_running = true;
  EXPECT_FALSE(two.open());
  EXPECT_EQ(two.error, "port net_ring0 is open already, for another endpoint of this process");
  one.endpoint.reset();
  two.config.eal_running = false;
  EXPECT_TRUE(two.open()) << two.error;
}

TEST_F(SeveralEndpointsTest, WhatEalCannotBeToldAnyMoreIsRefused) {
  EndpointOnWire one(wire_, 0);
  ASSERT_TRUE(one.open()) << one.error;
  const std::string running = "DPDK is running in this process already, for its first endpoint, ";
  EndpointOnWire two(wire_, 1);
  two.config.eal_args = {"-m", "128"};
  EXPECT_FALSE(two.open());
  EXPECT_EQ(two.error, running + "and takes no arguments any more: give '-m 128' to the first one, too");
  two.config.eal_args.clear();
  two.config.hugepages = Hugepages::kYes;
  EXPECT_FALSE(two.open());
  EXPECT_EQ(two.error, running + "without hugepages: ask for them with the first one");
  EalOptions pci;
  pci.pci_device = "0000:00:1f.0";
  EXPECT_FALSE(start_eal(pci, two.error));
  EXPECT_EQ(two.error, running + "without PCI devices: open 0000:00:1f.0 first");
  two.config.hugepages = Hugepages::kAuto;
  EXPECT_TRUE(two.open()) << two.error << ": who asks for nothing gets what there is";
}

}  // namespace
}  // namespace uroce
