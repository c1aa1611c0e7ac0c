// How a program and `uroce capture` find each other, and that neither leaves anything when that fails. What a test
// leaves open is found after it (tests/support/left_over.cc).
#include "host/capture_meeting.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "host/capture_ring.h"

namespace uroce {
namespace {

bool renaming_fails = false;

}  // namespace
}  // namespace uroce

extern "C" int rename(const char* from, const char* to) {
  if (!uroce::renaming_fails) return renameat(AT_FDCWD, from, AT_FDCWD, to);
  errno = ENOSPC;
  return -1;
}

namespace uroce {
namespace {

class CaptureMeetingTest : public testing::Test {
 protected:
  CaptureMeetingTest() {
    char name[] = "/tmp/uroce-test-XXXXXX";
    directory_ = mkdtemp(name);
    setenv("UROCE_RUNTIME_DIR", directory_.c_str(), 1);
  }
  ~CaptureMeetingTest() override {
    unsetenv("UROCE_RUNTIME_DIR");
    rmdir(directory_.c_str());
  }
  std::string directory_;
  std::string error_;
};

TEST_F(CaptureMeetingTest, AProgramJoinsAndEachSideSeesTheOtherGo) {
  CaptureRing ring;
  ASSERT_TRUE(ring.make(error_));
  auto listener = std::make_unique<CaptureListener>();
  ASSERT_TRUE(listener->open(true, error_)) << error_;
  EXPECT_EQ(listener->accept(), -1) << "nobody is there";
  EXPECT_EQ(open_captures(), std::vector<std::string>{listener->name()});
  CaptureConnection program;
  ASSERT_TRUE(program.join(listener->name(), make_greeting("memif wire, end 0"), ring.fd(), error_)) << error_;
  const int fd = listener->accept();
  ASSERT_GE(fd, 0);
  CaptureGuest guest;
  ASSERT_EQ(read_greeting(fd, guest), Greeted::kYes);
  EXPECT_EQ(guest.greeting.pid, getpid());
  EXPECT_STREQ(guest.greeting.port, "memif wire, end 0");
  CaptureRingReader reader;
  EXPECT_TRUE(reader.map(guest.ring_fd));
  close(guest.ring_fd);
  EXPECT_FALSE(program.lost());
  EXPECT_FALSE(is_closed(fd));
  close(fd);
  EXPECT_TRUE(program.lost());
  listener.reset();
  EXPECT_TRUE(open_captures().empty());
}

TEST_F(CaptureMeetingTest, OneThatIsKilledLeavesNothingForLong) {
  CaptureRing ring;
  ASSERT_TRUE(ring.make(error_));
  const std::string path = directory_ + "/capture.0123456789abcdef.all";
  {
    // A socket without a listener, as a killed capture leaves it.
    CaptureListener listener;
    ASSERT_TRUE(listener.open(true, error_));
    ASSERT_EQ(rename((directory_ + "/" + listener.name()).c_str(), path.c_str()), 0);
  }
  ASSERT_EQ(access(path.c_str(), F_OK), 0);
  CaptureConnection program;
  EXPECT_FALSE(program.join("capture.0123456789abcdef.all", make_greeting(""), ring.fd(), error_));
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST_F(CaptureMeetingTest, NamesLeadNowhereElse) {
  CaptureRing ring;
  ASSERT_TRUE(ring.make(error_));
  for (const char* name : {"", "x", "capture./../../x", "/tmp/capture.x", "../capture.x"}) {
    CaptureConnection program;
    EXPECT_FALSE(program.join(name, make_greeting(""), ring.fd(), error_)) << name;
    EXPECT_EQ(error_, "that is not the name of a capture") << name;
  }
}

TEST_F(CaptureMeetingTest, OnesForChosenProgramsAreNotOffered) {
  CaptureListener listener;
  ASSERT_TRUE(listener.open(false, error_));
  EXPECT_TRUE(open_captures().empty());
  EXPECT_TRUE(listener.name().ends_with(".some"));
}

/// As when the directory is full, and there is no room for the second name.
TEST_F(CaptureMeetingTest, OneThatCannotBeOpenedLeavesNoName) {
  CaptureListener listener;
  renaming_fails = true;
  const bool opened = listener.open(true, error_);
  renaming_fails = false;
  EXPECT_FALSE(opened);
  EXPECT_EQ(error_, "cannot make a socket in " + directory_ + ": No space left on device");
  EXPECT_EQ(names_in(directory_), std::vector<std::string>{});
}

/// A capture that closes this connection only.
TEST_F(CaptureMeetingTest, OneThatLivesIsNotCleanedUp) {
  CaptureRing ring;
  ASSERT_TRUE(ring.make(error_));
  CaptureListener listener;
  ASSERT_TRUE(listener.open(true, error_)) << error_;
  CaptureConnection program;
  ASSERT_TRUE(program.join(listener.name(), make_greeting(""), ring.fd(), error_)) << error_;
  close(listener.accept());
  ASSERT_TRUE(program.lost());
  program.clean_up();
  EXPECT_EQ(open_captures(), std::vector<std::string>{listener.name()});
  const int asked = listener.accept();
  ASSERT_GE(asked, 0) << "who cleans up asks whether anybody is there";
  EXPECT_TRUE(is_closed(asked)) << "and goes";
  close(asked);
}

/// Greetings, as any program may send them to the socket of a capture.
class GreetingTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_.data()), 0); }
  void TearDown() override {
    for (const int fd : ends_) close(fd);
  }
  /// Sends the first `bytes` of the greeting with `fds` copies of a descriptor.
  void send(size_t bytes, size_t fds) {
    iovec data{&greeting_, bytes};
    alignas(cmsghdr) uint8_t control[CMSG_SPACE(kMostFds * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    if (fds != 0) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(fds * sizeof(int));
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(fds * sizeof(int));
      for (size_t i = 0; i < fds; i++) std::memcpy(CMSG_DATA(header) + i * sizeof(int), &ends_[0], sizeof(int));
    }
    ASSERT_EQ(sendmsg(ends_[0], &message, 0), static_cast<ssize_t>(bytes));
  }
  Greeted read() { return read_greeting(ends_[1], guest_); }

  static constexpr size_t kMostFds = 8;
  std::array<int, 2> ends_{-1, -1};
  CaptureGreeting greeting_ = make_greeting("memif");
  CaptureGuest guest_;
};

TEST_F(GreetingTest, OneDescriptorBecomesTheReaders) {
  EXPECT_EQ(read(), Greeted::kNotYet);
  send(sizeof greeting_, 1);
  EXPECT_EQ(read(), Greeted::kYes);
  EXPECT_EQ(fcntl(guest_.ring_fd, F_GETFD), FD_CLOEXEC);
  close(guest_.ring_fd);
}

TEST_F(GreetingTest, OfAnotherNumberOfDescriptorsNoneStaysOpen) {
  for (const size_t fds : {0, 2, 3, 8}) {
    send(sizeof greeting_, fds);
    EXPECT_EQ(read(), Greeted::kNo) << fds;
    EXPECT_EQ(guest_.ring_fd, -1) << fds;
  }
}

TEST_F(GreetingTest, TheDescriptorOfOneThatIsNotUnderstoodDoesNotStayOpen) {
  send(sizeof greeting_ - 1, 1);
  EXPECT_EQ(read(), Greeted::kNo) << "cut short";
  EXPECT_EQ(guest_.ring_fd, -1);
  greeting_.version++;
  send(sizeof greeting_, 1);
  EXPECT_EQ(read(), Greeted::kNo) << "of another version";
  EXPECT_EQ(guest_.ring_fd, -1);
  greeting_ = {};
  greeting_.magic++;
  send(sizeof greeting_, 1);
  EXPECT_EQ(read(), Greeted::kNo) << "of another program";
  EXPECT_EQ(guest_.ring_fd, -1);
}

}  // namespace
}  // namespace uroce
