// When a uroced that programs started for themselves ends, in virtual time.
#include "uroced/while_needed.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>

#include "host/way_out.h"
#include "node.h"
#include "temporary_directory.h"

namespace uroce::daemon {
namespace {

constexpr Instant at(int64_t ms) { return Instant{milliseconds(ms).ns}; }

TEST(Need, WithoutAnybodyItEndsAfterAWhile) {
  Need need(at(0));
  EXPECT_FALSE(need.is_over(at(0), false, std::nullopt));
  EXPECT_FALSE(need.is_over(at(4999), false, std::nullopt));
  EXPECT_TRUE(need.is_over(at(5000), false, std::nullopt));
}

TEST(Need, ItStaysAsLongAsThereAreProgramsAndAWhileMore) {
  Need need(at(0));
  EXPECT_FALSE(need.is_over(at(3'600'000), true, std::nullopt));
  EXPECT_FALSE(need.is_over(at(3'604'999), false, std::nullopt));
  EXPECT_TRUE(need.is_over(at(3'605'000), false, std::nullopt));
}

/// A program that found it, and has not joined yet.
TEST(Need, WhoHasJustAskedIsWaitedFor) {
  Need need(at(0));
  EXPECT_FALSE(need.is_over(at(6000), false, milliseconds(10)));
  EXPECT_FALSE(need.is_over(at(10'999), false, std::nullopt));
  EXPECT_TRUE(need.is_over(at(11'000), false, std::nullopt));
}

TEST(Need, WhoAskedLongAgoIsNot) {
  Need need(at(0));
  EXPECT_TRUE(need.is_over(at(6000), false, kWayOutLinger));
}

/// Over random histories: never while there is a program, nor before kWayOutLinger after the last of them; and then at
/// the first look.
TEST(Need, EndsWhenAndOnlyWhenNobodyNeededItForAWhile) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; round++) {
    Need need(at(0));
    int64_t last_ms = 0;
    for (int64_t now_ms = 0; now_ms < 60'000; now_ms += 1 + random() % 900) {
      const bool programs = random() % 8 == 0;
      const bool asked = random() % 16 == 0;
      if (programs || asked) last_ms = now_ms;
      const bool over = need.is_over(at(now_ms), programs, asked ? std::optional(milliseconds(3)) : std::nullopt);
      ASSERT_EQ(over, now_ms - last_ms >= 5000) << "round " << round << " at " << now_ms;
      if (over) break;
    }
  }
}

using segment::test::Node;
using segment::test::record_of;

/// A segment, and the uroced of its host "home", started at 0.
class WhileNeededTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    ASSERT_TRUE(need_.open(segment_.path(), error)) << error;
  }
  /// A program of `host`; without `leads_out` it did not ask for the network.
  std::unique_ptr<Node> member(const std::string& host, bool leads_out, segment::Role role = segment::Role::kProgram) {
    segment::MemberRecord record = record_of(host, static_cast<uint8_t>(++members_));
    record.leads_out = leads_out;
    record.role = role;
    return std::make_unique<Node>(segment_.path(), record);
  }
  /// Whether somebody else may have the lock.
  static bool is_free(const std::string& host = "home") {
    std::string held;
    return WayOutNote().take(host, milliseconds(0), held);
  }

  TemporaryRuntimeDir runtime_;
  segment::test::TempDir segment_;
  WhileNeeded need_{"home", at(0)};
  int members_ = 0;
};

TEST_F(WhileNeededTest, LooksTwiceASecond) {
  EXPECT_FALSE(need_.is_over(at(0)));
  EXPECT_FALSE(need_.is_over(at(4999)));
  EXPECT_FALSE(need_.is_over(at(5498))) << "nobody has looked since";
  EXPECT_TRUE(need_.is_over(at(5499)));
}

/// Others on the segment do not need it, each for another reason; one that does is enough.
TEST_F(WhileNeededTest, OnlyProgramsOfItsHostThatAskedKeepIt) {
  const auto elsewhere = member("away", true), content = member("home", false);
  const auto port = member("home", true, segment::Role::kStation);
  auto one = member("home", true), two = member("home", true);
  EXPECT_FALSE(need_.is_over(at(20'000)));
  one.reset();
  EXPECT_FALSE(need_.is_over(at(40'000)));
  two.reset();
  EXPECT_FALSE(need_.is_over(at(44'999)));
  EXPECT_TRUE(need_.is_over(at(45'499)));
}

/// From the moment when it is over until it has ended, nobody can ask; of other hosts' nothing is held.
TEST_F(WhileNeededTest, NobodyAsksForOneThatEnds) {
  {
    WhileNeeded need("home", at(0));
    std::string error;
    ASSERT_TRUE(need.open(segment_.path(), error)) << error;
    EXPECT_FALSE(need.is_over(at(1)));
    EXPECT_TRUE(is_free());
    EXPECT_TRUE(need.is_over(at(5000)));
    EXPECT_FALSE(is_free());
    EXPECT_TRUE(is_free("away"));
  }
  EXPECT_TRUE(is_free());
}

TEST_F(WhileNeededTest, WhoHoldsTheLockOrHasJustAskedIsWaitedFor) {
  WayOutNote asking;
  std::string error;
  ASSERT_TRUE(asking.take("home", milliseconds(0), error)) << error;
  EXPECT_FALSE(need_.is_over(at(6000)));
  asking.write("");
  asking.release();
  EXPECT_FALSE(need_.is_over(at(7000))) << "it has asked, and is about to join";
  EXPECT_TRUE(is_free()) << "the lock is given back";
  EXPECT_FALSE(need_.is_over(at(11'999)));
}

/// Programs come back to a directory that was cleaned away, and so does what counts them.
TEST_F(WhileNeededTest, ProgramsThatCameBackKeepIt) {
  auto program = member("home", true);
  EXPECT_FALSE(need_.is_over(at(10'000)));
  std::filesystem::remove_all(segment_.path());
  EXPECT_FALSE(need_.is_over(at(11'000))) << "it may not be back yet";
  for (int i = 0; i < 10; i++) program->turn(milliseconds(1000));
  ASSERT_EQ(segment_.count('m'), 1u);
  EXPECT_FALSE(need_.is_over(at(20'000)));
  EXPECT_FALSE(need_.is_over(at(40'000)));
  program.reset();
  EXPECT_TRUE(need_.is_over(at(45'499)));
}

/// What cannot be read says nothing, for as long as that lasts.
TEST_F(WhileNeededTest, NothingFollowsFromAPlaceThatCannotBeMade) {
  std::filesystem::remove_all(segment_.path());
  std::ofstream(segment_.path()) << "in the way";
  EXPECT_FALSE(need_.is_over(at(10'000)));
  EXPECT_FALSE(need_.is_over(at(60'000)));
  std::filesystem::remove(segment_.path());
  EXPECT_FALSE(need_.is_over(at(64'999)));
  EXPECT_TRUE(need_.is_over(at(65'499)));
}

class UrocedLog : public testing::Test {
 protected:
  off_t bytes() const {
    struct stat st {};
    EXPECT_EQ(lstat(path_.c_str(), &st), 0);
    return st.st_size;
  }
  TemporaryRuntimeDir runtime_;
  const std::string path_ = runtime_.path() / "uroced.home.log";
};

TEST_F(UrocedLog, IsTheUsersAndGrowsToItsBound) {
  ASSERT_EQ(write(open_log("home").get(), "first ", 6), 6);
  struct stat st {};
  ASSERT_EQ(lstat(path_.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  ASSERT_EQ(write(open_log("home").get(), "second", 6), 6);
  std::ifstream file(path_);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "first second");

  std::filesystem::resize_file(path_, 1 << 20);
  static_cast<void>(open_log("home"));
  EXPECT_EQ(bytes(), 1 << 20);
  std::filesystem::resize_file(path_, (1 << 20) + 1);
  static_cast<void>(open_log("home"));
  EXPECT_EQ(bytes(), 0) << "it begins anew";
}

TEST_F(UrocedLog, ALinkInItsPlaceIsNotFollowed) {
  const std::string other = runtime_.path() / "other";
  std::ofstream(other) << "theirs";
  std::filesystem::create_symlink(other, path_);
  const UniqueFd log = open_log("home");
  ASSERT_TRUE(log);
  EXPECT_EQ(write(log.get(), "x", 1), 1);
  EXPECT_EQ(std::filesystem::file_size(other), 6u);
}

}  // namespace
}  // namespace uroce::daemon
