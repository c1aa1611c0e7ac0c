// Telemetry that cannot be started is tried again and again, for as long as the program runs.
#include "dpdk/telemetry_socket.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <cstdint>
#include <string>

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

/// By large blocks, which have a mapping of their own, too.
size_t allocated() {
  const struct mallinfo2 now = mallinfo2();
  return now.uordblks + now.hblkhd;
}

/// How many of `tries` failed, as all should.
int failed_starts(const std::string& directory, int tries) {
  const OutOfDescriptors none;
  int failed = 0;
  for (int i = 0; i < tries; i++) failed += !start_telemetry(directory);
  return failed;
}

TEST(TelemetrySocket, TriesThatFailedLeaveNothingBehind) {
  const TemporaryRuntimeDir directory;
  const std::string path = directory.path().string() + "/telemetry";
  const std::string now = telemetry_path();
  constexpr int kTries = 1000;
  ASSERT_EQ(failed_starts(path, 10), 10);
  const size_t before = allocated();
  ASSERT_EQ(failed_starts(path, kTries), kTries);
  EXPECT_LT(allocated(), before + kTries) << "less than a byte for each";
  EXPECT_EQ(telemetry_path(), now);
  EXPECT_TRUE(start_telemetry(path)) << "as soon as it can be";
  EXPECT_EQ(telemetry_path(), path + "/" + kTelemetryName);
}

}  // namespace
}  // namespace uroce
