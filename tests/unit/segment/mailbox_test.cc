#include "segment/mailbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "segment/confined_send.h"
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
  /// A hello with good bytes and these descriptors.
  bool send_raw(MemberId to, const std::vector<int>& all) const {
    Letter letter;
    letter.kind = Letter::Kind::kHello;
    letter.from = 1;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = dir.path() + "/" + Directory::file_name('s', to);
    std::copy_n(path.c_str(), path.size() + 1, address.sun_path);
    iovec part{&letter, sizeof letter};
    std::vector<uint8_t> control(CMSG_SPACE(all.size() * sizeof(int)));
    msghdr message{&address, sizeof address, &part, 1, control.data(), control.size(), 0};
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(all.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), all.data(), all.size() * sizeof(int));
    return sendmsg(mine.fd(), &message, 0) == sizeof letter;
  }

  TempDir dir;
  Directory directory;
  Mailbox mine, yours;
  std::string error;
  LetterFds fds;
  LostLetters lost;
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
  EXPECT_FALSE(lost.for_descriptors);
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
  send_bad([](Letter& l) { l.version = Letter::kVersion + 1; });
  send_bad([](Letter& l) { l.from = 0; });
  send_bad([](Letter& l) { l.kind = Letter::Kind::kHello; });  // without memory
  send_bad([](Letter& l) { l.from = 77; });                    // in the name of another member
  send_bad([](Letter& l) { l.answer = 77; });                  // valid
  const auto got = yours.receive(fds, lost);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->answer, 77u);
  EXPECT_FALSE(yours.receive(fds, lost));
}

TEST_F(MailboxTest, MoreDescriptorsThanAnyLetterHasAreNotOursToLose) {
  const int memory = memfd_create("many", 0);
  ASSERT_TRUE(send_raw(2, std::vector<int>(40, memory)));
  close(memory);
  const int next = dup(0);
  close(next);
  EXPECT_FALSE(yours.receive(fds, lost));
  EXPECT_FALSE(lost.for_descriptors) << "this process has descriptors enough";
  const int after = dup(0);
  close(after);
  EXPECT_EQ(after, next) << "they are closed";
}

TEST_F(MailboxTest, DescriptorsForWhichThereIsNoRoomAreMissed) {
  const int memory = memfd_create("two", 0);
  ASSERT_TRUE(send_raw(2, {memory, memory}));
  close(memory);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(0);
  close(next);
  const rlimit few{static_cast<rlim_t>(next) + 1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const bool got = yours.receive(fds, lost).has_value();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_FALSE(got);
  EXPECT_TRUE(lost.for_descriptors);
}

TEST_F(MailboxTest, ALetterOfAnotherVersionIsThrownAwayAndMissed) {
  for (const int version : {Letter::kVersion - 1, Letter::kVersion + 1}) {
    lost = {};
    Letter letter;
    letter.from = 1;
    letter.version = static_cast<uint16_t>(version);
    ASSERT_EQ(mine.send(2, letter), Mailbox::Sent::kYes);
    EXPECT_FALSE(yours.receive(fds, lost));
    EXPECT_TRUE(lost.for_version);
  }
  lost = {};
  Letter nonsense;
  nonsense.from = 1;
  nonsense.magic = 0;
  nonsense.version = Letter::kVersion + 1;
  ASSERT_EQ(mine.send(2, nonsense), Mailbox::Sent::kYes);
  EXPECT_FALSE(yours.receive(fds, lost));
  EXPECT_FALSE(lost.for_version);
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

// A process whose root directory has changed still has the directory open.
TEST_F(MailboxTest, LettersGoFromInsideTheDirectory) {
  Letter letter;
  letter.from = 1;
  iovec part{&letter, sizeof letter};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  char before[PATH_MAX];
  ASSERT_NE(getcwd(before, sizeof before), nullptr);
  EXPECT_EQ(send_from_inside(directory.fd(), Directory::file_name('s', 2), mine.fd(), message), 0);
  const auto got = yours.receive(fds, lost);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->from, 1u);
  EXPECT_EQ(send_from_inside(directory.fd(), Directory::file_name('s', 3), mine.fd(), message), ENOENT);
  EXPECT_EQ(send_from_inside(-1, Directory::file_name('s', 2), mine.fd(), message), EBADF);
  EXPECT_EQ(send_from_inside(directory.fd(), std::string(200, 'x'), mine.fd(), message), ENAMETOOLONG);
  char after[PATH_MAX];
  ASSERT_NE(getcwd(after, sizeof after), nullptr);
  EXPECT_STREQ(before, after) << "the working directory is the program's";
}

}  // namespace
}  // namespace uroce::segment
