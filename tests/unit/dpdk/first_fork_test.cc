// A fork while a thread opens the first endpoint of its process, or looks at one. A program of its own: nothing in it
// has been opened before, and nothing is.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "dpdk/endpoint.h"
#include "host/wire_end.h"
#include "sanitized.h"
#include "temporary_directory.h"
#include "transport/observer.h"

namespace uroce {
namespace {

/// A full switch: a program that asks for a port looks at one after the other, and holds their lock for that long.
class FirstFork : public testing::Test {
 protected:
  static constexpr unsigned kPorts = SwitchSign::kMaxPorts;

  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "skipped: the sanitizers do not make their locks ready for a fork";
    std::string error;
    ASSERT_TRUE(sign_.put_up("full", kPorts, "note", error)) << error;
    for (unsigned i = 0; i < kPorts; i++) {
      const auto end = take_switch_port("full", error);
      ASSERT_TRUE(end) << error;
      occupy_wire_end(*end);
    }
  }
  void TearDown() override { leave_wire_ends(); }

  static EndpointConfig config() {
    EndpointConfig config;
    config.port = "switch:full";
    return config;
  }
  static void look() {
    EndpointIdentity identity;
    std::string error;
    static_cast<void>(Endpoint::identify(config(), identity, error));
  }
  static void open() {
    Observer observer;
    std::string error;
    EXPECT_EQ(Endpoint::open(config(), observer, error), nullptr) << "the switch is full";
  }

  /// Forks while a thread repeats `f`; each child does it once. False when a child never ends.
  static bool forks_while(void (*f)()) {
    std::atomic<unsigned> done{0};
    std::atomic<bool> stop{false};
    std::thread other([&] {
      for (; !stop; done++) f();
    });
    while (done == 0) usleep(100);
    int status = 0;
    for (int i = 0; i < 20 && status == 0; i++) {
      usleep(1000);
      const pid_t child = fork();
      if (child == 0) {
        alarm(20);
        f();
        _exit(0);
      }
      waitpid(child, &status, 0);
    }
    stop = true;
    other.join();
    return status == 0;
  }

  TemporaryRuntimeDir dir_;
  SwitchSign sign_;
};

TEST_F(FirstFork, WhileAThreadLooks) { EXPECT_TRUE(forks_while(look)); }

TEST_F(FirstFork, WhileAThreadOpens) { EXPECT_TRUE(forks_while(open)); }

}  // namespace
}  // namespace uroce
