// Whether there are enough descriptors for an endpoint.
#include "host/descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

namespace uroce {
namespace {

/// The number that can still be opened.
int left_of(rlim_t limit) {
  int left = 0;
  for (rlim_t fd = 0; fd < limit; fd++) left += fcntl(static_cast<int>(fd), F_GETFD) == -1 ? 1 : 0;
  return left;
}

TEST(Descriptors, LookingCostsNone) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlim_t most = 0;
  while (left_of(most) < kDescriptorsNeeded) most++;
  for (const int missing : {0, 1, kDescriptorsNeeded}) {
    const rlimit limit{most - static_cast<rlim_t>(missing), before.rlim_max};
    const int left = left_of(limit.rlim_cur);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    std::string error;
    const bool enough = enough_descriptors(error);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(enough, missing == 0) << error;
    EXPECT_EQ(error, enough ? ""
                            : "too few file descriptors: an endpoint needs 20, and " + std::to_string(left) +
                                  " are left of ulimit -n " + std::to_string(limit.rlim_cur) +
                                  "; raise it (Too many open files)");
    EXPECT_EQ(left_of(limit.rlim_cur), left);
  }
}

}  // namespace
}  // namespace uroce
