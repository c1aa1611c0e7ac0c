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

#include <cstdio>
#include <cstdlib>
#include <cstring>
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
constexpr long kFewest = 480;  // about half of the calls of today; where it is hardly one, nothing was looked at

// Beside the directory where programs meet.
std::string meeting_place() {
  const char* const named = std::getenv("UROCE_RUNTIME_DIR");
  return named != nullptr ? named : "";
}
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

bool takes_event(rdma_event_channel* channel, rdma_cm_event_type type) {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel, &event) != 0) return false;
  const bool good = event->event == type;
  rdma_ack_cm_event(event);
  return good;
}

/// Listens, and asks the neighbour for a connection, of which nothing comes.
bool talks(rdma_event_channel* channel, const sockaddr_in& neighbour) {
  rdma_cm_id *listener = nullptr, *id = nullptr;
  sockaddr_in any{}, to = neighbour;
  any.sin_family = AF_INET;
  rdma_conn_param param{};
  param.qp_num = 0x1000;
  const bool good = rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP) == 0 &&
                    rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&any)) == 0 && rdma_listen(listener, 1) == 0 &&
                    rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0 &&
                    rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 2000) == 0 &&
                    takes_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED) && rdma_resolve_route(id, 2000) == 0 &&
                    takes_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED) && rdma_connect(id, &param) == 0;
  if (id != nullptr) rdma_destroy_id(id);
  if (listener != nullptr) rdma_destroy_id(listener);
  return good;
}

/// Opens the device, is reachable for others and writes to one, as far as that goes. Whether it went to the end.
bool live(const sockaddr_in& neighbour) {
  ibv_device* const device = the_device();
  ibv_context* const context = device != nullptr ? ibv_open_device(device) : nullptr;
  if (context == nullptr) return false;
  rdma_event_channel* const channel = rdma_create_event_channel();
  const bool good = channel != nullptr && talks(channel, neighbour);
  if (channel != nullptr) rdma_destroy_event_channel(channel);
  ibv_close_device(context);
  return good;
}

/// The IPv4 address of this process's device.
bool own_address(sockaddr_in& address) {
  ibv_device* const device = the_device();
  ibv_context* const context = device != nullptr ? ibv_open_device(device) : nullptr;
  ibv_gid gid{};
  constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  address = {};
  address.sin_family = AF_INET;
  for (int i = 0; context != nullptr && ibv_query_gid(context, 1, i, &gid) == 0; i++) {
    if (std::memcmp(gid.raw, kMapped, sizeof kMapped) != 0) continue;
    std::memcpy(&address.sin_addr, gid.raw + sizeof kMapped, sizeof address.sin_addr);
    return true;
  }
  return false;
}

/// Another member, who is there until the end of the object.
class Neighbour {
 public:
  Neighbour() {
    int ready[2], end[2];
    if (pipe(ready) != 0 || pipe(end) != 0) std::abort();
    process_ = fork();
    char byte = 0;
    if (process_ == 0) {
      close(end[1]);
      const bool good = own_address(address_) && write(ready[1], &address_, sizeof address_) == sizeof address_;
      _exit(good && read(end[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(ready[1]);
    close(end[0]);
    end_ = end[1];
    good_ = read(ready[0], &address_, sizeof address_) == sizeof address_;
    close(ready[0]);
  }
  ~Neighbour() {
    close(end_);
    waitpid(process_, nullptr, 0);
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;
  const sockaddr_in& address() const { return address_; }
  bool good() const { return good_; }

 private:
  pid_t process_ = -1;
  int end_ = -1;
  sockaddr_in address_{};
  bool good_ = false;
};

bool is_untouched(const struct stat& before) {
  struct stat now {};
  std::ifstream file(secret());
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return stat(secret().c_str(), &now) == 0 && text == kSecret && now.st_mode == before.st_mode &&
         now.st_uid == before.st_uid && now.st_gid == before.st_gid && now.st_nlink == before.st_nlink &&
         now.st_ino == before.st_ino && now.st_mtim.tv_sec == before.st_mtim.tv_sec &&
         now.st_mtim.tv_nsec == before.st_mtim.tv_nsec;
}

/// What was looked at so far.
struct Seen {
  long calls = 0;
  bool joins = false;   // the socket of a member is bound
  bool writes = false;  // a letter to another member
};

bool is_of_letters(char** argv) { return std::strcmp(argv[1], "letters") == 0; }

/// A life, from its first call to its last, in which there are links before the n-th call. False: something is wrong;
/// `more`: there were so many calls.
bool live_with_links(long n, const struct stat& before, Seen& seen, bool& more) {
  const Neighbour neighbour;
  RefusedCalls calls(RefusedCalls::kNames);
  const pid_t child = fork();
  if (child == 0) {
    calls.begin(n, Trouble::kOnce);
    std::exit(live(neighbour.address()) ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  calls.end();
  more = calls.failed();
  const std::string what = calls.what();
  if (more) std::printf("%ld %s\n", n, what.c_str());
  std::fflush(stdout);  // before the next fork
  const bool of_a_member = what.find("/s-") != std::string::npos || what.find(" s-") != std::string::npos;
  if (more) seen.calls++;
  if (more && of_a_member && what.compare(0, 5, "bind ") == 0) seen.joins = true;
  if (more && of_a_member && what.compare(0, 8, "sendmsg ") == 0) seen.writes = true;
  const char* const wrong = !neighbour.good()       ? "no neighbour"
                            : !WIFEXITED(status)    ? "the program died"
                            : !is_untouched(before) ? "the file was changed"
                            : !more && status != 0  ? "without any link the program fails"
                                                    : nullptr;
  if (wrong != nullptr) std::fprintf(stderr, "links before call %ld (%s): %s\n", n, what.c_str(), wrong);
  std::error_code ignored;
  fs::remove_all(meeting_place(), ignored);
  return wrong == nullptr;
}

/// `joined`: the first calls, until the program has joined the others. `letters`: those that write to others. `PART
/// PARTS`: of all calls those whose number leaves this remainder.
int program(int argc, char** argv) {
  const long part = argc > 2 ? std::atol(argv[1]) : 1, parts = argc > 2 ? std::atol(argv[2]) : 1;
  const bool until_joined = argc == 2 && !is_of_letters(argv);
  struct stat before {};
  std::ofstream(secret()) << kSecret;
  if (chmod(secret().c_str(), 0604) != 0 || stat(secret().c_str(), &before) != 0) return 1;
  Seen seen;
  bool good = true, more = true;
  for (long n = part == 0 ? parts : part; good && more && !(until_joined && seen.joins); n += parts)
    good = live_with_links(n, before, seen, more);
  unlink(secret().c_str());
  const bool enough = until_joined ? seen.joins : argc == 2 ? seen.writes : seen.calls >= kFewest / parts;
  if (!enough) std::fprintf(stderr, "only %ld calls, and not those that matter\n", seen.calls);
  return good && enough ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  return run_supervised(program, argc, argv, {meeting_place(), replace_by_links, argc == 2 && is_of_letters(argv)});
}
