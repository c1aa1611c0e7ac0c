// Where wires have their files: only where no other user can put something in their place.
#include "pmd/card/wires/runtime_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace mqnic::card {
namespace {

constexpr uid_t kSomebody = 12345;

class RuntimeDirectoryTest : public testing::Test {
 protected:
  RuntimeDirectoryTest() {
    if (const char* before = std::getenv("UROCE_RUNTIME_DIR")) before_ = before;
    char name[] = "/tmp/uroce-runtime-XXXXXX";
    directory_ = mkdtemp(name);
    setenv("UROCE_RUNTIME_DIR", directory_.c_str(), 1);
  }
  ~RuntimeDirectoryTest() override {
    before_.empty() ? unsetenv("UROCE_RUNTIME_DIR") : setenv("UROCE_RUNTIME_DIR", before_.c_str(), 1);
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  static bool taken() {
    std::string error;
    const bool good = !runtime_directory(error).empty();
    EXPECT_EQ(good, error.empty());
    return good;
  }
  std::string before_, directory_;
};

TEST_F(RuntimeDirectoryTest, OnesOwn) { EXPECT_TRUE(taken()); }

TEST_F(RuntimeDirectoryTest, NotWhenOthersMayWriteToIt) {
  for (const mode_t mode : {0770u, 0707u, 01777u}) {
    ASSERT_EQ(chmod(directory_.c_str(), mode), 0);
    EXPECT_FALSE(taken()) << std::oct << mode;
  }
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  EXPECT_TRUE(taken());
}

TEST_F(RuntimeDirectoryTest, NotALink) {
  const std::string link = directory_ + "-link";
  ASSERT_EQ(symlink(directory_.c_str(), link.c_str()), 0);
  setenv("UROCE_RUNTIME_DIR", link.c_str(), 1);
  EXPECT_FALSE(taken());
  unlink(link.c_str());
}

TEST_F(RuntimeDirectoryTest, AnothersForNobodyNotEvenRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "takes root, to be somebody else";
  ASSERT_EQ(chown(directory_.c_str(), kSomebody, kSomebody), 0);
  EXPECT_FALSE(taken());
  ASSERT_EQ(seteuid(kSomebody), 0);
  const bool own = taken();
  EXPECT_EQ(seteuid(0), 0);
  EXPECT_TRUE(own);
  ASSERT_EQ(chown(directory_.c_str(), 0, 0), 0);
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  ASSERT_EQ(seteuid(kSomebody), 0);
  const bool others = taken();
  EXPECT_EQ(seteuid(0), 0);
  EXPECT_FALSE(others);
}

}  // namespace
}  // namespace mqnic::card
