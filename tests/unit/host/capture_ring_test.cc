// Frames from a program to `uroce capture`: in order, whole, counted when there is no room; and a program that writes
// nonsense harms no other.
#include "host/capture_ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

namespace uroce {
namespace {

class CaptureRingTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    ASSERT_TRUE(ring_.make(error)) << error;
    ASSERT_TRUE(reader_.map(ring_.fd()));
  }
  /// A frame whose length and bytes follow from its number.
  static std::vector<uint8_t> frame(uint32_t number) {
    std::vector<uint8_t> bytes(number * 7919 % 4300);
    for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<uint8_t>(number + i);
    return bytes;
  }
  bool push(uint32_t number) {
    const std::vector<uint8_t> bytes = frame(number);
    return ring_.push({.ticks = number, .sent = number % 2 == 1, .qpn = number * 3, .bytes = bytes});
  }

  CaptureRing ring_;
  CaptureRingReader reader_;
};

TEST_F(CaptureRingTest, GivesWhatWasPushedManyTimesAround) {
  CapturedFrame read;
  EXPECT_FALSE(reader_.next(read));
  uint32_t next = 0;
  for (uint32_t number = 0; number < 30'000; number++) {  // 64 MB through 16
    ASSERT_TRUE(push(number));
    if (number % 100 < 90) continue;
    for (; reader_.next(read); next++) {
      ASSERT_EQ(read.ticks, next);
      ASSERT_EQ(read.sent, next % 2 == 1);
      ASSERT_EQ(read.qpn, next * 3);
      ASSERT_EQ(read.lost_before, 0u);
      ASSERT_EQ(read.original_bytes, frame(next).size());
      ASSERT_EQ(std::vector<uint8_t>(read.bytes.begin(), read.bytes.end()), frame(next));
    }
  }
  EXPECT_EQ(next, 30'000u);
  EXPECT_EQ(reader_.frames(), 30'000u);
  EXPECT_EQ(reader_.lost(), 0u);
}

TEST_F(CaptureRingTest, CountsWhatFindsNoRoomAndGoesOn) {
  uint32_t kept = 0;
  while (push(kept)) kept++;
  EXPECT_FALSE(push(kept));
  EXPECT_EQ(reader_.lost(), 2u);
  CapturedFrame read;
  for (uint32_t i = 0; i < kept; i++) ASSERT_TRUE(reader_.next(read));
  EXPECT_FALSE(reader_.next(read)) << "and gives back the room of the last one";
  EXPECT_TRUE(push(5));
  ASSERT_TRUE(reader_.next(read));
  EXPECT_EQ(read.ticks, 5u);
  EXPECT_EQ(read.lost_before, 2u);
  EXPECT_TRUE(push(6));
  ASSERT_TRUE(reader_.next(read));
  EXPECT_EQ(read.lost_before, 0u);
  EXPECT_EQ(reader_.frames(), kept + 4);
}

TEST_F(CaptureRingTest, IsFilledToTheLastByte) {
  constexpr uint32_t kHead = 32;
  constexpr uint32_t kRoom = 32'768;
  static_assert(CaptureMemory::kBytes % kRoom == 0);
  std::vector<uint8_t> bytes(kRoom - kHead);
  const auto push_one = [&](uint32_t number) {
    std::fill(bytes.begin(), bytes.end(), static_cast<uint8_t>(number));
    return ring_.push({.ticks = number, .bytes = bytes});
  };
  constexpr uint32_t kFit = CaptureMemory::kBytes / kRoom;
  for (uint32_t i = 0; i < kFit; i++) ASSERT_TRUE(push_one(i)) << i;
  EXPECT_FALSE(ring_.push({})) << "there is not even room for a frame without bytes";
  CapturedFrame read;
  for (uint32_t i = 0; i < kFit; i++) {
    ASSERT_TRUE(reader_.next(read));
    ASSERT_EQ(read.ticks, i);
    ASSERT_EQ(read.bytes.size(), bytes.size());
    ASSERT_EQ(read.bytes.back(), static_cast<uint8_t>(i));
  }
  EXPECT_EQ(reader_.lost(), 1u);
}

TEST_F(CaptureRingTest, AChildThatForgetsItHasNothingOfItLeft) {
  const pid_t child = fork();
  if (child == 0) {
    const int fd = ring_.fd();
    ring_.forget();
    _exit(fcntl(fd, F_GETFD) == -1 && ring_.fd() == -1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(push(1)) << "its parent goes on";
  CapturedFrame read;
  EXPECT_TRUE(reader_.next(read));
}

TEST_F(CaptureRingTest, KeepsTheBeginningWhenAsked) {
  ASSERT_TRUE(push(1));
  reader_.keep(128);
  ASSERT_TRUE(push(1));
  const std::vector<uint8_t> whole = frame(1);
  CapturedFrame read;
  for (int i = 0; i < 2; i++) {
    ASSERT_TRUE(reader_.next(read));
    EXPECT_EQ(read.original_bytes, 3619u);
    EXPECT_EQ(std::vector<uint8_t>(read.bytes.begin(), read.bytes.end()),
              std::vector<uint8_t>(whole.begin(), whole.begin() + 128))
        << i;
  }
}

TEST_F(CaptureRingTest, AProgramThatScribblesEndsOnlyItsOwnCapture) {
  void* const data = mmap(nullptr, sizeof(CaptureMemory), PROT_READ | PROT_WRITE, MAP_SHARED, ring_.fd(), 0);
  ASSERT_NE(data, MAP_FAILED);
  auto* const memory = static_cast<CaptureMemory*>(data);
  const auto write_word = [&](size_t at, uint32_t value) { std::memcpy(memory->ring + at, &value, sizeof value); };
  const struct {
    uint64_t written;
    uint32_t bytes;
    uint32_t original_bytes;
  } bad[] = {
      {64, 40, 40},               // longer than all that was written
      {UINT64_MAX, 8, 8},         // more was written than can be
      {1 << 20, 70'000, 70'000},  // longer than a frame
      {1 << 20, 8, UINT32_MAX},   // so was the original
      {1 << 20, 80, 40},          // longer than the original
      {1 << 20, UINT32_MAX, 0},   // up to the start, which is further than was written
  };
  for (const auto& each : bad) {
    CaptureRingReader reader;
    ASSERT_TRUE(reader.map(ring_.fd()));
    write_word(0, each.bytes);
    write_word(4, each.original_bytes);
    memory->written.store(each.written);
    CapturedFrame read;
    EXPECT_FALSE(reader.next(read)) << each.bytes;
    EXPECT_TRUE(reader.broken()) << each.bytes;
    EXPECT_FALSE(reader.next(read)) << "and stays so";
  }
  // The other way round: a reader that claims to have read what was never written gets nothing more, and does no harm.
  memory->read.store(12'345);
  EXPECT_FALSE(push(1));
  munmap(data, sizeof(CaptureMemory));
}

TEST(CaptureMemoryTest, OnlySealedMemoryOfItsSizeIsMapped) {
  const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, sizeof(CaptureMemory)), 0);
  CaptureRingReader reader;
  EXPECT_FALSE(reader.map(fd)) << "it could be cut";
  EXPECT_FALSE(reader.map(STDIN_FILENO));
  close(fd);
}

}  // namespace
}  // namespace uroce
