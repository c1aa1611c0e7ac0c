// A program with few file descriptors left. DPDK would not say what it is missing, and the peer would never answer.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/resource.h>

#include <cstdlib>

namespace {

void open_with(rlim_t descriptors) {
  const auto get_list =
      reinterpret_cast<decltype(&ibv_get_device_list)>(dlvsym(RTLD_DEFAULT, "ibv_get_device_list", "IBVERBS_1.1"));
  const auto open_device =
      reinterpret_cast<decltype(&ibv_open_device)>(dlvsym(RTLD_DEFAULT, "ibv_open_device", "IBVERBS_1.1"));
  const rlimit limit{descriptors, descriptors};
  setrlimit(RLIMIT_NOFILE, &limit);
  std::exit(open_device(get_list(nullptr)[0]) == nullptr ? 3 : 4);
}

TEST(DescriptorsTest, TooFewAreSaid) {
  EXPECT_EXIT(open_with(20), testing::ExitedWithCode(3), "too few file descriptors: .* ulimit -n 20; raise it");
  EXPECT_EXIT(open_with(64), testing::ExitedWithCode(4), "");
}

}  // namespace
