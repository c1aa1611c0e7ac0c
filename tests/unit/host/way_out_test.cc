// Who starts the machine's way out, what programs tell each other of it, and that a process that is started for it is
// nobody's child and has nothing of ours.
#include "host/way_out.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/unique_fd.h"
#include "host/detached_process.h"
#include "host/way_out_note.h"
#include "temporary_directory.h"

namespace uroce {
namespace {

TEST(WayOut, IsStartedByWhoeverFindsNone) {
  std::string why;
  EXPECT_EQ(choose_way_out({}, why), WayOutStep::kStart);
  EXPECT_EQ(choose_way_out({.there = true}, why), WayOutStep::kUse);
  EXPECT_EQ(why, "");
}

TEST(WayOut, OnlyWhoAsksForItGetsOne) {
  const TemporaryRuntimeDir dir;
  for (const char* const port : {"", "shmlan", "shmlan:network", "switch", "net_null0", "net_udp0"}) {
    EndpointConfig config;
    config.port = port;
    EXPECT_EQ(seek_way_out(config).why, "") << port;
    EXPECT_TRUE(std::filesystem::is_empty(dir.path())) << port;
  }
}

/// There is no uroced beside this test.
TEST(WayOut, WhoAsksHearsWhyThereIsNoneAndTheNextOneKnows) {
  const TemporaryRuntimeDir dir;
  EndpointConfig config;
  config.port = "network";
  const NoWayOut first = seek_way_out(config);
  EXPECT_NE(first.why, "");
  EXPECT_TRUE(first.is_news);
  const NoWayOut second = seek_way_out(config);
  EXPECT_EQ(second.why, first.why);
  EXPECT_FALSE(second.is_news) << "it was said a moment ago";
}

TEST(WayOut, OneThatIsThereIsUsedWhateverElseIsTheCase) {
  std::string why;
  EXPECT_EQ(choose_way_out({true, false, false, true, WayOutFailure{"taken", milliseconds(1)}}, why), WayOutStep::kUse);
  EXPECT_EQ(why, "");
}

TEST(WayOut, WithoutAddressesNothingIsStarted) {
  std::string why;
  EXPECT_EQ(choose_way_out({.has_addresses = false}, why), WayOutStep::kGoWithout);
  EXPECT_NE(why.find("no interface of this machine has an address"), std::string::npos) << why;
}

TEST(WayOut, OfAGroupIsTheAdministratorsToStart) {
  std::string why;
  EXPECT_EQ(choose_way_out({.own_place = false}, why), WayOutStep::kGoWithout);
  EXPECT_NE(why.find("group"), std::string::npos) << why;
}

TEST(WayOut, AFailureCountsForAWhile) {
  std::string why;
  for (const Duration ago : {milliseconds(0), Duration{kWayOutLinger.ns - 1}}) {
    EXPECT_EQ(choose_way_out({.failure = WayOutFailure{"taken", ago}}, why), WayOutStep::kGoWithout);
    EXPECT_EQ(why, "taken");
  }
  EXPECT_EQ(choose_way_out({.failure = WayOutFailure{"taken", kWayOutLinger}}, why), WayOutStep::kStart);
  EXPECT_EQ(why, "");
}

TEST(WayOut, TheReasonIsWhatUrocedSaidLast) {
  EXPECT_EQ(reason_in("", true), "uroced ended at once");
  EXPECT_EQ(reason_in("", false), "uroced is not ready after 30 seconds");
  EXPECT_EQ(
      reason_in("x\n/usr/bin/uroced: error while loading shared libraries: librte_eal.so.23\n\n", true),
      "uroced ended at once, and said last: /usr/bin/uroced: error while loading shared libraries: librte_eal.so.23");
  EXPECT_EQ(reason_in("uroced: port net_udp0 is taken\nuroce: counted\n", true), "port net_udp0 is taken");
  EXPECT_EQ(reason_in("uroced: one\nuroced: \033[31mtwo", true), "?[31mtwo") << "no escape sequence, no end of line";
}

TEST(WayOut, AProcessThatTakesInOrphansStartsNone) {
  EXPECT_FALSE(takes_in_orphans());
  const int before = prctl(PR_SET_CHILD_SUBREAPER, 1);
  ASSERT_EQ(before, 0);
  EXPECT_TRUE(takes_in_orphans());
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  std::string why;
  EXPECT_EQ(choose_way_out({.adopts = true}, why), WayOutStep::kGoWithout);
  EXPECT_NE(why.find("uroced --port net_udp0"), std::string::npos) << why;
  EXPECT_EQ(choose_way_out({.there = true, .adopts = true}, why), WayOutStep::kUse);
}

TEST(WayOut, OnlyAProgramOfTheUsersOrOfRootsIsExecuted) {
  const TemporaryRuntimeDir dir;
  const std::string path = dir.path() / "uroced";
  EXPECT_FALSE(is_trusted_program(path)) << "not there";
  std::ofstream(path) << "#!/bin/sh\n";
  chmod(path.c_str(), 0644);
  EXPECT_FALSE(is_trusted_program(path)) << "no program";
  chmod(path.c_str(), 0755);
  EXPECT_TRUE(is_trusted_program(path));
  chmod(path.c_str(), 0757);
  EXPECT_FALSE(is_trusted_program(path)) << "everybody may write to it";
  if (geteuid() != 0) return;
  chmod(path.c_str(), 0755);
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  EXPECT_FALSE(is_trusted_program(path)) << "another user's";
}

TEST(WayOut, NothingThatIsForTheProgramGoesToUroced) {
  const char* const own[] = {"LD_PRELOAD=liburoce_verbs.so",
                             "UROCE_FAULTS=loss 1%",
                             "UROCE_PCAP=/x",
                             "PATH=/bin",
                             "UROCE_RUNTIME_DIR=/run/x",
                             "PATHS=no",
                             "UROCE_PORT=network",
                             nullptr};
  EXPECT_EQ(daemon_environment(own), (std::vector<std::string>{"PATH=/bin", "UROCE_RUNTIME_DIR=/run/x"}));
}

TEST(WayOutNote, SaysWhenSomebodyAskedAndWhatCameOfIt) {
  const TemporaryRuntimeDir dir;
  WayOutNote note;
  std::string error;
  ASSERT_TRUE(note.take("host", milliseconds(0), error)) << error;
  EXPECT_EQ(note.asked_ago(), std::nullopt) << "nobody yet";
  EXPECT_EQ(note.failure(), "");
  note.write("UDP port 4791 is in use");
  note.release();
  WayOutNote another;
  ASSERT_TRUE(another.take("host", milliseconds(0), error)) << error;
  ASSERT_TRUE(another.asked_ago());
  EXPECT_GE(another.asked_ago()->ns, 0);
  EXPECT_EQ(another.failure(), "UDP port 4791 is in use");
  another.write("");
  EXPECT_EQ(another.failure(), "");
  EXPECT_TRUE(another.asked_ago());
}

TEST(WayOutNote, WhatIsNoLineOfOursSaysNothing) {
  const TemporaryRuntimeDir dir;
  WayOutNote note;
  std::string error;
  for (const char* const text :
       {"", "x", "12", "-5 x", "99999999999999999999 x", "9000000000000000000 from before a reboot"}) {
    std::ofstream(dir.path() / "way-out.host") << text;
    ASSERT_TRUE(note.take("host", milliseconds(0), error)) << error;
    EXPECT_EQ(note.asked_ago(), std::nullopt) << text;
    note.release();
  }
}

TEST(WayOutNote, HostsHaveNothingToDoWithEachOther) {
  const TemporaryRuntimeDir dir;
  WayOutNote one;
  WayOutNote two;
  std::string error;
  ASSERT_TRUE(one.take("one", milliseconds(0), error)) << error;
  one.write("no interface of this machine has an address");
  ASSERT_TRUE(two.take("two", milliseconds(0), error)) << error;
  EXPECT_EQ(two.failure(), "");
  EXPECT_EQ(two.asked_ago(), std::nullopt);
}

TEST(WayOutNote, OneAtATimeHasIt) {
  const TemporaryRuntimeDir dir;
  WayOutNote first;
  WayOutNote second;
  std::string error;
  ASSERT_TRUE(first.take("host", milliseconds(0), error)) << error;
  EXPECT_FALSE(second.take("host", milliseconds(30), error));
  EXPECT_NE(error.find("another program of this user is still starting uroced"), std::string::npos) << error;
  std::thread releases([&] { first.release(); });
  EXPECT_TRUE(second.take("host", milliseconds(20'000), error)) << error;
  releases.join();
}

TEST(WayOutNote, AChildThatWasForkedMeanwhileKeepsNobodyWaiting) {
  const TemporaryRuntimeDir dir;
  WayOutNote first;
  std::string error;
  ASSERT_TRUE(first.take("host", milliseconds(0), error)) << error;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pause();
    _exit(0);
  }
  first.release();
  WayOutNote second;
  EXPECT_TRUE(second.take("host", milliseconds(0), error)) << error;
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(WayOutNote, ALinkInItsPlaceIsNotFollowed) {
  const TemporaryRuntimeDir dir;
  const std::string other = dir.path() / "other";
  std::ofstream(other) << "untouched";
  ASSERT_EQ(symlink(other.c_str(), (dir.path() / "way-out.host").c_str()), 0);
  WayOutNote note;
  std::string error;
  EXPECT_FALSE(note.take("host", milliseconds(0), error));
  EXPECT_NE(error.find("cannot open"), std::string::npos) << error;
}

volatile sig_atomic_t signals = 0;

class Detached : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer does not live through processes that share memory (clone)";
#endif
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    reader = UniqueFd(ends[0]);
    writer = UniqueFd(ends[1]);
  }
  int start(const std::string& script) {
    const int code = start_detached({{"/bin/sh", "-c", script}, {"PATH=/usr/bin:/bin", "ONLY=this"}, writer.get()});
    writer.reset();
    return code;
  }
  /// All that it says until nobody can say more.
  std::string said() const {
    std::string text;
    char bytes[4096];
    for (ssize_t count; (count = read(reader.get(), bytes, sizeof bytes)) > 0;)
      text.append(bytes, static_cast<size_t>(count));
    return text;
  }

  UniqueFd reader;
  UniqueFd writer;
};

TEST_F(Detached, HasNoneOfOurDescriptors) {
  const UniqueFd own(open("/dev/null", O_RDONLY));  // would be inherited
  ASSERT_TRUE(own);
  ASSERT_EQ(start("n=0; while [ $n -lt 200 ]; do [ -e /proc/$$/fd/$n ] && printf '%s ' $n; n=$((n + 1)); done"), 0);
  EXPECT_EQ(said(), "0 1 2 ");
}

TEST_F(Detached, HasAnEnvironmentOfItsOwn) {
  setenv("OF_THE_PROGRAM", "1", 1);
  ASSERT_EQ(start("echo \"$ONLY,$OF_THE_PROGRAM,$PWD\""), 0);
  EXPECT_EQ(said(), "this,,/\n");
  unsetenv("OF_THE_PROGRAM");
}

TEST_F(Detached, IsNobodysChildAndSendsNoSignal) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { signals = signals + 1; };
  sigaction(SIGCHLD, &action, &before);
  signals = 0;
  ASSERT_EQ(start("echo done"), 0);
  EXPECT_EQ(said(), "done\n");
  EXPECT_EQ(waitpid(-1, nullptr, 0), -1);
  EXPECT_EQ(errno, ECHILD);
  EXPECT_EQ(signals, 0);
  sigaction(SIGCHLD, &before, nullptr);
}

TEST_F(Detached, IgnoresAndBlocksNothing) {
  signal(SIGTERM, SIG_IGN);
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, &before);
  EXPECT_EQ(start("kill -TERM $$; echo survived"), 0);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  signal(SIGTERM, SIG_DFL);
  EXPECT_EQ(said(), "");
}

TEST_F(Detached, WhatCannotBeStartedIsAnErrorOfTheCaller) {
  EXPECT_EQ(start_detached({{"/nonexistent/uroced"}, {}, writer.get()}), ENOENT);
  EXPECT_EQ(waitpid(-1, nullptr, __WALL), -1) << "nothing is left of the try";
}

TEST_F(Detached, StandardStreamsThatAreClosedHereAreThereForIt) {
  const UniqueFd input(fcntl(0, F_DUPFD_CLOEXEC, 10));
  close(0);
  const int code = start("cat; echo read");
  if (input) dup2(input.get(), 0);
  EXPECT_EQ(code, 0);
  EXPECT_EQ(said(), "read\n");
}

}  // namespace
}  // namespace uroce
