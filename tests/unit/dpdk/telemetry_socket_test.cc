// Telemetry that cannot be started is tried again and again, for as long as the program runs.
#include "dpdk/telemetry_socket.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/files.h"
#include "base/unique_fd.h"
#include "host/telemetry_socket.h"
#include "temporary_directory.h"

namespace uroce {
namespace {

/// A process that has no descriptor left for a socket.
class OutOfDescriptors {
 public:
  OutOfDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit none = before_;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~OutOfDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  OutOfDescriptors(const OutOfDescriptors&) = delete;
  OutOfDescriptors& operator=(const OutOfDescriptors&) = delete;

 private:
  rlimit before_{};
};

/// A process that has no room for the stack of another thread.
class OutOfThreads {
 public:
  OutOfThreads() {
    pthread_attr_t attributes;
    pthread_getattr_default_np(&attributes);
    pthread_attr_getstacksize(&attributes, &before_);
    set(size_t{1} << 47);  // the whole address space
    pthread_attr_destroy(&attributes);
  }
  ~OutOfThreads() { set(before_); }
  OutOfThreads(const OutOfThreads&) = delete;
  OutOfThreads& operator=(const OutOfThreads&) = delete;

 private:
  static void set(size_t bytes) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, bytes);
    EXPECT_EQ(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
  }

  size_t before_ = 0;
};

/// By large blocks, which have a mapping of their own, too.
size_t allocated() {
  const struct mallinfo2 now = mallinfo2();
  return now.uordblks + now.hblkhd;
}

/// How many of `tries` failed, as all should.
template <typename None>
int failed_starts(const std::string& directory, int tries) {
  [[maybe_unused]] const None none{};
  int failed = 0;
  for (int i = 0; i < tries; i++) failed += !start_telemetry(directory);
  return failed;
}

TEST(TelemetrySocket, TriesThatFailedLeaveNothingBehind) {
  const TemporaryRuntimeDir directory;
  const std::string path = directory.path().string() + "/telemetry";
  const std::string now = telemetry_path();
  constexpr int kTries = 1000;
  ASSERT_EQ(failed_starts<OutOfDescriptors>(path, 10), 10);
  const size_t before = allocated();
  ASSERT_EQ(failed_starts<OutOfDescriptors>(path, kTries), kTries);
  EXPECT_LT(allocated(), before + kTries) << "less than a byte for each";
  EXPECT_EQ(telemetry_path(), now);
  EXPECT_TRUE(start_telemetry(path)) << "as soon as it can be";
  EXPECT_EQ(std::filesystem::canonical(telemetry_path()), std::filesystem::canonical(path + "/" + kTelemetryName));
}

// DPDK removes the socket when a process ends that has its functions: also one that only inherited it.
TEST(TelemetrySocket, AChildThatEndsLeavesItsParentsAlone) {
  const TemporaryRuntimeDir directory;
  const std::string path = directory.path().string() + "/telemetry";
  ASSERT_TRUE(start_telemetry(path));
  const pid_t child = fork();
  if (child == 0) {
    leave_telemetry();
    std::exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  // Not its code: a leak checker may find memory of threads that the child does not have.
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_TRUE(std::filesystem::exists(path + "/" + kTelemetryName));
  TelemetrySocket socket(telemetry_path(), std::chrono::seconds(1));
  EXPECT_TRUE(socket.greet(std::chrono::seconds(10)));
}

TEST(TelemetrySocket, EarlierPlacesKeepNoDescriptor) {
  const TemporaryRuntimeDir directory;
  const std::string path = directory.path().string() + "/telemetry";
  ASSERT_TRUE(start_telemetry(path));
  const size_t descriptors = names_in("/proc/self/fd").size();
  for (int i = 0; i < 3; i++) {
    std::filesystem::remove_all(path);
    ASSERT_TRUE(start_telemetry_again(telemetry_path(), path));
  }
  EXPECT_LE(names_in("/proc/self/fd").size(), descriptors);
}

// In a directory whose name is too long for a socket's address, so that each place has a descriptor.
TEST(TelemetrySocket, NorDoThoseForWhichThereIsNoThread) {
  const TemporaryRuntimeDir directory;
  const std::string path = directory.path().string() + "/" + std::string(100, 'x') + "/telemetry";
  constexpr int kTries = 1000;
  ASSERT_EQ(failed_starts<OutOfThreads>(path, 10), 10);
  const size_t memory = allocated();
  const size_t descriptors = names_in("/proc/self/fd").size();
  ASSERT_EQ(failed_starts<OutOfThreads>(path, kTries), kTries);
  EXPECT_LT(allocated(), memory + kTries) << "less than a byte for each";
  EXPECT_EQ(names_in("/proc/self/fd").size(), descriptors);
  EXPECT_TRUE(start_telemetry(path));
}

// A socket that the program which it ran before left open: nobody answers there.
TEST(TelemetrySocket, WhatListensAtItsPlaceIsReplaced) {
  const TemporaryRuntimeDir directory;
  const std::string path = directory.path().string() + "/telemetry";
  std::filesystem::create_directories(path);
  const UniqueFd old(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  (path + "/" + kTelemetryName).copy(at.sun_path, sizeof at.sun_path - 1);
  ASSERT_EQ(bind(old.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(listen(old.get(), 5), 0);
  ASSERT_TRUE(start_telemetry(path));
  TelemetrySocket socket(telemetry_path(), std::chrono::seconds(1));
  EXPECT_TRUE(socket.greet(std::chrono::seconds(10)));
}

// What cannot be removed is in the way of every try.
TEST(TelemetrySocket, NorDoThoseWhosePlaceIsTaken) {
  const TemporaryRuntimeDir directory;
  const std::string path = directory.path().string() + "/telemetry";
  std::filesystem::create_directories(path + "/" + kTelemetryName);
  constexpr int kTries = 1000;
  struct Nothing {};
  ASSERT_EQ(failed_starts<Nothing>(path, 10), 10);
  const size_t memory = allocated();
  ASSERT_EQ(failed_starts<Nothing>(path, kTries), kTries);
  EXPECT_LT(allocated(), memory + kTries) << "less than a byte for each";
}

}  // namespace
}  // namespace uroce
