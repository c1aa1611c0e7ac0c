#include "host/way_out.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <string_view>

#include "base/no_cancel.h"
#include "base/printable.h"
#include "base/unique_fd.h"
#include "host/detached_process.h"
#include "host/port_spec.h"
#include "host/segment_plan.h"
#include "host/way_out_note.h"
#include "segment/directory.h"
#include "segment/host_identity.h"

namespace uroce {
namespace {

constexpr Duration kLockPatience = milliseconds(40'000);
constexpr auto kStartPatience = std::chrono::seconds(30);  // of a busy machine
constexpr size_t kSaidMost = 16384;
constexpr const char* kReady = "uroced is ready\n";

bool is_file(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

/// Where the library that this function is in, or the program, was installed. "": there is no uroced near it.
std::string find_uroced() {
  std::vector<std::string> folders;
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&find_uroced), &info) != 0 && info.dli_fname[0] == '/')
    folders.push_back(folder_of(info.dli_fname));
  std::array<char, PATH_MAX> program{};
  if (readlink("/proc/self/exe", program.data(), program.size() - 1) > 0) folders.push_back(folder_of(program.data()));
  for (const std::string& folder : folders) {
    for (const char* const way :
         {"/uroced", "/../apps/uroced", "/../bin/uroced", "/../../bin/uroced", "/../../apps/uroced"}) {
      if (is_file(folder + way)) return folder + way;
    }
  }
  return "";
}

/// False, with one line in `error`, when the segment cannot be looked at.
bool look_for_uplink(const EndpointConfig& config, const std::string& place, bool& found, std::string& error) {
  segment::Directory directory;
  if (!directory.open(place, error)) return false;
  if (!directory.scan()) {
    error = "who is in " + place + " cannot be read: " + std::strerror(errno);
    return false;
  }
  const auto& members = directory.members();
  found = std::any_of(members.begin(), members.end(), [&](const auto& member) {
    return member.second.role == segment::Role::kUplink && (config.host.empty() || member.second.host == config.host);
  });
  return true;
}

/// What it says until it is ready, has ended, or the time is over.
std::string listen(int fd) {
  std::string said;
  const auto latest = std::chrono::steady_clock::now() + kStartPatience;
  while (said.size() < kSaidMost && said.find(kReady) == std::string::npos) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(latest - std::chrono::steady_clock::now());
    pollfd entry{fd, POLLIN, 0};
    if (left.count() <= 0) break;
    if (poll(&entry, 1, static_cast<int>(left.count())) <= 0) continue;
    std::array<char, 1024> bytes{};
    const ssize_t count = read(fd, bytes.data(), bytes.size());
    if (count == 0 || (count < 0 && errno != EINTR)) break;
    if (count > 0) said.append(bytes.data(), static_cast<size_t>(count));
  }
  return said;
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
  const std::string said = listen(reader.get());
  return said.find(kReady) != std::string::npos ? "" : reason_in(said);
}

/// Another program has tried a moment ago, and said why it came to nothing.
bool was_said(const WayOutFacts& facts) { return facts.failure && facts.failure->ago < kWayOutLinger; }

bool machine_has_addresses() {
  std::string first;
  const auto addresses = addresses_of_machine(first);
  return !addresses || !addresses->empty();
}

/// Under the lock. Returns "", or why there is none.
std::string find_or_start(const EndpointConfig& config, const std::string& host, WayOutNote& note, bool& is_news) {
  WayOutFacts facts;
  std::string error;
  const std::string place = find_segment_directory("", "", error);
  if (place.empty() || !look_for_uplink(config, place, facts.there, error)) return error;
  facts.own_place = place == make_segment_directory("", "", error);
  facts.has_addresses = machine_has_addresses();
  if (const auto ago = note.asked_ago(); ago && !note.failure().empty()) facts.failure = {note.failure(), *ago};
  std::string why;
  const WayOutStep step = choose_way_out(facts, why);
  if (step == WayOutStep::kStart) why = start_uroced(host);
  is_news = !was_said(facts);
  // What came to nothing a moment ago counts from then.
  if (step != WayOutStep::kGoWithout || is_news) note.write(why);
  return why;
}

}  // namespace

WayOutStep choose_way_out(const WayOutFacts& facts, std::string& why) {
  why.clear();
  if (facts.there) return WayOutStep::kUse;
  if (!facts.own_place) {
    why = "the uroced of this user's group does not run";
  } else if (!facts.has_addresses) {
    why = "no interface of this machine has an address: `ip address` lists them";
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
  const std::string host = host_of_machine(config);
  if (host.empty()) {
    return {"the name of this host cannot be read: " + std::string(std::strerror(errno)), true};
  }
  WayOutNote note;
  out.is_news = true;
  if (note.take(kLockPatience, out.why)) out.why = find_or_start(config, host, note, out.is_news);
  return out;
}

std::string reason_in(const std::string& said) {
  constexpr std::string_view kName = "uroced: ";
  std::string reason;
  for (size_t begin = 0; begin < said.size();) {
    const size_t end = std::min(said.find('\n', begin), said.size());
    const std::string_view line = std::string_view(said).substr(begin, end - begin);
    if (line.substr(0, kName.size()) == kName) reason = printable(line.substr(kName.size()));
    begin = end + 1;
  }
  return reason.empty() ? "uroced did not become ready" : reason;
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
