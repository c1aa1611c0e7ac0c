// Whatever the program's stderr is: a line is written, or left out and counted, and the program notices nothing.
#include "host/error_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>

namespace uroce {
namespace {

constexpr unsigned kHungSeconds = 10;

/// In a process of its own, which ends with the result, or by SIGALRM when it hangs.
void expect_zero(const std::function<int()>& program) {
  EXPECT_EXIT(
      {
        signal(SIGPIPE, SIG_DFL);
        alarm(kHungSeconds);
        _exit(program());
      },
      testing::ExitedWithCode(0), "");
}

void fill(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  const char zeros[4096] = {};
  for (size_t piece = sizeof zeros; piece != 0; piece /= 2) {
    while (write(fd, zeros, piece) > 0) {
    }
  }
  fcntl(fd, F_SETFL, flags);
}

std::string drain(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  std::string text;
  char part[4096];
  for (ssize_t n; (n = read(fd, part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(n));
  return text;
}

/// Lines for a reader that takes none for a while. `ends`: that reader's, and the one that becomes stderr.
int lines_without_room(const int (&ends)[2]) {
  dup2(ends[1], STDERR_FILENO);
  ErrorOutput output;
  fill(STDERR_FILENO);
  const int flags = fcntl(STDERR_FILENO, F_GETFL);
  output.write("one\n");
  output.write("two\n");
  if (fcntl(STDERR_FILENO, F_GETFL) != flags) return 1;
  drain(ends[0]);
  output.write("three\n");
  output.write("four\n");
  const std::string text = drain(ends[0]);
  return text.find("uroce: 2 lines are left out: stderr had no room\nthree\nfour\n") != std::string::npos ? 0 : 2;
}

TEST(ErrorOutputTest, DoesNotWaitForTheReaderOfAPipe) {
  expect_zero([] {
    int ends[2];
    return pipe(ends) == 0 ? lines_without_room(ends) : 10;
  });
}

TEST(ErrorOutputTest, NorForThatOfASocket) {
  expect_zero([] {
    int ends[2];
    return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 ? lines_without_room(ends) : 10;
  });
}

TEST(ErrorOutputTest, NorForATerminal) {
  expect_zero([] {
    int ends[2];
    ends[0] = posix_openpt(O_RDWR | O_NOCTTY);
    if (ends[0] < 0 || grantpt(ends[0]) != 0 || unlockpt(ends[0]) != 0) return 10;
    ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY);
    if (ends[1] < 0) return 11;
    dup2(ends[1], STDERR_FILENO);
    ErrorOutput output;
    fill(STDERR_FILENO);
    for (int i = 0; i < 1000; i++) output.write("a line\n");
    drain(ends[0]);
    output.write("the end\n");
    return drain(ends[0]).find("lines are left out") != std::string::npos ? 0 : 1;
  });
}

TEST(ErrorOutputTest, NoReaderIsNoSignal) {
  expect_zero([] {
    int ends[2];
    if (pipe(ends) != 0) return 10;
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    ErrorOutput output;
    close(ends[0]);
    output.write("one\n");
    sigset_t pending;
    sigpending(&pending);
    if (sigismember(&pending, SIGPIPE) != 0) return 1;
    // The program's own stays.
    sigset_t pipe_signal;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
    raise(SIGPIPE);
    output.write("two\n");
    sigpending(&pending);
    return sigismember(&pending, SIGPIPE) == 1 ? 0 : 2;
  });
}

/// A file without a name at descriptor 2, as a program opens one that does not know that there is no stderr.
off_t bytes_in_file_opened_at_two(const std::function<void()>& write_lines) {
  char name[] = "/tmp/uroce-error-output-XXXXXX";
  const int fd = mkstemp(name);
  unlink(name);
  write_lines();
  struct stat status {};
  return fd == STDERR_FILENO && fstat(fd, &status) == 0 ? status.st_size : -1;
}

TEST(ErrorOutputTest, WhatIsOpenedWhereThereWasNoStderrStaysEmpty) {
  expect_zero([] {
    close(STDERR_FILENO);
    ErrorOutput output;
    return bytes_in_file_opened_at_two([&] { output.write("a line\n"); }) == 0 ? 0 : 1;
  });
}

TEST(ErrorOutputTest, ASocketOfTheProgramStaysEmpty) {
  expect_zero([] {
    ErrorOutput output;
    close(STDERR_FILENO);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || ends[0] != STDERR_FILENO) return 10;
    output.write("a line\n");
    return drain(ends[1]).empty() ? 0 : 1;
  });
}

TEST(ErrorOutputTest, AFileThatExecClosesStaysEmpty) {
  expect_zero([] {
    ErrorOutput output;
    close(STDERR_FILENO);
    return bytes_in_file_opened_at_two([&] {
             fcntl(STDERR_FILENO, F_SETFD, FD_CLOEXEC);
             output.write("a line\n");
           }) == 0
               ? 0
               : 1;
  });
}

TEST(ErrorOutputTest, AnotherPlaceForErrorsIsFollowed) {
  expect_zero([] {
    ErrorOutput output;
    int ends[2];
    if (pipe(ends) != 0) return 10;
    dup2(ends[1], STDERR_FILENO);
    output.write("a line\n");
    return drain(ends[0]) == "a line\n" ? 0 : 1;
  });
}

TEST(ErrorOutputTest, NoThreadIsCancelledInIt) {
  static bool done = false;
  pthread_t thread{};
  const auto body = [](void*) -> void* {
    pthread_cancel(pthread_self());
    ErrorOutput output;
    output.write("a line\n");
    done = true;
    return nullptr;
  };
  testing::internal::CaptureStderr();
  ASSERT_EQ(pthread_create(&thread, nullptr, body, nullptr), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  EXPECT_TRUE(done);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "a line\n");
}

TEST(ErrorOutputTest, ALongLineIsCut) {
  testing::internal::CaptureStderr();
  ErrorOutput output;
  output.write(std::string(5000, 'x') + "\n");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.size(), ErrorOutput::kLongest);
  EXPECT_EQ(text.back(), '\n');
}

}  // namespace
}  // namespace uroce
