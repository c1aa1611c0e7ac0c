#include "host/runtime_dir.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "host/endpoint_note.h"
#include "temporary_directory.h"

namespace uroce {
namespace {

TEST(RuntimeDir, TheUserIsTheOneOutsideOfTheNamespace) {
  EXPECT_EQ(outer_uid(1000, "         0          0 4294967295\n"), 1000u) << "no namespace";
  EXPECT_EQ(outer_uid(0, "         0       1000          1\n"), 1000u) << "unshare -Ur";
  EXPECT_EQ(outer_uid(0, "0 1000 1\n1 100000 65536\n"), 1000u) << "a rootless container";
  EXPECT_EQ(outer_uid(33, "0 1000 1\n1 100000 65536\n"), 100032u);
  EXPECT_EQ(outer_uid(7, ""), 7u) << "no such file";
  EXPECT_EQ(outer_uid(5, "0 1000 1\n"), 5u) << "not mapped";
}

TEST(RuntimeDir, TheOneThatTheUserNamesIsMade) {
  const TemporaryRuntimeDir dir;
  const std::string wanted = dir.path() / "mine";
  setenv("UROCE_RUNTIME_DIR", wanted.c_str(), 1);
  std::string error;
  EXPECT_EQ(runtime_dir(error), wanted) << error;
  struct stat st {};
  ASSERT_EQ(stat(wanted.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
}

TEST(RuntimeDir, AFileInItsPlaceIsAClearError) {
  const TemporaryRuntimeDir dir;
  const std::string file = dir.path() / "file";
  std::ofstream(file) << "x";
  setenv("UROCE_RUNTIME_DIR", file.c_str(), 1);
  std::string error;
  EXPECT_EQ(runtime_dir(error), "");
  EXPECT_NE(error.find(file + " is not a directory of this user"), std::string::npos) << error;
}

bool write_text(const char* file, const std::string& text) {
  std::ofstream out(file);
  out << text << std::flush;
  return out.good();
}

bool become_root_inside(uid_t user) {
  // After a change of user, the files of a process in /proc are not its own, unless it is made dumpable.
  return prctl(PR_SET_DUMPABLE, 1) == 0 && unshare(CLONE_NEWUSER) == 0 &&
         write_text("/proc/self/uid_map", "0 " + std::to_string(user) + " 1\n") && geteuid() == 0;
}

/// What the user gets: the directory, or the error behind "!". `inside`: as root of a user namespace of its own.
std::string as_user(uid_t user, bool inside = false) {
  int fds[2];
  EXPECT_EQ(pipe(fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string error;
    const bool is = setresuid(user, user, user) == 0 && (!inside || become_root_inside(user));
    std::string dir = is ? runtime_dir(error) : "cannot be that user";
    if (dir.empty()) dir = "!" + error;
    const bool written = write(fds[1], dir.data(), dir.size()) == static_cast<ssize_t>(dir.size());
    _exit(written ? 0 : 1);
  }
  close(fds[1]);
  char text[512] = {};
  EXPECT_GT(read(fds[0], text, sizeof text - 1), 0);
  close(fds[0]);
  waitpid(child, nullptr, 0);
  return text;
}

constexpr uid_t kNobody = 65534;
std::string as_nobody() { return as_user(kNobody); }

TEST(RuntimeDir, OneOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  const TemporaryRuntimeDir dir;
  ASSERT_EQ(chmod(dir.path().c_str(), 0777), 0) << "everybody may write into it, and yet";
  EXPECT_EQ(as_nobody(),
            "!" + dir.path().string() + " is not a directory of this user; name another place with UROCE_RUNTIME_DIR");
  const std::string link = dir.path() / "link";
  const std::string own = dir.path() / "own";
  setenv("UROCE_RUNTIME_DIR", own.c_str(), 1);
  EXPECT_EQ(as_nobody(), own);
  ASSERT_EQ(symlink(own.c_str(), link.c_str()), 0);
  setenv("UROCE_RUNTIME_DIR", link.c_str(), 1);
  EXPECT_EQ(as_nobody().substr(0, 1), "!") << "a link may lead elsewhere tomorrow";
}

TEST(RuntimeDir, RootDoesNotUseOneOfAnotherUserEither) {
  if (geteuid() != 0) GTEST_SKIP() << "skipped: only root can become somebody else";
  const TemporaryRuntimeDir dir;
  const std::string own = dir.path() / "own";
  const std::string refusal = "!" + own + " is not a directory of this user; name another place with UROCE_RUNTIME_DIR";
  ASSERT_EQ(chmod(dir.path().c_str(), 0777), 0);
  setenv("UROCE_RUNTIME_DIR", own.c_str(), 1);
  EXPECT_EQ(as_user(4711), own);
  EXPECT_EQ(as_user(0), refusal);
  EXPECT_EQ(as_nobody(), refusal);
  for (const auto& [user, sees] : {std::pair<uid_t, std::string>{4711, own}, {4712, refusal}}) {
    const std::string seen = as_user(user, true);
    if (seen != "cannot be that user") {
      EXPECT_EQ(seen, sees) << "root of a user namespace of " << user;
    }
  }
}

// One has $XDG_RUNTIME_DIR, the other has not.
TEST(RuntimeDir, ASessionAndAServiceOfAUserMeet) {
  if (geteuid() != 0) GTEST_SKIP() << "skipped: only root can become somebody else";
  const TemporaryRuntimeDir dir;
  const uid_t user = 1'000'000'000 + static_cast<uid_t>(getpid());  // a user ID that is not in use
  const std::string place = "/tmp/uroce-" + std::to_string(user);
  ASSERT_EQ(chown(dir.path().c_str(), user, user), 0);
  unsetenv("UROCE_RUNTIME_DIR");
  EXPECT_EQ(as_user(user), place);
  setenv("XDG_RUNTIME_DIR", dir.path().c_str(), 1);
  EXPECT_EQ(as_user(user), place);
  // Another user's directory in its place.
  ASSERT_EQ(chown(place.c_str(), 4711, 4711), 0);
  EXPECT_EQ(as_user(user), dir.path() / "uroce");
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(as_user(user), "!" + place + " is not a directory of this user; name another place with UROCE_RUNTIME_DIR");
  rmdir(place.c_str());
}

class NoteTest : public testing::Test {
 protected:
  std::vector<RunningEndpoint> running() { return running_endpoints(error_); }
  bool exists(const std::string& file) { return std::filesystem::exists(dir_.path() / file); }
  TemporaryRuntimeDir dir_;
  std::string error_;
};

TEST_F(NoteTest, IsFoundFromPublishingToRemoval) {
  EndpointNote note;
  ASSERT_TRUE(note.make(error_)) << error_;
  EXPECT_EQ(note.name(), std::to_string(getpid()));
  EXPECT_TRUE(running().empty()) << "not yet";
  note.publish("/some/socket");
  ASSERT_EQ(running().size(), 1u);
  EXPECT_EQ(running()[0].pid, getpid());
  EXPECT_EQ(running()[0].telemetry_socket, "/some/socket");
  note.publish("");
  EXPECT_TRUE(running().empty());
  note.remove();
  EXPECT_FALSE(exists("endpoint." + std::to_string(getpid())));
}

TEST_F(NoteTest, IsWholeOrNothing) {
  EndpointNote note;
  ASSERT_TRUE(note.make(error_)) << error_;
  ASSERT_EQ(note.publish("/one"), 0);
  // As on a file system with room for only so many bytes.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = signal(SIGXFSZ, SIG_IGN);
  for (rlim_t room = 0; room < 13; room++) {
    const rlimit little{room, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
    const int code = note.publish("/some/socket");
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(code, EFBIG) << room;
    EXPECT_TRUE(running().empty()) << room;
  }
  signal(SIGXFSZ, old);
  EXPECT_EQ(note.publish("/some/socket"), 0);
  ASSERT_EQ(running().size(), 1u);
  // As when it is read while it is being written.
  ASSERT_EQ(truncate(note.path().c_str(), 5), 0);
  EXPECT_TRUE(running().empty());
}

// Processes in two containers may have the same number.
TEST_F(NoteTest, TheSameNumberTwiceMakesTwoNames) {
  EndpointNote one;
  EndpointNote two;
  ASSERT_TRUE(one.make(error_) && two.make(error_)) << error_;
  EXPECT_EQ(two.name(), one.name() + ".1");
  one.publish("/one");
  two.publish("/two");
  EXPECT_EQ(running().size(), 2u);
}

TEST_F(NoteTest, WhatAKilledProcessLeftGoes) {
  const std::string mine = "uroce-" + std::to_string(getpid());
  std::filesystem::create_directories(dir_.path() / "dpdk" / mine);
  std::filesystem::create_directories(dir_.path() / "dpdk" / "of-another-program");
  EndpointNote note;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string error;
    auto* never_removed = new EndpointNote;
    if (never_removed->make(error)) never_removed->publish("/gone");
    std::filesystem::create_directories(dir_.path() / "dpdk" / ("uroce-" + never_removed->name()));
    if (write(ready[1], "x", 1) != 1) _exit(1);
    pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(running().size(), 1u);
  EXPECT_TRUE(exists("dpdk/uroce-" + std::to_string(child))) << "it lives";
  EXPECT_FALSE(exists("dpdk/" + mine)) << "nobody has that note";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  for (const int fd : ready) close(fd);
  ASSERT_TRUE(note.make(error_)) << error_;
  EXPECT_TRUE(running().empty());
  EXPECT_FALSE(exists("endpoint." + std::to_string(child)));
  EXPECT_FALSE(exists("dpdk/uroce-" + std::to_string(child)));
  EXPECT_TRUE(exists("dpdk/of-another-program"));
}

/// A note that `sudo` left in a user's directory.
TEST_F(NoteTest, OneThatNobodyHoldsAndThatCannotBeRemovedIsNoProgram) {
  const std::string note = dir_.path() / "endpoint.77";
  const std::string eal = dir_.path() / "dpdk" / "uroce-77";
  std::ofstream(note) << "/some/socket\n";
  std::filesystem::create_directories(eal);
  ASSERT_EQ(chmod(note.c_str(), 0444), 0);
  if (geteuid() == 0) {
    for (const std::string& path : {dir_.path().string(), dir_.path().string() + "/dpdk", eal}) {
      ASSERT_EQ(chown(path.c_str(), kNobody, kNobody), 0);
    }
  }
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) _exit(1);
    std::string error;
    if (!running_endpoints(error).empty()) _exit(2);
    _exit(error.empty() ? 0 : 3);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(exists("endpoint.77")) << "so that it was looked at";
  EXPECT_FALSE(exists("dpdk/uroce-77")) << "DPDK's files of a process that runs no more";
}

TEST_F(NoteTest, AChildThatLeavesDoesNotRemoveItsParents) {
  EndpointNote note;
  ASSERT_TRUE(note.make(error_));
  note.publish("/parents");
  const pid_t child = fork();
  if (child == 0) {
    note.leave();
    const bool nameless = note.name().empty();
    note.remove();
    _exit(nameless ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(running().size(), 1u);
}

}  // namespace
}  // namespace uroce
