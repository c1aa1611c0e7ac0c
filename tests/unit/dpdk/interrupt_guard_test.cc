// A connect that must not wait, and that leaves the socket's flags as they were.
#include "dpdk/interrupt_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>

namespace uroce {
namespace {

int g_flags = 0;  // of the socket, while it was connected

int refused_connect(int fd, const sockaddr*, socklen_t) {
  g_flags = fcntl(fd, F_GETFL);
  errno = EAGAIN;
  return -1;
}
int good_connect(int fd, const sockaddr*, socklen_t) {
  g_flags = fcntl(fd, F_GETFL);
  return 0;
}

class GuardedConnect : public testing::Test {
 protected:
  GuardedConnect() { local_.sun_family = AF_UNIX; }
  ~GuardedConnect() override { close(fd_); }
  int connect(Connect how, sa_family_t family = AF_UNIX) {
    g_flags = -1;
    sockaddr_un address = local_;
    address.sun_family = family;
    return guarded_connect(how, fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }

  sockaddr_un local_{};
  const int fd_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const int flags_ = fcntl(fd_, F_GETFL);
};

TEST_F(GuardedConnect, InHasteItDoesNotWaitAndTheSocketWaitsAsBefore) {
  const ImpatientConnects here;
  EXPECT_EQ(connect(good_connect), 0);
  EXPECT_EQ(g_flags, flags_ | O_NONBLOCK);
  EXPECT_EQ(fcntl(fd_, F_GETFL), flags_);
  EXPECT_EQ(connect(refused_connect), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(g_flags, flags_ | O_NONBLOCK);
  EXPECT_EQ(fcntl(fd_, F_GETFL), flags_);
  ASSERT_EQ(fcntl(fd_, F_SETFL, flags_ | O_NONBLOCK), 0);
  EXPECT_EQ(connect(good_connect), 0);
  EXPECT_EQ(fcntl(fd_, F_GETFL), flags_ | O_NONBLOCK) << "one that never waited";
}

TEST_F(GuardedConnect, OthersWait) {
  EXPECT_EQ(connect(good_connect), 0);
  EXPECT_EQ(g_flags, flags_) << "who has time";
  {
    const ImpatientConnects here;
    EXPECT_EQ(connect(good_connect, AF_INET), 0);
    EXPECT_EQ(g_flags, flags_) << "another machine";
  }
  EXPECT_EQ(connect(good_connect), 0);
  EXPECT_EQ(g_flags, flags_) << "who has time again";
}

}  // namespace
}  // namespace uroce
