#include "base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>

#include "base/unique_fd.h"

namespace {

using namespace uroce;

bool is_there(const std::string& path) {
  struct stat st {};
  return lstat(path.c_str(), &st) == 0;
}

TEST(Files, NamesAndTrees) {
  std::string root = testing::TempDir() + "files-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  const std::string outside = root + "-outside";
  ASSERT_EQ(mkdir(outside.c_str(), 0700), 0);
  std::ofstream(outside + "/stays") << "here";
  for (const char* name : {"/tree", "/tree/a", "/tree/a/b", "/tree/..c"}) {
    ASSERT_EQ(mkdir((root + name).c_str(), 0700), 0);
  }
  std::ofstream(root + "/tree/a/b/file") << "goes";
  ASSERT_EQ(symlink(outside.c_str(), (root + "/tree/a/link").c_str()), 0);

  std::vector<std::string> names = names_in(root + "/tree");
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"..c", "a"}));
  EXPECT_TRUE(names_in(root + "/nowhere").empty());
  EXPECT_TRUE(names_in(outside + "/stays").empty());

  remove_tree(root + "/tree");
  EXPECT_FALSE(is_there(root + "/tree"));
  EXPECT_TRUE(is_there(outside + "/stays"));  // the link is removed, not what it points to
  remove_tree(outside + "/stays");
  EXPECT_FALSE(is_there(outside + "/stays"));
  remove_tree(root + "/nowhere");
  rmdir(outside.c_str());
  EXPECT_EQ(rmdir(root.c_str()), 0);
}

/// A program may have closed its standard input, and then the next descriptor is 0.
TEST(FilesDeathTest, DescriptorZeroIsADescriptor) {
  std::string root = testing::TempDir() + "files-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  ASSERT_EQ(mkdir((root + "/tree").c_str(), 0700), 0);
  std::ofstream(root + "/tree/file") << "goes";
  const auto without_input = [&] {
    close(0);
    remove_tree(root + "/tree");
    const bool nothing_left_open = fcntl(0, F_GETFD) < 0;
    _exit(nothing_left_open ? 0 : 1);
  };
  EXPECT_EXIT(without_input(), testing::ExitedWithCode(0), "");
  EXPECT_EQ(rmdir(root.c_str()), 0);
}

/// What does not fit is told with the kernel's reason, and all that was written is where it belongs.
TEST(Files, WritesAllOrSaysWhy) {
  std::string name = testing::TempDir() + "files-XXXXXX";
  UniqueFd file(mkstemp(name.data()));
  ASSERT_TRUE(file);
  EXPECT_EQ(write_all(file.get(), "0123456789", 0), 0);
  EXPECT_EQ(write_all(file.get(), "abc", 4), 0);
  EXPECT_EQ(write_all(file.get(), "", 100), 0);
  char read[16] = {};
  EXPECT_EQ(pread(file.get(), read, sizeof read, 0), 10);
  EXPECT_STREQ(read, "0123abc789");

  const auto only_so_long = [&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{12, 12};
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(write_all(file.get(), "vwxyz", 9));  // three of them fit
  };
  EXPECT_EXIT(only_so_long(), testing::ExitedWithCode(EFBIG), "");
  EXPECT_EQ(pread(file.get(), read, sizeof read, 0), 12);
  EXPECT_STREQ(read, "0123abc78vwx");
  const UniqueFd unwritable(open(name.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(write_all(unwritable.get(), "x", 0), EBADF);
  unlink(name.c_str());
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Files, AreReplacedWholeOrNotAtAll) {
  std::string root = testing::TempDir() + "files-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  const std::string file = root + "/file";
  const std::string beside = root + "/beside";
  EXPECT_EQ(replace_file(file, beside, "first"), 0);
  EXPECT_EQ(text_of(file), "first");
  EXPECT_FALSE(is_there(beside));
  // Nothing longer than two bytes can be written.
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const struct rlimit two { 2, before.rlim_max };
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &two), 0);
  const int refused = replace_file(file, beside, "second");
  const int refused_new = replace_file(root + "/new", beside, "new");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(refused, EFBIG);
  EXPECT_EQ(refused_new, EFBIG);
  EXPECT_EQ(text_of(file), "first");
  EXPECT_FALSE(is_there(root + "/new"));
  EXPECT_FALSE(is_there(beside));
  EXPECT_EQ(replace_file(root + "/nowhere/file", beside, "new"), ENOENT);
  EXPECT_FALSE(is_there(beside));
  EXPECT_EQ(replace_file(file, root + "/nowhere/beside", "new"), ENOENT);
  remove_tree(root);
}

}  // namespace
