// What the shim calls where the C library is too old for a function: the same answers as the library's own.
#undef _FILE_OFFSET_BITS
#include "newer_libraries.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace uroce::verbs {
namespace {

template <typename Function>
Function find(const char* name) {
  return reinterpret_cast<Function>(call_of_newer_libraries(name));
}

struct Identity {
  dev_t device;
  ino_t inode;
  mode_t mode;
  bool operator==(const Identity&) const = default;
};
Identity identity(const struct stat& info) { return {info.st_dev, info.st_ino, info.st_mode}; }

TEST(NewerLibrariesTest, StatusOfPathsLinksAndDescriptors) {
  constexpr const char* kLink = "/proc/self/exe";
  using OfPath = int (*)(const char*, struct stat*);
  struct stat real {};
  struct stat found {};
  ASSERT_EQ(::stat(kLink, &real), 0);
  for (const char* name : {"stat", "stat64"}) {
    ASSERT_EQ(find<OfPath>(name)(kLink, &found), 0) << name;
    EXPECT_EQ(identity(found), identity(real)) << name;
    EXPECT_EQ(found.st_size, real.st_size);
  }
  ASSERT_EQ(::lstat(kLink, &real), 0);
  for (const char* name : {"lstat", "lstat64"}) {
    ASSERT_EQ(find<OfPath>(name)(kLink, &found), 0) << name;
    EXPECT_TRUE(S_ISLNK(found.st_mode)) << name;
  }
  for (const char* name : {"fstatat", "fstatat64"}) {
    const auto at = find<int (*)(int, const char*, struct stat*, int)>(name);
    ASSERT_EQ(at(AT_FDCWD, "/", &found, 0), 0) << name;
    ASSERT_EQ(::stat("/", &real), 0);
    EXPECT_EQ(identity(found), identity(real)) << name;
    EXPECT_EQ(at(AT_FDCWD, "/no such file", &found, 0), -1) << name;
    EXPECT_EQ(errno, ENOENT) << name;
  }
  for (const char* name : {"fstat", "fstat64"}) {
    ASSERT_EQ(::fstat(0, &real), 0);
    ASSERT_EQ(find<int (*)(int, struct stat*)>(name)(0, &found), 0) << name;
    EXPECT_EQ(identity(found), identity(real)) << name;
  }
}

TEST(NewerLibrariesTest, DescriptorsAreClosed) {
  const int first = dup(0);
  ASSERT_EQ(dup(0), first + 1);
  const auto range = find<int (*)(unsigned, unsigned, int)>("close_range");
  ASSERT_EQ(range(static_cast<unsigned>(first), static_cast<unsigned>(first), 0), 0);
  EXPECT_EQ(fcntl(first, F_GETFD), -1);
  EXPECT_NE(fcntl(first + 1, F_GETFD), -1);
  find<void (*)(int)>("closefrom")(first);
  EXPECT_EQ(fcntl(first + 1, F_GETFD), -1);
  EXPECT_NE(fcntl(0, F_GETFD), -1);
}

TEST(NewerLibrariesTest, NothingElseIsKnown) { EXPECT_EQ(call_of_newer_libraries("read"), nullptr); }

}  // namespace
}  // namespace uroce::verbs
