// After every test of a unit program that opens no endpoint (which stays for as long as the process): checks that the
// test has given back what it took from the system. There are no more descriptors, and no more memory that is shared
// with other processes, than before its fixture was made; no child process waits for its parent; and the working
// directory is the same. Otherwise the test has failed, whatever it checked itself. What a whole suite shares is made
// in SetUpTestSuite.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace {

std::vector<int> open_descriptors() {
  std::vector<int> all;
  DIR* const dir = opendir("/proc/self/fd");
  if (dir == nullptr) return all;
  while (const dirent* entry = readdir(dir)) {
    if (entry->d_name[0] == '.') continue;
    const int fd = std::atoi(entry->d_name);
    if (fd != dirfd(dir)) all.push_back(fd);
  }
  closedir(dir);
  std::sort(all.begin(), all.end());
  return all;
}

/// The files of descriptors in `after` that are not in `before`.
std::string new_ones(const std::vector<int>& before, const std::vector<int>& after) {
  std::string text;
  for (const int fd : after) {
    if (std::binary_search(before.begin(), before.end(), fd)) continue;
    char target[PATH_MAX] = {};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t bytes = readlink(link.c_str(), target, sizeof target - 1);
    text += " " + std::to_string(fd) + " -> " + (bytes > 0 ? target : "?");
  }
  return text;
}

/// One line for each shared mapping. The kernel may join and split private ones, but not shared ones.
std::vector<std::string> shared_mappings() {
  std::vector<std::string> all;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t rights = line.find(' ') + 1;
    if (line.size() > rights + 3 && line[rights + 3] == 's') all.push_back(line);
  }
  return all;
}

bool has_children() {
  siginfo_t info;
  return waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

std::string standing_place() {
  char path[PATH_MAX] = {};
  return getcwd(path, sizeof path) == nullptr ? "" : path;
}

class LeftOver final : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& /*test*/) override {
    place_ = standing_place();
    children_ = has_children();
    mappings_ = shared_mappings();
    descriptors_ = open_descriptors();
  }
  void OnTestEnd(const testing::TestInfo& /*test*/) override {
    const std::vector<int> left = open_descriptors();
    EXPECT_LE(left.size(), descriptors_.size()) << "descriptors that were not closed:" << new_ones(descriptors_, left);
    const std::vector<std::string> mapped = shared_mappings();
    EXPECT_LE(mapped.size(), mappings_.size()) << "memory that is still mapped, the last: " << mapped.back();
    EXPECT_TRUE(children_ || !has_children()) << "a child that nobody waited for";
    EXPECT_EQ(standing_place(), place_);
  }

  std::vector<int> descriptors_;
  std::vector<std::string> mappings_;
  std::string place_;
  bool children_ = false;
};

/// Appended behind the printer. GoogleTest owns and deletes it.
[[maybe_unused]] const bool kListens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(std::make_unique<LeftOver>().release());
  return true;
}();

}  // namespace
