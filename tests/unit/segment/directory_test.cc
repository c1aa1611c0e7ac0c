#include "segment/directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utime.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "segment/block_claims.h"
#include "segment/mailbox.h"
#include "support.h"

namespace uroce::segment {
namespace {

using namespace test;

/// A process's view of the directory.
struct View {
  explicit View(const TempDir& dir) { EXPECT_TRUE(directory.open(dir.path(), error)) << error; }
  std::string error;
  Directory directory;
};

/// A member with blocks.
struct Member {
  Member(View& view, const MemberRecord& record, unsigned blocks) {
    EXPECT_TRUE(claims.open(view.directory, record.mac, view.error)) << view.error;
    EXPECT_TRUE(membership.join(view.directory, record, view.error)) << view.error;
    for (unsigned i = 0; i < blocks; i++) {
      MemberRecord more = membership.record();
      const auto block = claims.take(random);
      if (!block) break;
      more.blocks.push_back(*block);
      EXPECT_EQ(membership.update(more, view.error), 0) << view.error;
    }
  }
  const std::vector<uint32_t>& blocks() const { return membership.record().blocks; }

  SeededRandom random{1};  // the same for all, so that they start looking at the same place
  BlockClaims claims;
  Membership membership;
};

TEST(Directory, MembersSeeEachOther) {
  const TempDir dir;
  View mine(dir);
  View yours(dir);
  const Member me(mine, record_of("a", 1), 1);
  const Member you(yours, record_of("b", 2), 0);
  mine.directory.scan();
  ASSERT_EQ(mine.directory.members().size(), 2u);
  EXPECT_EQ(mine.directory.members().at(you.membership.id()).host, "b");
  EXPECT_EQ(mine.directory.members().at(me.membership.id()).blocks, me.blocks());
  EXPECT_EQ(mine.directory.life(you.membership.id()), Directory::Life::kYes);
  EXPECT_EQ(mine.directory.life(you.membership.id() ^ 1), Directory::Life::kUnknown);
}

/// The directory above is removed with all that is in it, as /run/user/1000 is at the end of a session.
TEST(Directory, IsMadeAgainWithTheOneAboveIt) {
  const TempDir dir;
  const std::string above = dir.path() + "/above";
  ASSERT_EQ(mkdir(above.c_str(), 0700), 0);
  std::string error;
  Directory directory;
  ASSERT_TRUE(directory.open(above + "/own", error)) << error;
  std::filesystem::remove_all(above);
  EXPECT_FALSE(directory.is_there());
  errno = ENOENT;  // left by an earlier call, such as the look for its name
  EXPECT_TRUE(directory.make_again(error)) << error;
  EXPECT_TRUE(directory.is_there());
  EXPECT_EQ(std::filesystem::status(above + "/own").permissions(), std::filesystem::perms::owner_all);
  std::filesystem::remove_all(dir.path());
  EXPECT_FALSE(directory.make_again(error));
  EXPECT_TRUE(error.starts_with("cannot create " + above + ": No such file or directory")) << error;
}

/// A daemon has closed its standard input, so its next descriptor is number 0, which is as good as any other.
TEST(Directory, IsJoinedWithoutStandardInputToo) {
  const TempDir dir;
  View mine(dir);
  const int saved = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  close(STDIN_FILENO);
  std::optional<Membership> membership(std::in_place);
  const bool joined = membership->join(mine.directory, record_of("a", 1), mine.error);
  const bool zero_is_a_members = fcntl(STDIN_FILENO, F_GETFD) != -1;
  membership.reset();
  const bool given_back = fcntl(STDIN_FILENO, F_GETFD) == -1;
  if (saved >= 0) dup2(saved, STDIN_FILENO);
  close(saved);
  EXPECT_TRUE(joined) << mine.error;
  EXPECT_TRUE(zero_is_a_members);
  EXPECT_TRUE(given_back);
}

TEST(Directory, NoticesAChangedRecord) {
  const TempDir dir;
  View mine(dir);
  View yours(dir);
  Member you(yours, record_of("b", 2), 0);
  mine.directory.scan();
  usleep(30'000);  // more than the resolution of file times
  mine.directory.scan();
  EXPECT_FALSE(mine.directory.maybe_changed());
  MemberRecord record = you.membership.record();
  record.blocks = {5};
  ASSERT_EQ(you.membership.update(record, yours.error), 0);
  EXPECT_TRUE(mine.directory.maybe_changed());
  mine.directory.scan();
  EXPECT_EQ(mine.directory.members().at(you.membership.id()).blocks, record.blocks);
}

TEST(Directory, WhoeverLeavesRests) {
  const TempDir dir;
  View mine(dir);
  View yours(dir);
  auto you = std::make_unique<Member>(yours, record_of("b", 2), 1);
  const uint32_t block = you->blocks().at(0);
  you.reset();
  mine.directory.scan();
  EXPECT_TRUE(mine.directory.members().empty());
  EXPECT_TRUE(mine.directory.taken_blocks(mac_of(2))[block]);
  EXPECT_FALSE(mine.directory.taken_blocks(mac_of(3))[block]) << "another host has numbers of its own";
}

TEST(Directory, WhoeverIsKilledIsFoundAndRests) {
  const TempDir dir;
  in_killed_child([&] {
    View yours(dir);
    const auto* const member = new Member(yours, record_of("b", 2), 3);
    const std::ofstream mailbox(dir.path() + "/" + Directory::file_name('s', member->membership.id()));
  });
  EXPECT_EQ(dir.count('m'), 1u);
  View mine(dir);
  mine.directory.scan();
  EXPECT_TRUE(mine.directory.members().empty());
  EXPECT_EQ(dir.count('s'), 0u);
  const auto taken = mine.directory.taken_blocks(mac_of(2));
  EXPECT_EQ(std::count(taken.begin(), taken.end(), true), 3);
}

TEST(Directory, NumbersRestForAMinute) {
  const TempDir dir;
  View mine(dir);
  auto you = std::make_unique<Member>(mine, record_of("b", 2), 1);
  const uint32_t block = you->blocks().at(0);
  const std::string file = dir.path() + "/" + Directory::file_name('m', you->membership.id());
  you.reset();
  const auto age = [&](int seconds) {
    const utimbuf times{time(nullptr) - seconds, time(nullptr) - seconds};
    ASSERT_EQ(utime(file.c_str(), &times), 0);
    mine.directory.scan();
  };
  age(55);
  EXPECT_TRUE(mine.directory.taken_blocks(mac_of(2))[block]);
  age(65);
  EXPECT_EQ(dir.count('m'), 0u);
  mine.directory.scan();
  EXPECT_FALSE(mine.directory.taken_blocks(mac_of(2))[block]);
}

TEST(Directory, ADirectoryInPlaceOfAMailboxKeepsNoNumbersForEver) {
  const TempDir dir;
  View mine(dir);
  const std::string file = dir.path() + "/" + Directory::file_name('m', 0xaa);
  std::ofstream(file) << to_text(record_of("b", 2));
  std::filesystem::create_directory(dir.path() + "/" + Directory::file_name('s', 0xaa));
  const utimbuf old{time(nullptr) - 65, time(nullptr) - 65};
  ASSERT_EQ(utime(file.c_str(), &old), 0);
  mine.directory.scan();
  EXPECT_EQ(dir.count('m'), 0u);
}

TEST(Directory, RestBeginsWhenAMemberGoesHoweverOldItsRecordIs) {
  const TempDir dir;
  View mine(dir);
  const auto live = [&](bool killed) {
    View yours(dir);
    const Member you(yours, record_of("b", 2), 1);
    const std::string id = Directory::file_name('m', you.membership.id());
    const std::ofstream mailbox(dir.path() + "/" + Directory::file_name('s', you.membership.id()));
    const utimbuf old{time(nullptr) - 1000, time(nullptr) - 1000};
    ASSERT_EQ(utime((dir.path() + "/" + id).c_str(), &old), 0);
    if (killed) raise(SIGKILL);
  };
  const auto resting = [&] {
    mine.directory.scan();
    mine.directory.scan();
    const auto taken = mine.directory.taken_blocks(mac_of(2));
    return std::count(taken.begin(), taken.end(), true);
  };
  live(false);
  EXPECT_EQ(resting(), 1);
  in_killed_child([&] { live(true); });
  EXPECT_EQ(resting(), 2);
}

TEST(Directory, WithoutDescriptorsNobodyIsForgotten) {
  const TempDir dir;
  View mine(dir);
  View yours(dir);
  const Member you(yours, record_of("b", 2), 1);
  mine.directory.scan();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{std::min<rlim_t>(256, before.rlim_max), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> all;
  for (int fd = dup(0); fd >= 0; fd = dup(0)) all.push_back(fd);
  close(all.back());
  all.pop_back();
  mine.directory.scan();
  const bool alive = mine.directory.life(you.membership.id()) == Directory::Life::kYes;
  for (const int fd : all) close(fd);
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_GT(all.size(), 10u);
  EXPECT_TRUE(alive);
  EXPECT_EQ(mine.directory.members().size(), 1u);
  EXPECT_TRUE(mine.directory.maybe_changed());
}

TEST(Directory, ThatWasRemovedTellsNothingOfItsMembers) {
  const TempDir dir;
  View mine(dir);
  const Member you(mine, record_of("b", 2), 1);
  mine.directory.scan();
  std::filesystem::remove_all(dir.path());
  EXPECT_EQ(mine.directory.life(you.membership.id()), Directory::Life::kYes);
}

TEST(Directory, AnythingMayLieInIt) {
  const TempDir dir;
  std::filesystem::create_directory(dir.path() + "/m-00000000000000aa");
  std::ofstream(dir.path() + "/m-00000000000000bb") << "rubbish";
  std::ofstream(dir.path() + "/m-xyz") << "rubbish";
  std::filesystem::create_symlink("/dev/zero", dir.path() + "/m-00000000000000dd");
  ASSERT_EQ(mkfifo((dir.path() + "/m-00000000000000ee").c_str(), 0600), 0);
  View mine(dir);
  mine.directory.scan();
  EXPECT_TRUE(mine.directory.members().empty());
}

TEST(Directory, ThatCannotBeMadeSaysSo) {
  Directory directory;
  std::string error;
  EXPECT_FALSE(directory.open("/proc/nowhere/segment", error));
  EXPECT_NE(error.find("cannot create /proc/nowhere/segment"), std::string::npos) << error;
  EXPECT_NE(error.find("UROCE_RUNTIME_DIR"), std::string::npos) << error;
}

TEST(BlockClaims, NobodyGetsWhatAnotherHas) {
  const TempDir dir;
  std::vector<std::unique_ptr<View>> views;
  std::vector<std::unique_ptr<Member>> members;
  std::set<uint32_t> blocks;
  for (unsigned i = 0; i < 20; i++) {
    views.push_back(std::make_unique<View>(dir));
    members.push_back(std::make_unique<Member>(*views.back(), record_of("a", 1), 5));
    ASSERT_EQ(members.back()->blocks().size(), 5u);
    blocks.insert(members.back()->blocks().begin(), members.back()->blocks().end());
  }
  EXPECT_EQ(blocks.size(), 100u);
  EXPECT_EQ(blocks.count(0) + blocks.count(kQpnBlocks - 1), 0u);
}

TEST(BlockClaims, WhatRestsIsNotGiven) {
  const TempDir dir;
  View mine(dir);
  uint32_t first = 0;
  {
    const Member gone(mine, record_of("a", 1), 1);
    first = gone.blocks().at(0);
  }
  const Member next(mine, record_of("a", 1), 1);
  EXPECT_NE(next.blocks().at(0), first);
}

TEST(BlockClaims, ProcessesThatStartTogetherShareNothing) {
  const TempDir dir;
  constexpr int kProcesses = 8;
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; i++) {
    const pid_t pid = fork();
    if (pid == 0) {
      close(gate[1]);
      char end;
      if (read(gate[0], &end, 1) != 0) _exit(1);  // all go on when the pipe is closed
      View view(dir);
      const Member member(view, record_of("a", 1), 10);
      std::ofstream out(dir.path() + "/result-" + std::to_string(i));
      for (const uint32_t block : member.blocks()) out << block << "\n";
      out.flush();
      raise(SIGKILL);
    }
    children.push_back(pid);
  }
  close(gate[0]);
  close(gate[1]);
  for (const pid_t pid : children) waitpid(pid, nullptr, 0);
  std::multiset<uint32_t> blocks;
  for (int i = 0; i < kProcesses; i++) {
    std::ifstream in(dir.path() + "/result-" + std::to_string(i));
    for (uint32_t block; in >> block;) blocks.insert(block);
  }
  EXPECT_EQ(blocks.size(), 10u * kProcesses);
  EXPECT_EQ(std::set<uint32_t>(blocks.begin(), blocks.end()).size(), blocks.size());
}

TEST(Directory, FilesHaveTheRightsThatTheDirectoryGives) {
  for (const mode_t mode : {0700, 0770, 0777}) {
    const TempDir dir;
    ASSERT_EQ(chmod(dir.path().c_str(), mode), 0);
    Directory directory;
    std::string error;
    ASSERT_TRUE(directory.open(dir.path(), error)) << error;
    Membership member;
    ASSERT_TRUE(member.join(directory, record_of("host", 1), error)) << error;
    BlockClaims claims;
    ASSERT_TRUE(claims.open(directory, mac_of(1), error)) << error;
    Mailbox mailbox;
    ASSERT_TRUE(mailbox.open(directory, member.id(), error)) << error;
    for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
      struct stat st {};
      ASSERT_EQ(lstat(entry.path().c_str(), &st), 0);
      EXPECT_EQ(st.st_mode & 0777, mode & 0666) << entry.path();
    }
  }
}

/// In a child as `user`: 0 when the directory is opened, 1 when it is refused as another user's.
int opens_as(uid_t user, const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    std::string error;
    Directory directory;
    if (setuid(user) != 0) _exit(2);
    if (directory.open(path, error)) _exit(0);
    _exit(error == path + " belongs to another user; name another place with UROCE_RUNTIME_DIR" ? 1 : 3);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status >> 8;
}

/// What a process sees as `user`, which it became after opening. 0: all members, and it may not look; 1: all; 2: fewer.
int sees_as(uid_t user, View& view, size_t members) {
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(user) != 0) _exit(3);
    view.directory.scan();
    _exit(view.directory.members().size() != members ? 2 : view.directory.barred() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status >> 8;
}

// The locks stay, but the records, or even their names, cannot be read any more: no member counts as gone for that.
TEST(Directory, MembersAreKeptByWhoMayNotLookAnyMore) {
  if (geteuid() != 0) GTEST_SKIP() << "skipped: only root can be two users";
  for (const auto& [mode, wanted] : {std::pair{0700, 0}, {0755, 0}, {01777, 1}}) {
    const TempDir dir;
    ASSERT_EQ(chmod(dir.path().c_str(), static_cast<mode_t>(mode)), 0);
    View mine(dir);
    View yours(dir);
    const Member me(mine, record_of("a", 1), 1);
    const Member you(yours, record_of("a", 1), 1);
    ASSERT_TRUE(mine.directory.scan());
    EXPECT_EQ(sees_as(4711, mine, 2), wanted) << std::oct << mode;
    EXPECT_FALSE(mine.directory.barred());
  }
}

TEST(Directory, OfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "skipped: only root can be two users";
  const TempDir dir;
  ASSERT_EQ(chown(dir.path().c_str(), 4711, 4711), 0);
  ASSERT_EQ(chmod(dir.path().c_str(), 0777), 0);
  EXPECT_EQ(opens_as(4712, dir.path()), 1);
  EXPECT_EQ(opens_as(0, dir.path()), 1) << "root's program would share its memory with whoever made it";
  EXPECT_EQ(opens_as(4711, dir.path()), 0);
  ASSERT_EQ(chown(dir.path().c_str(), 0, 0), 0);
  EXPECT_EQ(opens_as(4712, dir.path()), 0) << "root made it for users to meet";
}

/// A member of the group may replace the file behind a name between any two calls of another's program.
TEST(Directory, OnlyASocketOfOnesOwnIsShared) {
  const TempDir dir;
  ASSERT_EQ(chmod(dir.path().c_str(), 0770), 0);
  View view(dir);
  const auto path = [&](const char* name) { return dir.path() + "/" + name; };
  const auto mode = [&](const char* name) {
    struct stat st {};
    EXPECT_EQ(lstat(path(name).c_str(), &st), 0) << name;
    return st.st_mode & 0777;
  };
  const auto make_socket = [&](const char* name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path(name).copy(address.sun_path, sizeof address.sun_path - 1);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(chmod(path(name).c_str(), 0600), 0);
    close(fd);
  };
  std::ofstream(path("secret")) << "x";
  ASSERT_EQ(chmod(path("secret").c_str(), 0600), 0);
  ASSERT_EQ(symlink("secret", path("link").c_str()), 0);
  make_socket("own");
  make_socket("twice");
  ASSERT_EQ(link(path("twice").c_str(), path("also").c_str()), 0);
  ASSERT_EQ(symlink("own", path("link-to-own").c_str()), 0);
  for (const char* const name : {"link", "secret", "twice", "also", "link-to-own", "nothing"})
    EXPECT_FALSE(view.directory.share_socket(name)) << name;
  for (const char* const name : {"secret", "twice", "own"}) EXPECT_EQ(mode(name), 0600u) << name;
  EXPECT_TRUE(view.directory.share_socket("own"));
  EXPECT_EQ(mode("own"), 0660u);
  if (geteuid() != 0) return;
  make_socket("others");
  ASSERT_EQ(lchown(path("others").c_str(), 4711, 4711), 0);
  EXPECT_FALSE(view.directory.share_socket("others"));
  EXPECT_EQ(mode("others"), 0600u);
}

TEST(Directory, AFileWithASecondNameIsNotAHosts) {
  const TempDir dir;
  ASSERT_EQ(chmod(dir.path().c_str(), 0770), 0);
  View view(dir);
  std::ofstream(dir.path() + "/secret") << "x";
  ASSERT_EQ(chmod((dir.path() + "/secret").c_str(), 0600), 0);
  ASSERT_EQ(link((dir.path() + "/secret").c_str(), (dir.path() + "/q-020000000001").c_str()), 0);
  std::string error;
  EXPECT_EQ(view.directory.open_host_file('q', {{2, 0, 0, 0, 0, 1}}, error), -1);
  EXPECT_NE(error.find("q-020000000001"), std::string::npos) << error;
  struct stat st {};
  ASSERT_EQ(stat((dir.path() + "/secret").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

/// In a sticky directory no user removes another's files: the numbers of a member that was killed rest until its user,
/// or root, has looked, and looks of others do not prolong that.
TEST(Directory, WhatOthersLeftInAStickyDirectoryRestsUntilTheyLook) {
  if (geteuid() != 0) GTEST_SKIP() << "skipped: only root can be two users";
  const TempDir dir;
  ASSERT_EQ(chown(dir.path().c_str(), 0, 60), 0);
  ASSERT_EQ(chmod(dir.path().c_str(), 03777), 0);
  const auto as = [&](uid_t user, const std::function<int(Directory&)>& look) {
    const pid_t child = fork();
    if (child == 0) {
      std::string error;
      Directory directory;
      if (setuid(user) != 0 || !directory.open(dir.path(), error)) _exit(100);
      _exit(look(directory));
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status >> 8;
  };
  const auto blocks = [&](Directory& directory) {
    directory.scan();
    const std::vector<bool> taken = directory.taken_blocks(mac_of(2));
    return static_cast<int>(std::count(taken.begin(), taken.end(), true));
  };
  const auto killed = [&](Directory& directory) {
    std::string error;
    MemberRecord record = record_of("b", 2);
    record.blocks = {3, 4};
    auto* const member = new Membership;
    if (!member->join(directory, record, error)) return 101;
    auto* const mailbox = new Mailbox;
    return mailbox->open(directory, member->id(), error) ? 0 : 102;
  };
  ASSERT_EQ(as(4711, killed), 0);
  EXPECT_EQ(as(4712, blocks), 2);
  EXPECT_EQ(dir.count('s'), 1u);
  const utimbuf old{time(nullptr) - 65, time(nullptr) - 65};
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    if (entry.path().filename().string()[0] == 'm') {
      ASSERT_EQ(utime(entry.path().c_str(), &old), 0);
    }
  EXPECT_EQ(as(4712, blocks), 2);
  EXPECT_EQ(as(4711, blocks), 2) << "from now on for a minute";
  EXPECT_EQ(dir.count('s'), 0u);
}

}  // namespace
}  // namespace uroce::segment
