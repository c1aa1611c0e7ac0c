// Counters in sysfs: a file that is opened once and read again from its beginning shows what is true then.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

const std::string kPort = "/sys/class/infiniband/uroce0/ports/1/";

class CountersTest : public PairTest {
 protected:
  void SetUp() override {
    left_ = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
    right_ = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
    connect(left_.get(), right_->qp_num);
    connect(right_.get(), left_->qp_num);
  }
  void send_one() {
    ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(0, 64)), 0);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
    poll(recv_cq_.get(), 1);
    poll(cq_.get(), 1);
  }
  static long number(const char* text) { return std::strtol(text, nullptr, 10); }
  static long read_at(int fd, off_t offset) {
    char text[64] = "";
    return pread(fd, text, sizeof text - 1, offset) > 0 ? number(text) : -1;
  }
  /// As perftest reads: it reads, then seeks back to the beginning.
  static long read_and_rewind(int fd) {
    char text[64] = "";
    const ssize_t length = read(fd, text, sizeof text - 1);
    lseek(fd, 0, SEEK_SET);
    return length > 0 ? number(text) : -1;
  }

  Owned<ibv_qp> left_;
  Owned<ibv_qp> right_;
};

TEST_F(CountersTest, AHeldFileShowsNewValues) {
  const int fd = open((kPort + "hw_counters/rx_sends").c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  const long before = read_and_rewind(fd);
  ASSERT_GE(before, 0);
  for (long i = 1; i <= 12; i++) {  // until the text has become longer
    send_one();
    EXPECT_EQ(read_and_rewind(fd), before + i);
  }
  send_one();
  EXPECT_EQ(read_at(fd, 0), before + 13);
  const int copy = dup(fd);
  close(fd);
  send_one();
  EXPECT_EQ(read_at(copy, 0), before + 14);
  close(copy);
}

TEST_F(CountersTest, UnderEveryNameOfTheFile) {
  send_one();
  for (const char* name : {"hw_counters/rx_sends", "hw_counters//rx_sends", "./hw_counters/../hw_counters/rx_sends"}) {
    const int fd = open((kPort + name).c_str(), O_RDONLY);
    ASSERT_GE(fd, 0) << name;
    EXPECT_GT(read_at(fd, 0), 0) << name;
    close(fd);
  }
}

TEST_F(CountersTest, AHeldStreamShowsNewValues) {
  std::ifstream stream(kPort + "hw_counters/rx_sends");
  long before = -1;
  ASSERT_TRUE(stream >> before);
  send_one();
  stream.clear();
  stream.seekg(0);
  long after = -1;
  stream.sync();
  ASSERT_TRUE(stream >> after);
  EXPECT_EQ(after, before + 1);
}

// A text is made when it is read from its beginning, and the rest read later belongs to it.
TEST_F(CountersTest, TheRestOfAFileIsOfTheSameText) {
  const int fd = open((kPort + "hw_counters/rx_sends").c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  char text[64] = "";
  ASSERT_EQ(read(fd, text, 1), 1);
  ASSERT_GT(read(fd, text + 1, sizeof text - 2), 0);
  EXPECT_EQ(read(fd, text, 1), 0);  // the end, even after the counter has changed
  send_one();
  EXPECT_EQ(read(fd, text, 1), 0);
  close(fd);
}

TEST_F(CountersTest, FoundFromTheDirectoryToo) {
  char before_path[PATH_MAX];
  ASSERT_NE(getcwd(before_path, sizeof before_path), nullptr);
  ASSERT_EQ(chdir((kPort + "hw_counters").c_str()), 0);
  const int fd = open("rx_sends", O_RDONLY);
  ASSERT_GE(fd, 0);
  const long before = read_and_rewind(fd);
  send_one();
  EXPECT_EQ(read_and_rewind(fd), before + 1);
  close(fd);
  ASSERT_EQ(chdir(before_path), 0);
}

/// The files in the runtime directory, which are not updated when read there.
std::filesystem::path own_tree() {
  const std::string prefix = "sysfs-" + std::to_string(getpid()) + "-";
  for (const auto& entry : std::filesystem::directory_iterator(std::getenv("UROCE_RUNTIME_DIR")))
    if (entry.path().filename().string().starts_with(prefix)) return entry.path();
  return "";
}

/// As when the disk was full. Writing is tried again once a second at most, and the file that is there stays.
TEST_F(CountersTest, AFileThatCouldNotBeWrittenComesWithoutTheOthers) {
  using std::filesystem::last_write_time;
  send_one();
  const int fd = open((kPort + "hw_counters/rx_sends").c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  ASSERT_GT(read_at(fd, 0), 0);
  close(fd);
  const std::filesystem::path port = own_tree().string() + kPort;
  const std::filesystem::path lost = port / "hw_counters/out_of_sequence";
  const auto value = [&] {  // read in place: reading through the shim would update it
    char text[64] = "";
    const auto file =
        static_cast<int>(syscall(SYS_openat, AT_FDCWD, (port / "hw_counters/rx_sends").c_str(), O_RDONLY));
    EXPECT_GT(syscall(SYS_read, file, text, sizeof text - 1), 0);
    syscall(SYS_close, file);
    return number(text);
  };
  const long before = value();
  const auto written = last_write_time(port / "link_layer");
  ASSERT_GT(before, 0);
  ASSERT_TRUE(std::filesystem::remove(lost) && std::filesystem::create_directory(lost));
  for (int i = 0; i < 150; i++) {
    EXPECT_EQ(access((kPort + "hw_counters/out_of_sequence").c_str(), F_OK), 0);
    usleep(10'000);
  }
  EXPECT_EQ(value(), before);
  EXPECT_EQ(last_write_time(port / "link_layer"), written);
  ASSERT_TRUE(std::filesystem::remove(lost));
  struct stat info {};
  for (int i = 0; i < 300 && stat((kPort + "hw_counters/out_of_sequence").c_str(), &info) != 0; i++) usleep(10'000);
  EXPECT_TRUE(S_ISREG(info.st_mode));
  EXPECT_EQ(last_write_time(port / "link_layer"), written);
}

/// The child finds its device, but no directory for files of its own.
TEST_F(CountersTest, WhyThereAreNoFilesIsSaidOnce) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    setenv("UROCE_RUNTIME_DIR", "/dev/null", 1);
    for (int i = 0; i < 150; i++) {
      if (access((kPort + "state").c_str(), F_OK) == 0) _exit(1);
      usleep(10'000);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char text[256];
  for (ssize_t length; (length = read(ends[0], text, sizeof text)) > 0;) said.append(text, static_cast<size_t>(length));
  close(ends[0]);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  const size_t first = said.find("no files under /sys/class/infiniband: /dev/null ");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("no files under", first + 1), std::string::npos) << said;
}

}  // namespace
