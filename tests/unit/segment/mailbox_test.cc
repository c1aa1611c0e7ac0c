#include "segment/mailbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "segment/shared_memory.h"
#include "support.h"

namespace uroce::segment {
namespace {

using namespace test;

struct MailboxTest : ::testing::Test {
  void SetUp() override {
    ASSERT_TRUE(directory.open(dir.path(), error)) << error;
    ASSERT_TRUE(mine.open(directory, 1, error)) << error;
    ASSERT_TRUE(yours.open(directory, 2, error)) << error;
  }
  TempDir dir;
  Directory directory;
  Mailbox mine, yours;
  std::string error;
  LetterFds fds;
  bool lost = false;
};

TEST_F(MailboxTest, AHelloBringsMemory) {
  OwnMemory base;
  OwnMemory lane;
  ASSERT_TRUE(base.make("base", 4096, error)) << error;
  ASSERT_TRUE(lane.make("lane", 8192, error)) << error;
  std::memcpy(lane.data(), "frames", 7);
  Letter letter;
  letter.kind = Letter::Kind::kHello;
  letter.from = 1;
  ASSERT_EQ(mine.send(2, letter, {base.fd(), lane.fd()}), Mailbox::Sent::kYes);
  const auto got = yours.receive(fds, lost);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->from, 1u);
  PeerMemory peer;
  EXPECT_FALSE(peer.map(fds.lane, 4096)) << "of another size";
  ASSERT_TRUE(peer.map(fds.lane, 8192));
  EXPECT_STREQ(static_cast<const char*>(peer.data()), "frames");
  close(fds.base);
  close(fds.lane);
  EXPECT_FALSE(yours.receive(fds, lost));
  EXPECT_FALSE(lost);
}

TEST_F(MailboxTest, WhoeverGetsMemoryCannotWriteToItOrShrinkIt) {
  OwnMemory memory;
  ASSERT_TRUE(memory.make("base", 4096, error)) << error;
  EXPECT_EQ(ftruncate(memory.fd(), 0), -1);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd(), 0), MAP_FAILED);
  EXPECT_EQ(pwrite(memory.fd(), "x", 1, 0), -1);
}

TEST_F(MailboxTest, MemoryThatCouldGoAwayIsRefused) {
  const int fd = memfd_create("loose", MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  PeerMemory peer;
  EXPECT_FALSE(peer.map(fd, 4096));
  ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_FALSE(peer.map(fd, 4096));
  ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
  EXPECT_TRUE(peer.map(fd, 4096));
  close(fd);
  const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  EXPECT_FALSE(peer.map(file, 4096));
  close(file);
}

TEST_F(MailboxTest, AFullOneTakesNoMoreAndNobodyWaits) {
  Letter letter;
  letter.from = 1;
  unsigned sent = 0;
  while (sent < 100'000 && mine.send(2, letter) == Mailbox::Sent::kYes) sent++;
  EXPECT_GE(sent, 5u);
  EXPECT_LT(sent, 100'000u);
  EXPECT_EQ(mine.send(2, letter), Mailbox::Sent::kFull);
  while (yours.receive(fds, lost)) sent--;
  EXPECT_EQ(sent, 0u);
  EXPECT_EQ(mine.send(2, letter), Mailbox::Sent::kYes);
}

TEST_F(MailboxTest, OfAMemberThatIsGoneIsKnown) {
  Letter letter;
  letter.from = 1;
  yours.forget();
  EXPECT_EQ(mine.send(2, letter), Mailbox::Sent::kGone);
  EXPECT_EQ(mine.send(3, letter), Mailbox::Sent::kGone);
}

TEST_F(MailboxTest, LettersThatMakeNoSenseArePassedOver) {
  const auto send_bad = [&](auto change) {
    Letter letter;
    letter.from = 1;
    change(letter);
    ASSERT_EQ(mine.send(2, letter), Mailbox::Sent::kYes);
  };
  send_bad([](Letter& l) { l.magic = 0; });
  send_bad([](Letter& l) { l.version = 2; });
  send_bad([](Letter& l) { l.from = 0; });
  send_bad([](Letter& l) { l.kind = Letter::Kind::kHello; });  // without memory
  send_bad([](Letter& l) { l.from = 77; });                    // this one is good
  const auto got = yours.receive(fds, lost);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->from, 77u);
  EXPECT_FALSE(yours.receive(fds, lost));
}

TEST(Mailbox, WorksUnderALongPath) {
  const TempDir dir;
  std::string path = dir.path();
  for (int i = 0; i < 4; i++) std::filesystem::create_directory(path += "/" + std::string(60, 'x'));
  Directory directory;
  Mailbox mailbox;
  std::string error;
  ASSERT_TRUE(directory.open(path, error)) << error;
  ASSERT_TRUE(mailbox.open(directory, 1, error)) << error;
  Letter letter;
  letter.from = 1;
  EXPECT_EQ(mailbox.send(1, letter), Mailbox::Sent::kYes);
}

}  // namespace
}  // namespace uroce::segment
