#include "host/wire_end.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/file_lock.h"
#include "base/files.h"
#include "base/immortal.h"
#include "host/text_file.h"

namespace uroce {
namespace {

struct HeldEnd {
  WireEnd end;
  int fd = -1;
  bool occupied = false;  // a port is open there
};

std::mutex g_mutex;  // held over a fork, so that a child finds no change half made
/// The ends that this process has, by wire or switch.
std::map<std::string, std::vector<HeldEnd>>& held_ends() {
  static Immortal<std::map<std::string, std::vector<HeldEnd>>> ends;  // the locks last as long
  return *ends;
}

void set_occupied(const WireEnd& end, bool occupied) {
  const std::lock_guard guard(g_mutex);
  for (HeldEnd& held : held_ends()[end.meeting]) {
    if (held.end.number == end.number) held.occupied = occupied;
  }
}

std::string read_holder(int fd) {
  char text[32] = {};
  const ssize_t n = pread(fd, text, sizeof text - 1, 0);
  std::string pid(text, n > 0 ? static_cast<size_t>(n) : 0);
  pid.resize(std::min(pid.find_first_not_of("0123456789"), pid.size()));  // the file may contain anything
  return pid.empty() ? "another process" : "process " + pid;
}

int write_holder(int fd) { return replace_text(fd, std::to_string(getpid()) + "\n"); }

std::string sign_path(const std::string& dir, const std::string& name) { return dir + "/switch-" + name; }

/// The other files of a switch are named after its sign, followed by an '@', which no name of a switch contains:
/// otherwise the sign of a switch "a.port0" could be taken for a file of switch "a".
std::string switch_stem(const std::string& sign) { return sign + "@"; }

std::string place_of_port(const std::string& sign, unsigned number) {
  return switch_stem(sign) + "port" + std::to_string(number);
}

/// How many ports of shared memory the switch with this sign has; nothing when it does not run (any more).
std::optional<unsigned> ports_on_sign(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return std::nullopt;
  const bool runs = is_locked(fd);
  char text[64] = {};
  const ssize_t n = pread(fd, text, sizeof text - 1, 0);
  close(fd);
  int pid = 0;
  unsigned ports = 0;
  if (!runs || n <= 0 || std::sscanf(text, "%d %u", &pid, &ports) != 2) return std::nullopt;
  return std::min(ports, SwitchSign::kMaxPorts);
}

/// A wire or a switch: something that has ends.
struct Meeting {
  std::string key;  // its key in held_ends()
  std::string name;
  std::string stem;  // the names of the ends' files begin with it
  std::string sign;  // only of a switch
  unsigned ends = 2;

  bool at_switch() const { return !sign.empty(); }
  std::string file_of(unsigned number) const { return stem + "end" + std::to_string(number); }

  WireEnd end(unsigned number) const {
    WireEnd found;
    found.meeting = key;
    found.wire = name;
    found.number = number;
    if (at_switch()) found.place = place_of_port(sign, number);
    found.mac = stable_mac(at_switch() ? key : "wire " + name, static_cast<uint8_t>(number + 1));
    // 198.18.0.0/15 is reserved for benchmarks.
    found.address = {IpAddress::v4(0xc6120001u + number), 24, 0};
    return found;
  }

  /// The error message when all ends are taken.
  std::string taken_by(const std::vector<std::string>& holders) const {
    std::string who;
    for (const std::string& holder : holders) {
      if (!who.empty()) who += &holder == &holders.back() ? " and " : ", ";
      who += holder;
    }
    if (at_switch()) {
      return "all " + std::to_string(ends) + " ports of the switch '" + name + "' are taken, by " + who +
             "; stop one of them, or start the switch with more --ports";
    }
    return "both ends of the shared memory wire '" + name + "' are taken, by " + who +
           "; stop one of them, or use another wire for your two programs with wire=shm:NAME, or join more than two: "
           "on a segment, --port shmlan for each program, or through a switch, uroce-switch and --port switch";
  }
};

/// A switch that was started again may have fewer ports than the ends that this process has kept.
const WireEnd* idle_end(const Meeting& meeting) {
  for (const HeldEnd& held : held_ends()[meeting.key]) {
    if (!held.occupied && held.end.number < meeting.ends) return &held.end;
  }
  return nullptr;
}

std::optional<Meeting> find_wire(const std::string& wire, std::string& error) {
  const std::string dir = runtime_dir(error);
  if (dir.empty()) return std::nullopt;
  return Meeting{wire, wire, dir + "/wire-" + wire + ".", "", 2};
}

std::string user_name(uid_t uid) {
  const passwd* user = getpwuid(uid);
  return user != nullptr ? user->pw_name : "number " + std::to_string(uid);
}

/// A note about switches that run where this user does not look: those of other users, or in other directories.
std::string switches_elsewhere(const std::string& dir) {
  for (const std::string& process : names_in("/proc")) {
    std::string program;
    std::ifstream("/proc/" + process + "/comm") >> program;
    struct stat st {};
    if (program != "uroce-switch" || stat(("/proc/" + process).c_str(), &st) != 0) continue;
    return "; process " + process + " of user " + user_name(st.st_uid) +
           " is a switch with another name, or in another directory than " + dir +
           ": a switch and its programs belong to one user and one directory (UROCE_RUNTIME_DIR)";
  }
  return "";
}

std::optional<Meeting> find_switch(const std::string& name, std::string& error) {
  const std::string dir = runtime_dir(error);
  if (dir.empty()) return std::nullopt;
  const std::string sign = sign_path(dir, name);
  const auto ports = ports_on_sign(sign);
  if (!ports) {
    error =
        "no switch '" + name + "' is running: start it first, uroce-switch --name " + name + switches_elsewhere(dir);
    return std::nullopt;
  }
  if (*ports == 0) {
    error = "the switch '" + name + "' has no ports of shared memory: start it with --ports";
    return std::nullopt;
  }
  return Meeting{"switch:" + name, name, switch_stem(sign), sign, *ports};  // no wire can have that key
}

int open_end_file(const std::string& path, int flags, std::string& error) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0 && errno != ENOENT) error = "cannot open " + path + ": " + std::strerror(errno);
  return fd;
}

std::optional<WireEnd> take_first_free(const Meeting& meeting, std::string& error) {
  std::vector<std::string> holders;
  for (unsigned number = 0; number < meeting.ends; number++) {
    const std::string path = meeting.file_of(number);
    const int fd = open_end_file(path, O_RDWR | O_CREAT, error);
    if (fd < 0) return std::nullopt;
    const int refused = lock_file(fd) ? 0 : errno;
    if (is_held_by_another(refused)) {
      holders.push_back(read_holder(fd));
      close(fd);
      continue;
    }
    if (const int code = refused != 0 ? refused : write_holder(fd)) {
      error = "cannot write " + path + ": " + std::strerror(code);
      close(fd);
      return std::nullopt;
    }
    const WireEnd end = meeting.end(number);
    held_ends()[meeting.key].push_back({end, fd});
    return end;
  }
  error = meeting.taken_by(holders);
  return std::nullopt;
}

std::optional<WireEnd> take(const std::optional<Meeting>& meeting, std::string& error) {
  if (!meeting) return std::nullopt;
  const std::lock_guard guard(g_mutex);
  if (const WireEnd* idle = idle_end(*meeting)) return *idle;
  return take_first_free(*meeting, error);
}

bool is_free(const std::string& path) {
  std::string ignored;
  const int fd = open_end_file(path, O_RDONLY, ignored);
  if (fd < 0) return true;  // no process has ever had this end
  struct flock lock = lock_range(F_RDLCK);
  const bool known = fcntl(fd, F_OFD_GETLK, &lock) == 0;
  close(fd);
  return known && lock.l_type == F_UNLCK;
}

std::optional<WireEnd> look_at(const std::optional<Meeting>& meeting) {
  if (!meeting) return std::nullopt;
  const std::lock_guard guard(g_mutex);
  if (const WireEnd* idle = idle_end(*meeting)) return *idle;
  unsigned number = 0;
  while (number < meeting->ends && !is_free(meeting->file_of(number))) number++;
  return meeting->end(number);
}

}  // namespace

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
  hash ^= hash >> 29;  // so far the last characters have changed only the low bits
  hash *= 0xbf58476d1ce4e5b9u;
  MacAddress mac;
  mac.bytes[0] = 0x02;  // locally administered
  mac.bytes[1] = 0x75;  // not a prefix to which analysers give a name
  for (unsigned i = 2; i < 5; i++) mac.bytes[i] = static_cast<uint8_t>(hash >> (24 + 8 * i));
  mac.bytes[5] = last_byte;
  return mac;
}

std::optional<WireEnd> take_wire_end(const std::string& wire, std::string& error) {
  return take(find_wire(wire, error), error);
}

std::optional<WireEnd> take_switch_port(const std::string& name, std::string& error) {
  return take(find_switch(name, error), error);
}

std::optional<WireEnd> look_at_wire_end(const std::string& wire, std::string& error) {
  return look_at(find_wire(wire, error));
}

std::optional<WireEnd> look_at_switch_port(const std::string& name, std::string& error) {
  return look_at(find_switch(name, error));
}

std::vector<RunningSwitch> running_switches() {
  std::vector<RunningSwitch> found;
  std::string error;
  const std::string dir = runtime_dir(error);
  if (dir.empty()) return found;
  const std::string prefix = std::filesystem::path(sign_path(dir, "")).filename();
  for (const std::string& file : names_in(dir)) {
    if (file.rfind(prefix, 0) != 0) continue;
    // The directories of a switch's ports and the files of their ends have similar names, but are no such locked text.
    if (const auto ports = ports_on_sign(dir + "/" + file)) found.push_back({file.substr(prefix.size()), *ports});
  }
  std::sort(found.begin(), found.end(), [](const RunningSwitch& a, const RunningSwitch& b) { return a.name < b.name; });
  return found;
}

bool SwitchSign::put_up(const std::string& name, unsigned ports, const std::string& note, std::string& error) {
  const std::string dir = runtime_dir(error);
  if (dir.empty()) return false;
  path_ = sign_path(dir, name);
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd_ < 0) {
    error = "cannot open " + path_ + ": " + std::strerror(errno);
    return false;
  }
  if (!lock_file(fd_)) {
    error = is_held_by_another(errno) ? "a switch '" + name + "' is running already (" + read_holder(fd_) +
                                            "): end it, or choose another --name"
                                      : "cannot lock " + path_ + ": " + std::strerror(errno);
    close(std::exchange(fd_, -1));
    return false;
  }
  const std::string text = std::to_string(getpid()) + "\n" + std::to_string(ports) + "\n" + note + "\n";
  if (const int code = replace_text(fd_, text)) {
    error = "cannot write " + path_ + ": " + std::strerror(code);
    close(std::exchange(fd_, -1));
    return false;
  }
  return true;
}

SwitchSign::~SwitchSign() {
  if (fd_ < 0) return;
  // Emptied but not removed: another process may have opened the file in the meantime, and its sign would not be
  // visible.
  [[maybe_unused]] const int rc = ftruncate(fd_, 0);
  close(fd_);
}

std::string SwitchSign::port_place(unsigned number) const { return place_of_port(path_, number); }

void occupy_wire_end(const WireEnd& end) { set_occupied(end, true); }

void vacate_wire_end(const WireEnd& end) { set_occupied(end, false); }

void lock_wire_ends() { g_mutex.lock(); }

void unlock_wire_ends() { g_mutex.unlock(); }

void leave_wire_ends() {
  const std::lock_guard guard(g_mutex);
  for (auto& [meeting, ends] : held_ends()) {
    for (const HeldEnd& held : ends) close(held.fd);
  }
  held_ends().clear();
}

}  // namespace uroce
