#include "host/way_out.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/files.h"
#include "base/no_cancel.h"
#include "base/printable.h"
#include "base/unique_fd.h"
#include "host/detached_process.h"
#include "host/port_spec.h"
#include "host/runtime_dir.h"
#include "host/segment_plan.h"
#include "host/way_out_note.h"
#include "segment/directory.h"
#include "segment/host_identity.h"

namespace uroce {
namespace {

constexpr Duration kLockPatience = milliseconds(40'000);
constexpr Duration kNotePatience = milliseconds(1000);
constexpr auto kStartPatience = std::chrono::seconds(30);  // of a busy machine
constexpr size_t kSaidMost = 16384;
constexpr const char* kReady = "uroced is ready\n";

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

/// The shared library that this function is in, or the program, if it is in there. Whatever else a program has in its
/// folder does not count.
std::string own_file() {
  Dl_info own{};
  Dl_info program{};
  const auto entry = static_cast<uintptr_t>(getauxval(AT_ENTRY));
  const bool known = dladdr(reinterpret_cast<const void*>(&own_file), &own) != 0 &&
                     dladdr(reinterpret_cast<const void*>(entry), &program) != 0;
  std::array<char, PATH_MAX> path{};
  if (known && own.dli_fbase != program.dli_fbase) {
    // A library may be loaded through a link to it, as the launcher does where the path has a space in it.
    return own.dli_fname[0] == '/' && realpath(own.dli_fname, path.data()) != nullptr ? path.data() : "";
  }
  return readlink("/proc/self/exe", path.data(), path.size() - 1) > 0 ? path.data() : "";
}

/// "": none is installed beside `own_file`.
std::string find_uroced() {
  const std::string own = own_file();
  if (own.empty() || getauxval(AT_SECURE) != 0) return "";
  for (const char* const way :
       {"/uroced", "/../apps/uroced", "/../bin/uroced", "/../../bin/uroced", "/../../apps/uroced"}) {
    std::string path = folder_of(own) + way;
    if (is_trusted_program(path)) return path;
  }
  return "";
}

/// False, with one line in `error`, when the segment cannot be looked at.
bool look_for_uplink(const EndpointConfig& config, const std::string& host, const std::string& place, bool& found,
                     std::string& error) {
  segment::Directory directory;
  if (!directory.open(place, error)) return false;
  if (!directory.scan()) {
    error = "who is in " + place + " cannot be read: " + std::strerror(errno);
    return false;
  }
  found = has_way_out(directory, config, host);
  return true;
}

/// What it says until it is ready, has ended, or the time is over.
std::string listen(int fd, bool& in_time) {
  std::string said;
  in_time = true;
  const auto latest = std::chrono::steady_clock::now() + kStartPatience;
  while (said.size() < kSaidMost && said.find(kReady) == std::string::npos) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(latest - std::chrono::steady_clock::now());
    pollfd entry{fd, POLLIN, 0};
    if (left.count() <= 0) {
      in_time = false;
      break;
    }
    if (poll(&entry, 1, static_cast<int>(left.count())) <= 0) continue;
    std::array<char, 1024> bytes{};
    const ssize_t count = read(fd, bytes.data(), bytes.size());
    if (count == 0 || (count < 0 && errno != EINTR)) break;
    if (count > 0) said.append(bytes.data(), static_cast<size_t>(count));
  }
  return said;
}

/// For whoever wants to know more than the reason.
void keep(const std::string& said, const std::string& host) {
  std::string ignored;
  const std::string path = log_of_way_out(host, ignored);
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (file) write_all(file.get(), said, 0);
}

/// Returns "", or why it did not become ready.
std::string start_uroced(const std::string& host) {
  const std::string path = find_uroced();
  if (path.empty()) return "uroced is not installed beside this library";
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return std::string("uroced cannot be started: ") + std::strerror(errno);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const std::string port = "net_udp0,mac=" + to_string(segment::mac_of_host(host));
  const int code = start_detached(
      {{path, "--port", port, "--host", host, "--while-needed"}, daemon_environment(environ), writer.get()});
  if (code != 0) return path + " cannot be started: " + std::strerror(code);
  writer.reset();
  bool in_time = false;
  const std::string said = listen(reader.get(), in_time);
  if (said.find(kReady) != std::string::npos) return "";
  keep(said, host);
  return reason_in(said, in_time);
}

/// Another program has tried a moment ago, and said why it came to nothing.
bool was_said(const WayOutFacts& facts) { return facts.failure && facts.failure->ago < kWayOutLinger; }

bool machine_has_addresses() {
  std::string first;
  const auto addresses = addresses_of_machine(first);
  return !addresses || !addresses->empty();
}

/// Under the lock. Returns "", or why there is none.
std::string find_or_start(const EndpointConfig& config, const std::string& host, const std::string& place,
                          WayOutNote& note, bool& is_news) {
  WayOutFacts facts;
  std::string error;
  if (!look_for_uplink(config, host, place, facts.there, error)) return error;
  facts.own_place = place == make_segment_directory("", "", error);
  facts.has_addresses = machine_has_addresses();
  facts.adopts = takes_in_orphans();
  if (const auto ago = note.asked_ago(); ago && !note.failure().empty()) facts.failure = {note.failure(), *ago};
  std::string why;
  const WayOutStep step = choose_way_out(facts, why);
  if (step == WayOutStep::kStart) why = start_uroced(host);
  is_news = !was_said(facts);
  // What came to nothing a moment ago counts from then. What is this process's alone is not written down.
  if (step != WayOutStep::kGoWithout || (is_news && !facts.adopts)) note.write(why);
  return why;
}

/// Returns "", or why there is none.
std::string seek(const EndpointConfig& config, const std::string& host, bool& is_news) {
  std::string why;
  const std::string place = find_segment_directory("", "", why);
  bool there = false;
  if (place.empty() || !look_for_uplink(config, host, place, there, why)) return why;
  WayOutNote note;
  // Where there is one, the lock is for saying that it is needed: whoever is stopped while he has it stops nobody else.
  if (note.take(host, there ? kNotePatience : kLockPatience, why))
    return find_or_start(config, host, place, note, is_news);
  std::string ignored;
  return look_for_uplink(config, host, place, there, ignored) && there ? "" : why;
}

}  // namespace

WayOutStep choose_way_out(const WayOutFacts& facts, std::string& why) {
  why.clear();
  if (facts.there) return WayOutStep::kUse;
  if (!facts.own_place) {
    why = "the uroced of this user's group does not run";
  } else if (!facts.has_addresses) {
    why = "no interface of this machine has an address: `ip address` lists them";
  } else if (facts.adopts) {
    why =
        "this process takes in orphans (it is the first of a container, or a subreaper), and would wait for a uroced "
        "that "
        "it starts: start one before, uroced --port net_udp0, or the program under an init";
  } else if (was_said(facts)) {
    why = facts.failure->why;
  } else {
    return WayOutStep::kStart;
  }
  return WayOutStep::kGoWithout;
}

NoWayOut seek_way_out(const EndpointConfig& config) {
  NoWayOut out;
  const auto spec = parse_port_spec(config.port, out.why);
  out.why.clear();
  if (!spec || !spec->leads_out || config.eal_running) return out;
  const NoCancel uninterrupted;
  EndpointConfig machine = config;
  machine.addresses.clear();  // those that the machine does not have are refused by the plan
  const std::string host = host_of_machine(machine);
  if (!config.host.empty()) return out;  // likewise
  if (host.empty()) return {"the name of this host cannot be read: " + std::string(std::strerror(errno)), true};
  out.is_news = true;
  out.why = seek(config, host, out.is_news);
  return out;
}

std::string log_of_way_out(const std::string& host, std::string& error) {
  const std::string directory = runtime_dir(error);
  return directory.empty() ? "" : directory + "/uroced." + host + ".log";
}

bool is_trusted_program(const std::string& path) {
  struct stat st {};
  const UniqueFd file(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!file || fstat(file.get(), &st) != 0 || !S_ISREG(st.st_mode) || access(path.c_str(), X_OK) != 0) return false;
  const bool owned = st.st_uid == 0 || st.st_uid == geteuid();
  return owned && (st.st_mode & S_IWOTH) == 0;
}

std::string reason_in(const std::string& said, bool in_time) {
  constexpr std::string_view kName = "uroced: ";
  std::string last;
  std::string reason;
  for (size_t begin = 0; begin < said.size();) {
    const size_t end = std::min(said.find('\n', begin), said.size());
    const std::string_view line = std::string_view(said).substr(begin, end - begin);
    if (!line.empty()) last = printable(line);
    if (line.substr(0, kName.size()) == kName) reason = printable(line.substr(kName.size()));
    begin = end + 1;
  }
  if (!reason.empty()) return reason;
  const std::string what = in_time ? "uroced ended at once" : "uroced is not ready after 30 seconds";
  return last.empty() ? what : what + ", and said last: " + last;
}

std::vector<std::string> daemon_environment(const char* const* own) {
  constexpr std::string_view kKept[] = {
      "PATH=", "HOME=", "TMPDIR=", "XDG_RUNTIME_DIR=", "LD_LIBRARY_PATH=", "UROCE_RUNTIME_DIR="};
  std::vector<std::string> variables;
  for (; own != nullptr && *own != nullptr; own++) {
    const std::string_view variable = *own;
    const auto is = [&](std::string_view name) { return variable.substr(0, name.size()) == name; };
    if (std::any_of(std::begin(kKept), std::end(kKept), is)) variables.emplace_back(variable);
  }
  return variables;
}

}  // namespace uroce
