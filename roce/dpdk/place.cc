#include "dpdk/place.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace uroce {
namespace {

struct HeldPlace {
  Place place;
  int fd = -1;
};

std::mutex g_mutex;
std::map<std::string, HeldPlace>& held_places() {
  static auto* places = new std::map<std::string, HeldPlace>;  // locks last until the process ends
  return *places;
}

std::string read_holder(int fd) {
  char text[32] = {};
  const ssize_t n = pread(fd, text, sizeof text - 1, 0);
  std::string pid(text, n > 0 ? static_cast<size_t>(n) : 0);
  pid.resize(std::min(pid.find_first_of(" \n"), pid.size()));
  return pid.empty() ? "another process" : "process " + pid;
}

bool write_holder(int fd) {
  const std::string pid = std::to_string(getpid()) + "\n";
  return ftruncate(fd, 0) == 0 && pwrite(fd, pid.data(), pid.size(), 0) == static_cast<ssize_t>(pid.size());
}

/// A place of those that are called `stem`, with its number and its address. Nothing and no error: all are taken.
std::optional<HeldPlace> take_first_free(const std::string& stem, unsigned count, std::vector<std::string>& holders,
                                         std::string& error) {
  for (unsigned number = 0; number < count; number++) {
    const std::string path = stem + "place" + std::to_string(number);
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
      error = "cannot open " + path + ": " + std::strerror(errno);
      return std::nullopt;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      holders.push_back(read_holder(fd));
      close(fd);
      continue;
    }
    if (!write_holder(fd)) {
      error = "cannot write " + path + ": " + std::strerror(errno);
      close(fd);
      return std::nullopt;
    }
    HeldPlace held;
    held.fd = fd;
    held.place.number = number;
    // 198.18.0.0/15 is for benchmarks between hosts.
    held.place.address = {IpAddress::v4(0xc6120001u + number), 24, 0};
    return held;
  }
  return std::nullopt;
}

std::string sign_path(const std::string& dir, const std::string& name) { return dir + "/switch-" + name; }

/// What else belongs to a switch is called by its sign and an '@', which no name has: else the sign of a switch
/// "a.port0" might be a file of switch "a".
std::string switch_stem(const std::string& sign) { return sign + "@"; }

std::string port_socket_path(const std::string& sign, unsigned number) {
  return switch_stem(sign) + "port" + std::to_string(number) + ".sock";
}

struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

/// How many ports of shared memory the switch has that hung this sign; nothing when it does not run (any more).
std::optional<unsigned> ports_on_sign(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return std::nullopt;
  struct flock lock = whole_file(F_RDLCK);
  const bool runs = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  char text[64] = {};
  const ssize_t n = pread(fd, text, sizeof text - 1, 0);
  close(fd);
  int pid = 0;
  unsigned ports = 0;
  if (!runs || n <= 0 || std::sscanf(text, "%d %u", &pid, &ports) != 2) return std::nullopt;
  return std::min(ports, SwitchSign::kMaxPorts);
}

}  // namespace

std::string runtime_dir(std::string& error) {
  std::string dir;
  if (const char* own = std::getenv("UROCE_RUNTIME_DIR"); own != nullptr && *own != 0) {
    dir = own;
  } else if (geteuid() == 0) {
    dir = "/run/uroce";
  } else if (const char* xdg = std::getenv("XDG_RUNTIME_DIR"); xdg != nullptr && *xdg != 0) {
    dir = std::string(xdg) + "/uroce";
  } else {
    dir = "/tmp/uroce-" + std::to_string(geteuid());
  }
  if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) {
    error = "cannot create " + dir + ": " + std::strerror(errno) + "; name another place with UROCE_RUNTIME_DIR";
    return "";
  }
  struct stat st {};
  if (lstat(dir.c_str(), &st) != 0 || !S_ISDIR(st.st_mode) || (st.st_uid != geteuid() && geteuid() != 0)) {
    error = dir + " is not a directory of this user; name another place with UROCE_RUNTIME_DIR";
    return "";
  }
  return dir;
}

bool valid_wire_name(const std::string& name) {
  if (name.size() > 32) return false;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && std::strchr("-_.", c) == nullptr) return false;
  }
  return true;
}

MacAddress stable_mac(const std::string& text, uint8_t last_byte) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  hash ^= hash >> 29;  // the last characters have reached the low bits only
  hash *= 0xbf58476d1ce4e5b9u;
  MacAddress mac;
  mac.bytes[0] = 0x02;  // locally administered
  mac.bytes[1] = 0x75;  // away from numbers that analysers have names for
  for (unsigned i = 2; i < 5; i++) mac.bytes[i] = static_cast<uint8_t>(hash >> (24 + 8 * i));
  mac.bytes[5] = last_byte;
  return mac;
}

std::optional<Place> take_place(const std::string& wire, std::string& error, const char* another) {
  const std::lock_guard guard(g_mutex);
  auto& held = held_places();
  if (const auto it = held.find(wire); it != held.end()) return it->second.place;
  const std::string dir = runtime_dir(error);
  if (dir.empty()) return std::nullopt;

  const std::string stem = dir + "/wire" + (wire.empty() ? "" : "-" + wire);
  std::vector<std::string> holders;
  auto taken = take_first_free(stem + ".", 2, holders, error);
  if (!taken && error.empty()) {
    error = "both places of the shared memory wire" + (wire.empty() ? std::string() : " '" + wire + "'") +
            " are taken, by " + holders[0] + " and " + holders[1] +
            "; end one of them, or use another wire for your two programs with " + another;
  }
  if (!taken) return std::nullopt;
  Place& place = taken->place;
  place.wire = wire;
  place.socket_path = stem + ".sock";
  // The socket of an earlier holder stays behind when it ends without closing its port; nobody listens on it.
  if (place.number == 0) unlink(place.socket_path.c_str());
  place.mac = stable_mac("wire " + wire, static_cast<uint8_t>(place.number + 1));
  held[wire] = *taken;
  return place;
}

std::optional<Place> take_switch_place(const std::string& name, std::string& error) {
  const std::lock_guard guard(g_mutex);
  auto& held = held_places();
  const std::string key = "switch:" + name;  // no wire can be called that
  if (const auto it = held.find(key); it != held.end()) return it->second.place;
  const std::string dir = runtime_dir(error);
  if (dir.empty()) return std::nullopt;
  const std::string sign = sign_path(dir, name);
  const auto ports = ports_on_sign(sign);
  if (!ports) {
    error = "no switch '" + name + "' is running: start it first, uroce-switch --name " + name;
    return std::nullopt;
  }
  if (*ports == 0) {
    error = "the switch '" + name + "' has no ports of shared memory: start it with --ports";
    return std::nullopt;
  }
  std::vector<std::string> holders;
  auto taken = take_first_free(switch_stem(sign), *ports, holders, error);
  if (!taken && error.empty()) {
    error = "all " + std::to_string(*ports) + " ports of the switch '" + name + "' are taken, by";
    for (const std::string& holder : holders) error += (&holder == &holders[0] ? " " : ", ") + holder;
    error += "; end one of them, or start the switch with more --ports";
  }
  if (!taken) return std::nullopt;
  Place& place = taken->place;
  place.wire = name;
  place.socket_path = port_socket_path(sign, place.number);
  place.mac = stable_mac(key, static_cast<uint8_t>(place.number + 1));
  held[key] = *taken;
  return place;
}

std::vector<RunningSwitch> running_switches() {
  std::vector<RunningSwitch> found;
  std::string error;
  const std::string dir = runtime_dir(error);
  if (dir.empty()) return found;
  const std::string prefix = std::filesystem::path(sign_path(dir, "")).filename();
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(dir, code)) {
    const std::string file = entry.path().filename();
    if (file.rfind(prefix, 0) != 0) continue;
    // Its places and sockets are called alike, but carry no such lock.
    if (const auto ports = ports_on_sign(entry.path())) found.push_back({file.substr(prefix.size()), *ports});
  }
  std::sort(found.begin(), found.end(), [](const RunningSwitch& a, const RunningSwitch& b) { return a.name < b.name; });
  return found;
}

bool SwitchSign::hang(const std::string& name, unsigned ports, const std::string& note, std::string& error) {
  const std::string dir = runtime_dir(error);
  if (dir.empty()) return false;
  path_ = sign_path(dir, name);
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  struct flock lock = whole_file(F_WRLCK);
  if (fd_ < 0) {
    error = "cannot open " + path_ + ": " + std::strerror(errno);
    return false;
  }
  if (fcntl(fd_, F_OFD_SETLK, &lock) != 0) {
    error = "a switch '" + name + "' is running already (" + read_holder(fd_) + "): end it, or choose another --name";
    close(std::exchange(fd_, -1));
    return false;
  }
  const std::string text = std::to_string(getpid()) + "\n" + std::to_string(ports) + "\n" + note + "\n";
  if (ftruncate(fd_, 0) != 0 || pwrite(fd_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    error = "cannot write " + path_ + ": " + std::strerror(errno);
    close(std::exchange(fd_, -1));
    return false;
  }
  // A switch that was killed leaves its sockets behind; nobody listens on them.
  for (unsigned i = 0; i < ports; i++) unlink(socket_path(i).c_str());
  return true;
}

SwitchSign::~SwitchSign() {
  if (fd_ < 0) return;
  // Emptied, not removed: who has opened it meanwhile must not hang a sign that nobody sees.
  [[maybe_unused]] const int rc = ftruncate(fd_, 0);
  close(fd_);
}

std::string SwitchSign::socket_path(unsigned number) const { return port_socket_path(path_, number); }

void leave_places() {
  // No lock: also called in the child of a fork, where its holder may not exist.
  for (auto& [wire, place] : held_places()) close(place.fd);
  held_places().clear();
}

}  // namespace uroce
