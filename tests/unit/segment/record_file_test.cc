// A directory that is full for a moment: the n-th write of a record is cut short or refused, and newcomers look.
#include "segment/record_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cerrno>
#include <filesystem>

#include "node.h"

namespace uroce::segment {
namespace {

/// What the test's file system does with the next writes.
struct FullDisk {
  int64_t room = -1;  // bytes that fit; -1: all
  unsigned refused = 0;
};
FullDisk disk;

}  // namespace
}  // namespace uroce::segment

extern "C" ssize_t pwrite(int fd, const void* bytes, size_t count, off_t at) {
  auto& disk = uroce::segment::disk;
  if (disk.room == 0 && count != 0) {
    disk.refused++;
    errno = ENOSPC;
    return -1;
  }
  if (disk.room > 0) {
    count = std::min(count, static_cast<size_t>(disk.room));
    disk.room -= static_cast<int64_t>(count);
  }
  return syscall(SYS_pwrite64, fd, bytes, count, at);
}

namespace uroce::segment {
namespace {

using namespace test;

constexpr uint64_t kFirstService = 0x0000000001061c06;

Listening service(uint64_t number) { return {kFirstService + number, ~uint64_t{0}}; }

class FullDirectoryTest : public testing::Test {
 protected:
  ~FullDirectoryTest() override { disk = {}; }
  /// The only member's record as a newcomer reads it; nothing when it does not see the member.
  std::optional<MemberRecord> newcomer_reads() const {
    Directory directory;
    std::string error;
    EXPECT_TRUE(directory.open(dir_.path(), error)) << error;
    directory.scan();
    return directory.members().size() == 1 ? std::optional(directory.members().begin()->second) : std::nullopt;
  }
  const TempDir dir_;
  std::string error_;
};

TEST_F(FullDirectoryTest, ACardIsWrittenWholeOrNotAtAll) {
  Directory directory;
  ASSERT_TRUE(directory.open(dir_.path(), error_)) << error_;
  Membership member;
  ASSERT_TRUE(member.join(directory, record_of("a", 1), error_)) << error_;
  const auto longest = static_cast<int64_t>(to_text(member.record()).size()) + 200;
  // Longer and shorter records in turn, each first cut short at every place.
  for (int64_t room = 0; room < longest; room++) {
    MemberRecord next = member.record();
    next.program = "version " + std::to_string(room);
    if (room % 3 == 0) {
      next.listens.assign(4, service(0));
    } else {
      next.listens.clear();
    }
    const MemberRecord before = member.record();
    disk = {.room = room};
    const int code = member.update(next, error_);
    disk.room = -1;
    if (code == 0) {
      ASSERT_EQ(newcomer_reads(), next) << room;
      continue;
    }
    ASSERT_EQ(code, ENOSPC) << room;
    ASSERT_NE(error_.find("No space left on device; name another place"), std::string::npos) << error_;
    ASSERT_EQ(member.record(), before) << room;
    ASSERT_EQ(newcomer_reads(), before) << room;
    ASSERT_EQ(member.update(next, error_), 0) << room << " " << error_;
    ASSERT_EQ(newcomer_reads(), next) << room;
  }
}

TEST_F(FullDirectoryTest, WhoCannotWriteTheFirstRecordDoesNotJoin) {
  Directory directory;
  ASSERT_TRUE(directory.open(dir_.path(), error_)) << error_;
  for (int64_t room = 0; room < 60; room += 7) {
    disk = {.room = room};
    Membership member;
    EXPECT_FALSE(member.join(directory, record_of("a", 1), error_));
    EXPECT_NE(error_.find("No space left on device"), std::string::npos) << error_;
    EXPECT_EQ(dir_.count('m'), 0u) << "it takes the room of others";
  }
}

TEST_F(FullDirectoryTest, IsToldOnceAndAListenerAtOnce) {
  Node node(dir_, record_of("a", 1));
  Registration& registration = node.port->registration();
  ASSERT_EQ(registration.listen(service(1), error_), 0);
  disk.room = 0;
  unsigned lines = 0;
  for (uint64_t i = 2; i < 66; i++) {
    error_.clear();
    EXPECT_EQ(registration.listen(service(i), error_), ENOSPC);
    lines += error_.empty() ? 0 : 1;
  }
  EXPECT_EQ(lines, 1u);
  EXPECT_EQ(node.port->take_block(), std::nullopt);
  EXPECT_EQ(newcomer_reads()->listens, std::vector{service(1)});
  disk.room = -1;
  EXPECT_EQ(registration.listen(service(66), error_), 0);
  EXPECT_EQ(newcomer_reads()->listens, (std::vector{service(1), service(66)}));
  EXPECT_NE(node.port->take_block(), std::nullopt);
}

TEST_F(FullDirectoryTest, WhatWasRefusedIsNotToldLater) {
  Node node(dir_, record_of("a", 1));
  disk.room = 0;
  EXPECT_EQ(node.port->registration().listen(service(1), error_), ENOSPC);
  const unsigned refused = disk.refused;
  for (int i = 0; i < 4; i++) node.turn(milliseconds(300));
  EXPECT_EQ(disk.refused, refused) << "nothing waits to be told";
  disk.room = -1;
  for (int i = 0; i < 4; i++) node.turn(milliseconds(300));
  EXPECT_TRUE(node.warnings.empty()) << node.warnings[0];
}

TEST_F(FullDirectoryTest, IsTriedAgainWhenThereIsRoom) {
  Node node(dir_, record_of("a", 1));
  Registration& registration = node.port->registration();
  const MacAddress group{{0x01, 0x00, 0x5e, 1, 2, 3}};
  ASSERT_EQ(registration.listen(service(1), error_), 0);
  disk.room = 0;
  EXPECT_FALSE(registration.want_group(group, true, error_));
  EXPECT_NE(error_.find("No space left on device"), std::string::npos) << error_;
  EXPECT_FALSE(registration.unlisten(service(1), error_));
  EXPECT_TRUE(error_.empty()) << error_;
  node.turn(milliseconds(300));
  const unsigned refused = disk.refused;
  for (int i = 0; i < 100; i++) node.turn(milliseconds(1));
  EXPECT_EQ(disk.refused, refused) << "not all the time";
  EXPECT_TRUE(newcomer_reads()->groups.empty());
  disk.room = -1;
  node.turn(milliseconds(300));
  EXPECT_EQ(newcomer_reads()->groups, std::vector{group});
  EXPECT_TRUE(newcomer_reads()->listens.empty());
  ASSERT_EQ(node.warnings.size(), 1u);
  EXPECT_NE(node.warnings[0].find("has room again"), std::string::npos) << node.warnings[0];
  node.turn(milliseconds(300));
  EXPECT_EQ(node.warnings.size(), 1u);
}

TEST(RecordFile, WithoutItsSumIsNothing) {
  const TempDir dir;
  const std::string path = dir.path() + "/record";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  const MemberRecord first = record_of("a", 1);
  MemberRecord second = first;
  second.program = "another";
  ASSERT_EQ(write_record(fd, first, 1), 0);
  EXPECT_EQ(read_record(fd), first);
  ASSERT_EQ(write_record(fd, second, 2), 0);
  EXPECT_EQ(read_record(fd), second);
  // A change of any byte of the newer one.
  const auto bytes = static_cast<off_t>(std::filesystem::file_size(path));
  for (off_t at = static_cast<off_t>(kRecordBytesMax); at < bytes; at++) {
    char byte = 0;
    ASSERT_EQ(pread(fd, &byte, 1, at), 1);
    const char other = static_cast<char>(byte ^ 1);
    ASSERT_EQ(pwrite(fd, &other, 1, at), 1);
    ASSERT_EQ(read_record(fd), first) << at;
    ASSERT_EQ(pwrite(fd, &byte, 1, at), 1);
  }
  EXPECT_EQ(read_record(fd), second);
  close(fd);
}

}  // namespace
}  // namespace uroce::segment
