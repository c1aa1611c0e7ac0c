#include "base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

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

}  // namespace
