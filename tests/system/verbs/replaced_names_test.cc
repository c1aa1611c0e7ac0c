// What a program does in a directory where others may put links in the place of its names: before one call after the
// other that goes by a name, each name in there becomes a link to a file that belongs to somebody else. Whether the
// program works then or is refused, that file stays as it was.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "refused_calls.h"
#include "sweep.h"

using namespace verbs_test;
namespace fs = std::filesystem;

namespace {

constexpr char kSecret[] = "nobody else's\n";
constexpr long kFewest = 250;  // about half of the calls of today; where it is hardly one, nothing was looked at

// Beside the directory where programs meet.
std::string meeting_place() { return std::getenv("UROCE_RUNTIME_DIR"); }
std::string secret() { return meeting_place() + ".secret"; }

/// What is in the directory and below, without the directories.
std::vector<fs::path> names() {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(meeting_place(), ignored)) {
    if (entry.is_symlink(ignored) || !entry.is_directory(ignored)) found.push_back(entry.path());
  }
  return found;
}

void replace_by_links() {
  std::error_code ignored;
  for (const fs::path& name : names()) {
    fs::remove(name, ignored);
    fs::create_symlink(secret(), name, ignored);
  }
}

/// How a process ended that lived.
enum Ending { kInPeace, kTroubled, kFailed };

/// Opens the device, is reachable for others, and ends, as far as that goes. Then it exits; without trouble in peace.
[[noreturn]] void live(long n) {
  RefusedCalls calls(RefusedCalls::kNames);
  calls.begin(n, Trouble::kOnce);
  ibv_device* const device = the_device();
  ibv_context* const context = device != nullptr ? ibv_open_device(device) : nullptr;
  bool listens = false;
  if (context != nullptr) {
    rdma_event_channel* const channel = rdma_create_event_channel();
    rdma_cm_id* id = nullptr;
    sockaddr_in any{};
    any.sin_family = AF_INET;
    listens = channel != nullptr && rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0 &&
              rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&any)) == 0 && rdma_listen(id, 1) == 0;
    if (id != nullptr) rdma_destroy_id(id);
    if (channel != nullptr) rdma_destroy_event_channel(channel);
    ibv_close_device(context);
  }
  std::exit(calls.failed() ? kTroubled : listens ? kInPeace : kFailed);
}

bool is_untouched(const struct stat& before) {
  struct stat now {};
  std::ifstream file(secret());
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return stat(secret().c_str(), &now) == 0 && text == kSecret && now.st_mode == before.st_mode &&
         now.st_uid == before.st_uid && now.st_gid == before.st_gid && now.st_nlink == before.st_nlink &&
         now.st_ino == before.st_ino && now.st_mtim.tv_sec == before.st_mtim.tv_sec &&
         now.st_mtim.tv_nsec == before.st_mtim.tv_nsec;
}

/// `NUMBER`: only so many calls, the first ones.
int program(int argc, char** argv) {
  const long most = argc > 1 ? std::atol(argv[1]) : LONG_MAX;
  struct stat before {};
  std::ofstream(secret()) << kSecret;
  if (chmod(secret().c_str(), 0604) != 0 || stat(secret().c_str(), &before) != 0) return 1;
  bool good = true;
  long n = 1;
  for (int ending = kTroubled; ending == kTroubled && good && n <= most; n++) {
    const pid_t child = fork();
    if (child == 0) live(n);
    int status = -1;
    waitpid(child, &status, 0);
    good = WIFEXITED(status) && is_untouched(before);
    if (!good)
      std::fprintf(stderr, "links before call %ld: %s\n", n,
                   WIFEXITED(status) ? "the file was changed" : "the program died");
    ending = WEXITSTATUS(status);
    if (ending == kFailed) std::fprintf(stderr, "without any link the program fails\n");
    good = good && ending != kFailed;
    std::error_code ignored;
    fs::remove_all(meeting_place(), ignored);
  }
  const long looked_at = n - 1, fewest = std::min(kFewest, most);
  std::printf("%ld calls\n", looked_at);
  if (looked_at < fewest) std::fprintf(stderr, "fewer than %ld calls go by a name\n", fewest);
  unlink(secret().c_str());
  return good && looked_at >= fewest ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return run_supervised(program, argc, argv, {meeting_place(), replace_by_links}); }
