#include "dpdk/telemetry_socket.h"

#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <forward_list>
#include <iterator>
#include <utility>
#include <vector>

#include <rte_log.h>
#include <rte_version.h>

#include "base/files.h"
#include "base/immortal.h"
#include "base/unique_fd.h"
#include "dpdk/log.h"
#include "host/reachable_directory.h"

// DPDK exports it to its own libraries only; EAL calls it when it starts.
extern "C" int rte_telemetry_init(const char* runtime_dir, const char* rte_version, cpu_set_t* cpuset,
                                  int (*log)(uint32_t level, uint32_t type, const char* format, ...),
                                  uint32_t log_type);

namespace uroce {
namespace {

/// The present place of the socket, and earlier ones. DPDK keeps a pointer to the path, and a thread that ends, or a
/// fork's parent, may still read an earlier one; by the present one DPDK removes the socket when the process ends, and
/// when the child of a fork ends. So the path goes through a descriptor, which the child closes.
struct Places {
  std::forward_list<ReachableDirectory> all;  // the latest first
  const ReachableDirectory* now = nullptr;
  bool latest_failed = false;  // nothing listens there, but DPDK has the pointer
};

Places& places() {
  static Immortal<Places> immortal;
  return *immortal;
}

/// That DPDK's thread ends because its socket was replaced is not worth a line.
int log_of_telemetry(uint32_t level, uint32_t type, const char* format, ...) {
  if (std::strstr(format, "telemetry thread quitting") != nullptr) return 0;
  va_list args;
  va_start(args, format);
  const int rc = rte_vlog(level, type, format, args);
  va_end(args);
  return rc;
}

/// Sockets of this process that are bound there.
std::vector<int> listening_at(const std::string& path) {
  std::vector<int> found;
  for (const std::string& name : names_in("/proc/self/fd")) {
    const int fd = std::atoi(name.c_str());
    int listens = 0;
    socklen_t bytes = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 || listens == 0) continue;
    sockaddr_un at{};
    bytes = sizeof at - 1;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&at), &bytes) != 0 || at.sun_family != AF_UNIX) continue;
    if (path == at.sun_path) found.push_back(fd);
  }
  return found;
}

/// Clears the place for a socket, and tells whether one can be had there. The directory is this process's, as its note
/// is, so what is in the way was left behind; DPDK would take another name beside a socket that still listens.
bool can_listen(const std::string& path) {
  const UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (!fd || path.size() >= sizeof at.sun_path) return false;
  path.copy(at.sun_path, path.size());
  unlink(path.c_str());
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) return false;
  unlink(path.c_str());
  return true;
}

/// A thread like DPDK's, which takes no signals of the program's.
bool can_have_thread() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const bool can = pthread_create(
                       &thread, nullptr, [](void*) -> void* { return nullptr; }, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (can) pthread_join(thread, nullptr);
  return can;
}

}  // namespace

bool start_telemetry(const std::string& directory) {
  std::error_code code;
  std::filesystem::create_directories(directory, code);
  if (code) return false;
  std::forward_list<ReachableDirectory>& all = places().all;
  const ReachableDirectory& reachable =
      all.emplace_front(directory, std::strlen(kTelemetryName), ReachableDirectory::Keep::kIfThereIsOne);
  // DPDK registers commands of its own each time that it begins, and forgets none when it fails: so it begins only
  // where it can have what it needs.
  if (!can_listen(reachable.path() + "/" + kTelemetryName) || !can_have_thread()) {
    all.pop_front();
    return false;
  }
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  const QuietDpdk quiet;
  const bool started =
      rte_telemetry_init(reachable.path().c_str(), rte_version(), &allowed, log_of_telemetry, RTE_LOGTYPE_EAL) == 0;
  if (std::exchange(places().latest_failed, !started)) all.erase_after(all.begin());
  if (!started) return false;
  places().now = &reachable;
  for (auto earlier = std::next(all.begin()); earlier != all.end(); ++earlier) earlier->leave();
  return true;
}

bool start_telemetry_again(const std::string& before, const std::string& directory) {
  const std::vector<int> old = listening_at(before);
  if (!start_telemetry(directory)) return false;
  // A thread that waits for connections there is woken, and ends.
  for (const int fd : old) {
    shutdown(fd, SHUT_RDWR);
    close(fd);
  }
  return true;
}

void leave_telemetry() {
  for (ReachableDirectory& place : places().all) place.leave();
  places().now = nullptr;
}

std::string telemetry_path() {
  const ReachableDirectory* const now = places().now;
  return now != nullptr ? now->path() + "/" + kTelemetryName : "";
}

}  // namespace uroce
