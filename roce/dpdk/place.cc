#include "dpdk/place.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

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
  while (!pid.empty() && std::isspace(static_cast<unsigned char>(pid.back())) != 0) pid.pop_back();
  return pid.empty() ? "another process" : "process " + pid;
}

bool write_holder(int fd) {
  const std::string pid = std::to_string(getpid()) + "\n";
  return ftruncate(fd, 0) == 0 && pwrite(fd, pid.data(), pid.size(), 0) == static_cast<ssize_t>(pid.size());
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
  std::string holders[2];
  for (unsigned number = 0; number < 2; number++) {
    const std::string path = stem + ".place" + std::to_string(number);
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
      error = "cannot open " + path + ": " + std::strerror(errno);
      return std::nullopt;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      holders[number] = read_holder(fd);
      close(fd);
      continue;
    }
    if (!write_holder(fd)) {
      error = "cannot write " + path + ": " + std::strerror(errno);
      close(fd);
      return std::nullopt;
    }
    Place place;
    place.wire = wire;
    place.number = number;
    place.socket_path = stem + ".sock";
    // The socket of an earlier holder stays behind when it ends without closing its port; nobody listens on it.
    if (number == 0) unlink(place.socket_path.c_str());
    place.mac = stable_mac("wire " + wire, static_cast<uint8_t>(number + 1));
    place.address = {IpAddress::v4(0xc6120001u + number), 24, 0};  // 198.18.0.0/15 is for benchmarks between hosts
    held[wire] = {place, fd};
    return place;
  }
  error = "both places of the shared memory wire" + (wire.empty() ? std::string() : " '" + wire + "'") +
          " are taken, by " + holders[0] + " and " + holders[1] +
          "; end one of them, or use another wire for your two programs with " + another;
  return std::nullopt;
}

void leave_places() {
  // No lock: also called in the child of a fork, where its holder may not exist.
  for (auto& [wire, place] : held_places()) close(place.fd);
  held_places().clear();
}

}  // namespace uroce
