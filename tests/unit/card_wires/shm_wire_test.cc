#include "pmd/card/wires/shm_wire.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstring>
#include <random>
#include <thread>

#include "wire_support.h"

namespace mqnic::card {
namespace {

constexpr uint64_t kLookNs = 3'000'000;  // later than the next look at the other end

class ShmWireTest : public testing::Test {
 protected:
  /// Lets both ends notice each other.
  void settle(Wire& a, Wire& b) {
    for (int i = 0; i < 3; i++) {
      a.flush(now_ += kLookNs);
      b.flush(now_ += kLookNs);
    }
  }
  /// Sends one way and checks that it arrives.
  void expect_passes(Wire& from, Wire& to, uint32_t number) {
    EXPECT_TRUE(put(from, numbered_frame(number, 500)));
    from.flush(++now_);
    EXPECT_EQ(take(to), numbered_frame(number, 500));
    to.flush(++now_);
  }
  /// A process that holds an end. It writes a byte to the pipe once it has sent `frames` frames.
  pid_t holder(int frames) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      std::string error;
      auto wire = make_wire("shm:x", {}, error);
      for (int i = 0; wire != nullptr && !wire->connected() && i < 3000; i++) {
        usleep(1000);
        wire->flush(static_cast<uint64_t>(i) * kLookNs);
        if (frames == 0) break;
      }
      for (int i = 0; i < frames; i++) put(*wire, numbered_frame(static_cast<uint32_t>(i), 100));
      wire->flush(1);
      put(*wire, numbered_frame(99, 100));  // and one that is not flushed
      if (write(ready[1], "r", 1) == 1) pause();
      _exit(1);
    }
    ready_fd_ = ready[0];
    close(ready[1]);
    return pid;
  }
  void wait_ready() {
    char byte = 0;
    EXPECT_EQ(read(ready_fd_, &byte, 1), 1);
    close(ready_fd_);
  }
  static void kill_hard(pid_t pid) {
    kill(pid, SIGKILL);
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
  }

  RuntimeDirectory directory_;
  uint64_t now_ = 1;
  int ready_fd_ = -1;
};

TEST_F(ShmWireTest, TwoEndsMeetAndExchange) {
  const auto a = must_make("shm:x");
  a->flush(now_);
  EXPECT_FALSE(a->connected());
  const auto b = must_make("shm:x");
  EXPECT_EQ(a->end(), 0u);
  EXPECT_EQ(b->end(), 1u);
  settle(*a, *b);
  EXPECT_TRUE(a->connected());
  EXPECT_TRUE(b->connected());
  expect_passes(*a, *b, 1);
  expect_passes(*b, *a, 2);
}

TEST_F(ShmWireTest, FramesAreSeenAfterTheFlushOnly) {
  const auto a = must_make("shm:x");
  const auto b = must_make("shm:x");
  settle(*a, *b);
  EXPECT_TRUE(put(*a, numbered_frame(1, 60)));
  EXPECT_TRUE(take(*b).empty());
  a->flush(++now_);
  EXPECT_FALSE(take(*b).empty());
}

TEST_F(ShmWireTest, WithoutAPeerFramesAreLost) {
  const auto a = must_make("shm:x");
  for (uint32_t i = 0; i < 1000; i++) ASSERT_TRUE(put(*a, numbered_frame(i, 9214)));
  a->flush(++now_);
  const auto b = must_make("shm:x");
  settle(*a, *b);
  EXPECT_TRUE(take(*b).empty());
  expect_passes(*a, *b, 5);
}

TEST_F(ShmWireTest, FullWireTakesNoMoreAndLosesNothing) {
  const auto a = must_make("shm:x");
  const auto b = must_make("shm:x");
  settle(*a, *b);
  uint32_t sent = 0;
  while (put(*a, numbered_frame(sent, 4000))) ASSERT_LT(++sent, 10'000u);
  EXPECT_GT(sent, 200u);
  a->flush(++now_);
  for (uint32_t i = 0; i < sent; i++) ASSERT_EQ(take(*b), numbered_frame(i, 4000));
  EXPECT_TRUE(take(*b).empty());
  EXPECT_FALSE(put(*a, numbered_frame(sent, 4000)));
  b->flush(++now_);
  EXPECT_TRUE(put(*a, numbered_frame(sent, 4000)));
}

TEST_F(ShmWireTest, ManyFramesOfAllSizesBetweenThreads) {
  const auto a = must_make("shm:x");
  const auto b = must_make("shm:x");
  settle(*a, *b);
  constexpr uint32_t kFrames = 30'000;
  const auto size_of = [](uint32_t number) { return 14 + size_t{number} * 2654435761u % 9201; };
  std::thread sender([&] {
    uint64_t now = now_;
    for (uint32_t sent = 0; sent < kFrames;) {
      for (int burst = 0; burst < 32 && sent < kFrames && put(*a, numbered_frame(sent, size_of(sent))); burst++) sent++;
      a->flush(++now);
      if (sent % 1024 == 0) std::this_thread::yield();
    }
  });
  uint32_t received = 0;
  uint32_t wrong = 0;
  for (uint64_t now = now_; received < kFrames; b->flush(++now)) {
    const Frame frame = take(*b);
    if (frame.empty()) {
      std::this_thread::yield();
      continue;
    }
    if (frame != numbered_frame(received, size_of(received))) wrong++;
    received++;
  }
  sender.join();
  EXPECT_EQ(wrong, 0u);
}

TEST_F(ShmWireTest, LeavesNoFileBehind) {
  {
    auto a = must_make("shm:x");
    auto b = must_make("shm:x");
    EXPECT_FALSE(directory_.empty());
    a.reset();
    EXPECT_FALSE(directory_.empty());
  }
  EXPECT_TRUE(directory_.empty());
}

TEST_F(ShmWireTest, PeerThatLeavesTakesTheLinkDownAtOnceAndItsFramesArrive) {
  const auto a = must_make("shm:x");
  auto b = must_make("shm:x");
  settle(*a, *b);
  EXPECT_TRUE(put(*b, numbered_frame(7, 100)));
  b->flush(++now_);
  b.reset();
  a->flush(++now_);
  EXPECT_FALSE(a->connected());
  EXPECT_EQ(take(*a), numbered_frame(7, 100));
  EXPECT_TRUE(put(*a, numbered_frame(8, 100)));  // lost

  b = must_make("shm:x");
  EXPECT_EQ(b->end(), 1u) << "the end that is free";
  settle(*a, *b);
  EXPECT_TRUE(a->connected());
  EXPECT_TRUE(take(*b).empty()) << "nothing from before";
  expect_passes(*a, *b, 9);
  expect_passes(*b, *a, 10);
}

TEST_F(ShmWireTest, KilledPeerTakesTheLinkDownAndNothingOfItComesBack) {
  const pid_t pid = holder(20);
  auto a = must_make("shm:x");
  for (int i = 0; i < 3000 && !a->connected(); i++) {
    usleep(1000);
    a->flush(now_ += kLookNs);
  }
  ASSERT_TRUE(a->connected());
  wait_ready();
  EXPECT_EQ(number_of(take(*a)), 0u);
  kill_hard(pid);
  a->flush(now_ += kLookNs);
  EXPECT_FALSE(a->connected());
  EXPECT_EQ(number_of(take(*a)), 1u) << "what it sent before is still on the cable";

  const auto b = must_make("shm:x");
  settle(*a, *b);
  EXPECT_TRUE(a->connected());
  EXPECT_TRUE(take(*a).empty()) << "another peer: nothing of the one that was killed";
  expect_passes(*b, *a, 1000);
  expect_passes(*a, *b, 1001);
}

TEST_F(ShmWireTest, BothKilledLeaveAFileThatTheNextUserTakesOver) {
  const pid_t first = holder(0);
  wait_ready();
  kill_hard(first);
  EXPECT_FALSE(directory_.empty());
  {
    const auto a = must_make("shm:x");
    const auto b = must_make("shm:x");
    EXPECT_EQ(a->end(), 0u);
    settle(*a, *b);
    EXPECT_TRUE(take(*a).empty());
    expect_passes(*a, *b, 1);
  }
  EXPECT_TRUE(directory_.empty());
}

TEST_F(ShmWireTest, ThirdUserIsToldWhoHasTheWire) {
  const pid_t pid = holder(0);
  wait_ready();
  const auto b = must_make("shm:x");
  const std::string error = refusal("shm:x");
  EXPECT_NE(error.find(std::to_string(pid)), std::string::npos) << error;
  EXPECT_NE(error.find(std::to_string(getpid())), std::string::npos) << error;
  EXPECT_NE(error.find("choose another name"), std::string::npos) << error;
  kill_hard(pid);
  must_make("shm:x");
}

TEST_F(ShmWireTest, PeerThatIsReplacedBetweenTwoLooks) {
  auto a = must_make("shm:x");
  auto b = must_make("shm:x");
  settle(*a, *b);
  for (uint32_t round = 0; round < 200; round++) {
    EXPECT_TRUE(put(*b, numbered_frame(round, 64)));
    b->flush(++now_);
    EXPECT_TRUE(put(*a, numbered_frame(round, 64)));
    a->flush(++now_);
    b.reset();
    b = must_make("shm:x");  // before a looks again
    ASSERT_TRUE(take(*b).empty()) << "meant for the one before";
    EXPECT_TRUE(put(*b, numbered_frame(5000, 64))) << "lost: a does not know yet";
    b->flush(++now_);
    a->flush(++now_);
    ASSERT_TRUE(take(*a).empty());
    b->flush(++now_);
    expect_passes(*b, *a, round);
    expect_passes(*a, *b, round + 1);
    std::swap(a, b);
  }
}

TEST_F(ShmWireTest, FilesOfOthersAreRefused) {
  const std::string path = directory_.path() + "/x.wire";
  ASSERT_EQ(symlink("/tmp/elsewhere", path.c_str()), 0);
  EXPECT_NE(refusal("shm:x").find("cannot open"), std::string::npos);
  unlink(path.c_str());
  close(open(path.c_str(), O_CREAT | O_RDWR, 0600));
  chmod(path.c_str(), 0666);
  EXPECT_NE(refusal("shm:x").find("remove it"), std::string::npos);
  unlink(path.c_str());
  ASSERT_EQ(chmod(directory_.path().c_str(), 0777), 0);
  EXPECT_NE(refusal("shm:x").find("UROCE_RUNTIME_DIR"), std::string::npos);
}

TEST_F(ShmWireTest, AnotherLayoutIsRefusedWhileInUseAndReplacedAfterwards) {
  auto a = must_make("shm:x");
  const std::string path = directory_.path() + "/x.wire";
  const int fd = open(path.c_str(), O_RDWR);
  const uint32_t newer = 77;
  ASSERT_EQ(pwrite(fd, &newer, sizeof newer, 4), 4);
  EXPECT_NE(refusal("shm:x").find("another version"), std::string::npos);
  a.reset();
  close(fd);
  must_make("shm:x");
}

/// All of the shared memory, written to as the other end could.
class Tampering {
 public:
  explicit Tampering(const std::string& directory) : fd_(open((directory + "/x.wire").c_str(), O_RDWR)) {
    struct stat st {};
    fstat(fd_, &st);
    bytes_ = static_cast<size_t>(st.st_size);
    memory_ = static_cast<uint8_t*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
  }
  ~Tampering() {
    munmap(memory_, bytes_);
    close(fd_);
  }
  Tampering(const Tampering&) = delete;
  Tampering& operator=(const Tampering&) = delete;
  volatile uint8_t* memory() { return memory_; }
  size_t bytes() const { return bytes_; }

 private:
  int fd_;
  size_t bytes_ = 0;
  uint8_t* memory_ = nullptr;
};

void read_and_write(Wire& wire, std::mt19937& random) {
  for (int i = 0; i < 8; i++) {
    const std::span<const uint8_t> frame = wire.front();
    ASSERT_LE(frame.size(), kFrameBytesMax);
    volatile uint8_t sum = 0;
    for (const uint8_t byte : frame) sum = static_cast<uint8_t>(sum + byte);
    if (!frame.empty()) wire.pop();
    const size_t bytes = 14 + random() % 9200;
    const std::span<uint8_t> room = wire.reserve(bytes);
    if (room.empty()) continue;
    ASSERT_GE(room.size(), bytes);
    memset(room.data(), 0x5a, bytes);
    wire.commit(bytes);
  }
}

TEST_F(ShmWireTest, OtherEndMayWriteAnythingAnywhere) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; round++) {
    const auto a = must_make("shm:x");
    const auto b = must_make("shm:x");
    settle(*a, *b);
    Tampering tampering(directory_.path());
    for (int step = 0; step < 500; step++) {
      for (int i = 0; i < 4; i++) {
        // Mostly the first page, where the indices are, and small values, which are nearly right.
        const size_t at = random() % 3 != 0 ? random() % 4096 : random() % tampering.bytes();
        tampering.memory()[at] = static_cast<uint8_t>(random() % 2 == 0 ? random() : random() % 3);
      }
      read_and_write(*a, random);
      read_and_write(*b, random);
      a->flush(now_ += kLookNs / 10);
      b->flush(now_ += kLookNs / 10);
    }
  }
}

TEST_F(ShmWireTest, RecoversFromARecordThatMakesNoSense) {
  const auto a = must_make("shm:x");
  const auto b = must_make("shm:x");
  settle(*a, *b);
  for (const uint32_t length : {0u, 0xfffffffeu, 0xffffffffu, 0x7fffffffu, 20000u, 1001u}) {
    EXPECT_TRUE(put(*b, numbered_frame(3, 1000)));
    b->flush(++now_);
    Tampering tampering(directory_.path());
    // The record of the frame of 1000 bytes in the ring of b, found by its length.
    auto* words = reinterpret_cast<volatile uint32_t*>(tampering.memory());
    for (size_t i = tampering.bytes() / 4 / 2; i < tampering.bytes() / 4; i++) {
      if (words[i] == 1000) words[i] = length;
    }
    EXPECT_TRUE(take(*a).empty()) << length;
    a->flush(++now_);
    expect_passes(*b, *a, 4);
  }
  EXPECT_NE(a->take_message().find("makes no sense (6 times"), std::string::npos);
  EXPECT_EQ(a->take_message(), "");
}

}  // namespace
}  // namespace mqnic::card
