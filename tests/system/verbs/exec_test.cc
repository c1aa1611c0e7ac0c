// A program with the device open starts another one, by whatever way: no descriptor of the device reaches it.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string>

namespace {

/// Argument of a child, which then counts its descriptors. With further arguments, it opens the device and executes
/// itself again, as a program does when it is upgraded.
constexpr char kLook[] = "--look";

std::set<int> descriptors() {
  std::set<int> found;
  DIR* const directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    const int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && fd != dirfd(directory)) found.insert(fd);
  }
  closedir(directory);
  return found;
}

std::string name_of(int fd) {
  char name[256];
  const ssize_t bytes = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name);
  return std::to_string(fd) + " " + std::string(name, bytes > 0 ? static_cast<size_t>(bytes) : 0);
}

/// Opens all that the shim uses descriptors for.
void open_everything() {
  ibv_device** const list = ibv_get_device_list(nullptr);
  ASSERT_NE(list, nullptr);
  ibv_context* const context = ibv_open_device(list[0]);
  ASSERT_NE(context, nullptr);
  ASSERT_NE(ibv_create_comp_channel(context), nullptr);
  ASSERT_NE(rdma_create_event_channel(), nullptr);
  ibv_xrcd_init_attr xrcd{IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1, O_CREAT};
  ASSERT_NE(ibv_open_xrcd(context, &xrcd), nullptr);
  std::string state;
  std::ifstream("/sys/class/infiniband/uroce0/ports/1/state") >> state;
  ASSERT_NE(state, "");
}

/// The descriptors in the child's output that are not in `before`; "" when there are none.
std::string more_than(const std::set<int>& before, const std::string& child_says) {
  std::string more;
  size_t lines = 0;
  for (size_t start = 0, end; (end = child_says.find('\n', start)) != std::string::npos; start = end + 1) {
    lines++;
    if (before.count(std::atoi(child_says.c_str() + start)) == 0) more += child_says.substr(start, end - start) + "; ";
  }
  return lines != 0 ? more : "the child did not look";
}

std::string run_and_look(const char* rounds) {
  const std::string command = std::string("/proc/") + std::to_string(getpid()) + "/exe " + kLook + rounds;
  FILE* const child = popen(command.c_str(), "r");
  std::string said;
  char room[256];
  while (fgets(room, sizeof room, child) != nullptr) said += room;
  EXPECT_EQ(pclose(child), 0);
  return said;
}

/// The number of /sys trees of programs with the device.
int trees() {
  int count = 0;
  DIR* const directory = opendir(std::getenv("UROCE_RUNTIME_DIR"));
  while (const dirent* entry = readdir(directory)) count += std::strncmp(entry->d_name, "sysfs-", 6) == 0 ? 1 : 0;
  closedir(directory);
  return count;
}

TEST(ExecTest, NothingOfTheDeviceReachesAnotherProgram) {
  const std::set<int> before = descriptors();
  EXPECT_EQ(more_than(before, run_and_look(" again again")), "");
  EXPECT_LE(trees(), 1);  // each removed that of the previous one
  open_everything();
  EXPECT_GT(descriptors().size(), before.size());
  EXPECT_EQ(more_than(before, run_and_look("")), "");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], kLook) == 0) {
    if (argc > 2) {
      open_everything();
      argv[argc - 1] = nullptr;
      execv("/proc/self/exe", argv);
      return 2;
    }
    for (const int fd : descriptors()) std::printf("%s\n", name_of(fd).c_str());
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
