// The directory in which the users of a group meet, made where it belongs, in a view of the machine of the test's own.
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "host/segment_plan.h"

namespace uroce {
namespace {

/// A descriptor that it leaves open would be found after the test (tests/support/left_over.cc).
TEST(SegmentDirectory, BelongsToTheGroup) {
  const group* const someone = getgrgid(getegid());
  const std::string name = someone == nullptr ? "" : someone->gr_name;
  std::string skip;
  std::thread([&] {
    if (geteuid() != 0 || name.empty() || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", "/run", "tmpfs", 0, "mode=755") != 0) {
      skip = "skipped: only root can make it";
      return;
    }
    for (const char* time : {"made", "there already"}) {
      std::string error;
      EXPECT_EQ(make_segment_directory("lab", name, error), "/run/uroced/shmlan.lab") << error;
      struct stat st {};
      ASSERT_EQ(stat("/run/uroced/shmlan.lab", &st), 0);
      EXPECT_EQ(st.st_mode, static_cast<mode_t>(S_IFDIR | 03770)) << time;
      EXPECT_EQ(st.st_gid, getegid()) << time;
    }
  }).join();
  if (!skip.empty()) GTEST_SKIP() << skip;
}

TEST(SegmentDirectory, AGroupThatIsNotThereIsNamed) {
  std::string error;
  EXPECT_EQ(make_segment_directory("lab", "no-such-group", error), "");
  EXPECT_EQ(error, "there is no group 'no-such-group': groupadd --system no-such-group");
}

}  // namespace
}  // namespace uroce
