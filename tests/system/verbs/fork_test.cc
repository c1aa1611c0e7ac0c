// Programs that fork: before the device is opened, and after. fork_segment_test.cc has those whose children can open
// it.
#include <gtest/gtest.h>

#include <algorithm>

#include "inherited.h"

namespace {

/// A child that opens the device, reports its GUID, and keeps the device until `end`.
class Opener {
 public:
  Opener() {
    int down[2];
    int up[2];
    EXPECT_EQ(pipe(down) | pipe(up), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(down[1]);
      ibv_device** list = get_list(nullptr);
      __be64 guid = 0;
      if (list != nullptr && open_device(list[0]) != nullptr) guid = get_guid(list[0]);
      char end;
      if (write(up[1], &guid, sizeof guid) != sizeof guid || read(down[0], &end, 1) != 0) _exit(1);
      std::exit(0);
    }
    close(down[0]);
    close(up[1]);
    keep_ = down[1];
    EXPECT_EQ(read(up[0], &guid_, sizeof guid_), ssize_t{sizeof guid_});
    close(up[0]);
  }
  ~Opener() { end(); }
  void end() {
    if (keep_ < 0) return;
    close(keep_);
    keep_ = -1;
    EXPECT_EQ(exit_status(pid_), 0);
  }
  __be64 guid() const { return guid_; }  // 0: it could not open the device

 private:
  pid_t pid_ = 0;
  int keep_ = -1;
  __be64 guid_ = 0;
};

TEST(ForkTest, ADaemonOutlivesTheProcessThatListedTheDevice) {
  constexpr const char* kGuid = "/sys/class/infiniband/uroce0/node_guid";
  constexpr const char* kState = "/sys/class/infiniband/uroce0/ports/1/state";
  int answer[2];
  ASSERT_EQ(pipe(answer), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const bool listed = get_list(nullptr) != nullptr && access(kGuid, R_OK) == 0;
    const pid_t me = getpid();
    if (fork() != 0) std::exit(listed ? 0 : 1);
    while (getppid() == me) usleep(1000);
    ibv_device** list = get_list(nullptr);
    const bool there =
        list != nullptr && access(kGuid, R_OK) == 0 && access(kState, R_OK) == 0 && open_device(list[0]) != nullptr;
    std::exit(write(answer[1], there ? "yes" : "no", 3) == 3 ? 0 : 1);
  }
  close(answer[1]);
  EXPECT_EQ(exit_status(parent), 0);
  char text[4] = "";
  EXPECT_EQ(read(answer[0], text, 3), 3);
  EXPECT_STREQ(text, "yes");
  close(answer[0]);
}

// As a daemon that lists devices before it goes to the background, or a launcher of programs.
TEST(ForkTest, AProgramThatOnlyListsTakesNoPlaceFromTheOthers) {
  ibv_device** list = get_list(nullptr);
  ASSERT_NE(list, nullptr);
  Opener one;
  Opener two;
  EXPECT_NE(one.guid(), 0u);
  EXPECT_NE(two.guid(), 0u) << "the two ends of the wire are for the two that open the device";
  EXPECT_NE(one.guid(), two.guid());
  ibv_device** again = get_list(nullptr);
  ASSERT_NE(again, nullptr) << "the wire is full, its device can be listed";

  errno = 0;
  EXPECT_EQ(open_device(list[0]), nullptr);
  EXPECT_EQ(errno, ENODEV);
  two.end();
  ibv_context* context = open_device(list[0]);
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(get_guid(list[0]), two.guid()) << "who has opened it has the end, and its names";
  EXPECT_EQ(close_device(context), 0);
}

TEST(ForkTest, AChildIsRefusedWhatItInheritedAndToldOnce) {
  Inherited inherited;
  ASSERT_TRUE(inherited.whole());
  int status = -1;
  const std::string text = said_by_child([&] { return use_all_in_child(inherited); }, status);
  EXPECT_EQ(status, 0) << "use " << status << " was not refused";
  EXPECT_NE(text.find("belongs to the parent"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;

  // The child sees the device, but cannot open it.
  const __be64 guid = get_guid(inherited.list[0]);
  const std::string why = said_by_child(
      [&] {
        ibv_device** list = get_list(nullptr);
        if (list == nullptr || get_guid(list[0]) != guid) return 1;
        return open_device(list[0]) == nullptr && errno == ENODEV ? 0 : 2;
      },
      status);
  EXPECT_EQ(status, 0);
  EXPECT_NE(why.find("use --port shmlan"), std::string::npos) << why;

  // The parent is not affected.
  EXPECT_EQ(std::system("true"), 0);  // a child that execs
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(inherited.cq, 1, &wc), 0);
  ibv_pd* pd = alloc_pd(inherited.context);
  ASSERT_NE(pd, nullptr);
  EXPECT_EQ(dealloc_pd(pd), 0);
}

}  // namespace
