// A program that forks after it has opened the device.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace {

template <typename F>
F verbs(const char* name, const char* version = "IBVERBS_1.1") {
  return reinterpret_cast<F>(dlvsym(RTLD_DEFAULT, name, version));
}

// As a daemon does that lists devices first and goes to the background then.
TEST(ForkTest, ChildOfAProgramThatOnlyListedIsAnEndpointOfItsOwn) {
  const auto get_list = verbs<decltype(&ibv_get_device_list)>("ibv_get_device_list");
  const auto guid = verbs<decltype(&ibv_get_device_guid)>("ibv_get_device_guid");
  const auto open = verbs<decltype(&ibv_open_device)>("ibv_open_device");
  ibv_device** list = get_list(nullptr);
  ASSERT_NE(list, nullptr);
  const __be64 parents = guid(list[0]);
  const pid_t child = fork();
  if (child == 0) {
    ibv_device** own = get_list(nullptr);
    const bool good = own != nullptr && guid(own[0]) != parents && open(own[0]) != nullptr;
    std::exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(guid(list[0]), parents);
}

TEST(ForkTest, ChildrenLeaveTheDeviceToTheirParent) {
  const auto get_list = verbs<decltype(&ibv_get_device_list)>("ibv_get_device_list");
  const auto open = verbs<decltype(&ibv_open_device)>("ibv_open_device");
  const auto alloc_pd = verbs<decltype(&ibv_alloc_pd)>("ibv_alloc_pd");
  const auto dealloc_pd = verbs<decltype(&ibv_dealloc_pd)>("ibv_dealloc_pd");
  ibv_device** list = get_list(nullptr);
  ASSERT_NE(list, nullptr);
  ibv_context* context = open(list[0]);
  ASSERT_NE(context, nullptr);

  const pid_t child = fork();
  if (child == 0) std::exit(open(list[0]) == nullptr ? 0 : 1);  // refused, and leaves through the exit handlers
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;

  EXPECT_EQ(std::system("true"), 0);  // a child that execs
  ibv_pd* pd = alloc_pd(context);
  ASSERT_NE(pd, nullptr);
  EXPECT_EQ(dealloc_pd(pd), 0);
}

}  // namespace
