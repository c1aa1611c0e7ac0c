#include "sysfs_tree.h"

#include <fcntl.h>
#include <net/if.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <utility>

#include "base/files.h"
#include "base/fork.h"
#include "base/immortal.h"
#include "base/root_mark.h"
#include "dpdk/log.h"
#include "engine/address_table.h"
#include "host/netdev.h"
#include "host/wire_end.h"
#include "identity.h"
#include "runtime.h"
#include "transport/counters.h"

namespace uroce::verbs {

namespace {

using Path = std::filesystem::path;

std::mutex tree_mutex;
bool tree_is_whole = false;          // as far as things were known when it was written
bool tree_knows_port = false;        // the tree was written after the port was opened
std::atomic<int> tree_is_short{0};   // why something could not be written, which is tried again later
bool tree_failure_is_told = false;   // it was logged why there is no tree
bool tree_shortage_is_told = false;  // it was logged why there is not all of it
std::string* tree_root = nullptr;
RootMark* tree_made_at = nullptr;
pid_t tree_owner = 0;
int tree_lock = -1;  // held as long as the process lives

/// A missing file is tried again at a look, but not at each: programs look often, and a disk stays full for long.
struct NextTry {
  using Clock = std::chrono::steady_clock;
  Clock::time_point at;
  bool port_was_open = false;
};
NextTry next_try;

constexpr char kTreePrefix[] = "sysfs-";

void remove_at_exit() {
  if (getpid() == tree_owner && tree_root != nullptr) remove_tree(*tree_root);
}

/// Opens and locks the tree's directory, so that it is not removed. -1 when another process has locked or removed it.
int lock_tree(const std::string& root, bool wait) {
  const int fd = open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  struct stat st {};
  if (fd >= 0 && flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB)) == 0 && fstat(fd, &st) == 0 && st.st_nlink != 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

/// Removes the trees of processes that were killed. Their process numbers do not tell, since containers that share the
/// directory count their own.
void remove_stale_trees(const std::string& directory) {
  for (const std::string& name : names_in(directory)) {
    if (name.rfind(kTreePrefix, 0) != 0 || std::isdigit(static_cast<unsigned char>(name[sizeof kTreePrefix - 1])) == 0)
      continue;
    const std::string root = directory + "/" + name;
    const int lock = lock_tree(root, false);
    if (lock < 0) continue;
    remove_tree(root);
    close(lock);
  }
}

/// What cannot be made is missing until it is tried again. Only the first reason counts.
void fall_short(int code) {
  int none = 0;
  tree_is_short.compare_exchange_strong(none, code);
}

void make_directory(const Path& name) {
  std::error_code error;
  std::filesystem::create_directories(name, error);
  if (error) fall_short(error.value());
}

void link_to(const char* to, const Path& name) {
  std::error_code error;
  std::filesystem::create_symlink(to, name, error);
  if (error && error != std::errc::file_exists) fall_short(error.value());
}

/// What a file has now, up to more than any attribute's length.
std::string text_in(int fd) {
  char text[256];
  // libc's name is the shim's own, which would bring the counters up to date.
  const ssize_t length = syscall(SYS_pread64, fd, text, sizeof text, 0);
  return {text, length > 0 ? static_cast<size_t>(length) : 0};
}

/// Writes one attribute, making its directories, unless the file has that text; with `is_first`, unless it has any. It
/// is there with all of its text or not at all: half of a text, or none, is worse than no file.
void put(const Path& file, const std::string& text, bool is_first = false) {
  const std::string* const root = tree_root;
  if (root == nullptr) return;
  make_directory(file.parent_path());
  const std::string line = text + '\n';
  const int fd = open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  const std::string before = fd >= 0 ? text_in(fd) : "";
  bool there = before == line || (is_first && !before.empty());
  bool is_spoilt = false;
  if (fd >= 0 && !there) {
    // In place, where it can be: a program that keeps a counter open reads on in this file.
    there = write_all(fd, line, 0) == 0 && ftruncate(fd, static_cast<off_t>(line.size())) == 0;
    is_spoilt = !there && text_in(fd) != before;
  }
  if (fd >= 0) close(fd);
  if (there) return;
  // Several threads may be writing.
  const int code = replace_file(file, *root + "/new-" + std::to_string(gettid()), line);
  if (code == 0) return;
  if (is_spoilt) unlink(file.c_str());
  fall_short(code);
}

std::string guid_text(const MacAddress& mac) {
  uint8_t b[8];
  const __be64 guid = guid_of(mac);
  std::memcpy(b, &guid, sizeof b);
  char text[20];
  std::snprintf(text, sizeof text, "%02x%02x:%02x%02x:%02x%02x:%02x%02x", b[0], b[1], b[2], b[3], b[4], b[5], b[6],
                b[7]);
  return text;
}

std::string gid_text(const IpAddress& ip) {
  std::string out;
  for (size_t i = 0; i < ip.bytes.size(); i += 2) {
    char word[6];
    std::snprintf(word, sizeof word, i == 0 ? "%02x%02x" : ":%02x%02x", ip.bytes[i], ip.bytes[i + 1]);
    out += word;
  }
  return out;
}

/// What is known about the port: everything when it is open, and defaults before.
struct PortFacts {
  bool up = true;
  uint64_t mbps = 10000;
  uint16_t lid = 0;
  std::vector<IpAddress> gids;
  std::string netdev;
  bool operator==(const PortFacts&) const = default;
};
PortFacts* tree_facts = nullptr;  // what the files contain; protected by the mutex

PortFacts facts_of(const EndpointIdentity& identity) {
  PortFacts facts;
  if (Runtime::get().is_open()) {
    facts.up = endpoint().link_up();
    facts.mbps = endpoint().link_speed_mbps();
    facts.netdev = endpoint().netdev_name();
    EngineLock lock(endpoint());
    facts.lid = lock->addresses().lid();
    for (const LocalAddress& a : lock->addresses().gids()) facts.gids.push_back(a.ip);
    facts.gids.resize(std::max<size_t>(facts.gids.size(), AddressTable::kGidsShown));
    return facts;
  }
  facts.netdev = identity.netdev;
  if (identity.link_mbps != 0) {
    facts.up = identity.link_up;
    facts.mbps = identity.link_mbps;
  } else if (const auto netdev = read_netdev(identity.netdev)) {
    facts.up = netdev->carrier;
    if (netdev->speed_mbps != 0) facts.mbps = netdev->speed_mbps;
  }
  facts.gids.push_back(link_local_of(identity.mac));
  for (const LocalAddress& a : identity.addresses) {
    facts.gids.push_back(a.ip);
    if (facts.lid == 0 && a.ip.is_v4()) facts.lid = static_cast<uint16_t>(a.ip.v4_host_order());
  }
  facts.gids.resize(std::max<size_t>(facts.gids.size(), AddressTable::kGidsShown));
  return facts;
}

void put_device(const Path& device, const EndpointIdentity& identity) {
  const std::string guid = guid_text(identity.guid_mac());
  put(device / "node_type", "1: CA");
  put(device / "fw_ver", kFirmwareVersion);
  put(device / "hw_rev", "0");
  put(device / "hca_type", "uroce");
  put(device / "board_id", "uroce");
  put(device / "node_desc", kDeviceName);
  put(device / "node_guid", guid);
  put(device / "sys_image_guid", guid);
  link_to("../../infiniband", device / "subsystem");
}

/// Writes the files that do not change, and those that change when they are looked at.
void put_port(const Path& device) {
  const Path port = device / "ports/1";
  char text[64];
  put(port / "link_layer", "Ethernet");
  put(port / "sm_lid", "0x0");
  put(port / "sm_sl", "0");
  put(port / "lid_mask_count", "0");
  std::snprintf(text, sizeof text, "0x%08x", IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS);
  put(port / "cap_mask", text);
  put(port / "pkeys/0", "0xffff");
  for_each_counter(Counters{}, [&](const char* name, uint64_t) { put(port / "hw_counters" / name, "0", true); });
  for (const char* name : {"port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets"}) {
    put(port / "counters" / name, "0", true);
  }
}

/// Writes the files that depend on the link and its addresses. Called under the mutex.
void put_facts(const Path& device, const PortFacts& facts) {
  if (tree_facts != nullptr && *tree_facts == facts) return;
  const Path port = device / "ports/1";
  char text[64];
  put(port / "state", facts.up ? "4: ACTIVE" : "1: DOWN");
  put(port / "phys_state", facts.up ? "5: LinkUp" : "3: Disabled");
  put(port / "rate", link_rate(facts.mbps).text);
  std::snprintf(text, sizeof text, "0x%x", facts.lid);
  put(port / "lid", text);
  std::error_code ignored;
  for (size_t i = 0; i < facts.gids.size(); i++) {
    const std::string row = std::to_string(i);
    put(port / "gids" / row, gid_text(facts.gids[i]));  // zeros where there is none, as the kernel shows it
    if (!facts.gids[i].is_zero()) {
      put(port / "gid_attrs/types" / row, "RoCE v2");
      if (!facts.netdev.empty()) put(port / "gid_attrs/ndevs" / row, facts.netdev);
    } else {
      std::filesystem::remove(port / "gid_attrs/types" / row, ignored);
      std::filesystem::remove(port / "gid_attrs/ndevs" / row, ignored);
    }
  }
  // Linux has no `device` for its software devices, rxe and siw, which hang on no bus: their interface is the parent.
  if (!facts.netdev.empty()) put(device / "parent", facts.netdev);
  delete std::exchange(tree_facts, new PortFacts(facts));
}

void put_uverbs(const Path& root) {
  const Path classes = root / "sys/class";
  put(classes / "infiniband_verbs/abi_version", "6");
  put(classes / "infiniband_mad/abi_version", "5");
  put(classes / "misc/rdma_cm/abi_version", "4");
  put(classes / "misc/rdma_cm/dev", "1:3");
  const Path uverbs = classes / "infiniband_verbs" / kUverbsName;
  put(uverbs / "ibdev", kDeviceName);
  put(uverbs / "abi_version", "1");
  put(uverbs / "dev", "1:3");  // that of /dev/null, which stands for the device
  link_to("../../infiniband_verbs", uverbs / "subsystem");
  make_directory(root / "dev/infiniband");
  link_to("/dev/null", root / "dev/infiniband" / kUverbsName);
  link_to("/dev/null", root / "dev/infiniband/rdma_cm");
}

/// Makes a directory of a name of its own, and locks it: another process may take one that is not locked yet for a dead
/// one's, and remove it. "" when that cannot be; errno says why.
std::string make_root(const std::string& directory) {
  for (int attempt = 0; attempt < 8; attempt++) {
    std::string root = directory + "/" + kTreePrefix + std::to_string(getpid()) + "-XXXXXX";
    if (mkdtemp(root.data()) == nullptr) return "";
    tree_lock = lock_tree(root, true);
    if (tree_lock >= 0) return root;
    const int reason = errno;
    remove_tree(root);
    errno = reason;
  }
  return "";
}

bool have_no_tree(LogLevel level, const std::string& why) {
  if (!std::exchange(tree_failure_is_told, true))
    log_message(level, "no files under /sys/class/infiniband: %s", why.c_str());
  return false;
}

/// Says once why files are missing, until they are all there.
void tell_shortage() {
  const int code = tree_is_short;
  if (code == 0) {
    tree_shortage_is_told = false;
  } else if (!std::exchange(tree_shortage_is_told, true)) {
    log_message(LogLevel::kWarning, "files under /sys/class/infiniband are missing: cannot write to %s: %s",
                tree_root->c_str(), std::strerror(code));
  }
}

bool make_tree() {
  std::string error;
  const std::string directory = runtime_dir(error);
  // Whoever opens the device is told that there.
  if (directory.empty()) return have_no_tree(LogLevel::kInfo, error);
  remove_stale_trees(directory);
  const std::string root = make_root(directory);
  if (root.empty()) {
    fall_short(errno);
    return have_no_tree(LogLevel::kWarning, directory + ": " + std::strerror(tree_is_short));
  }
  tree_failure_is_told = false;
  tree_root = new std::string(root);
  if (tree_made_at == nullptr) tree_made_at = new RootMark;
  if (std::exchange(tree_owner, getpid()) == 0) std::atexit(remove_at_exit);
  return true;
}

/// The process has changed its root directory since the tree was made: its paths lead elsewhere.
bool is_out_of_reach() { return tree_root != nullptr && tree_made_at != nullptr && !tree_made_at->same(); }

/// Forgets a tree that was removed, with all of the runtime directory or by age, so that it is made anew.
void look_after_tree() {
  if (tree_root == nullptr) return;
  struct stat st {};
  // A file that nothing changes later stands for all.
  if (lstat((*tree_root + "/sys/class/infiniband_verbs/abi_version").c_str(), &st) == 0 || errno != ENOENT) return;
  if (fstat(tree_lock, &st) == 0 && st.st_nlink == 0) {
    close(std::exchange(tree_lock, -1));
    tree_root = nullptr;  // not deleted: another thread may be about to use a path in it
  }
  delete std::exchange(tree_facts, nullptr);
  tree_is_whole = tree_knows_port = false;
  next_try = {};
}

uint64_t counter_value(const std::string& name, const Counters& counters) {
  // The classic port counters count payload in words of four bytes.
  if (name == "port_xmit_data") return counters.tx_bytes / 4;
  if (name == "port_rcv_data") return counters.rx_bytes / 4;
  if (name == "port_xmit_packets") return counters.tx_packets;
  if (name == "port_rcv_packets") return counters.rx_packets;
  uint64_t found = 0;
  for_each_counter(counters, [&](const char* counter, uint64_t value) {
    if (name == counter) found = value;
  });
  return found;
}

/// Whether to try again. Once the port is open there is more to tell, so then at once.
bool is_time_to_try(bool open) {
  constexpr auto kPause = std::chrono::seconds(1);
  const auto now = NextTry::Clock::now();
  if (now < next_try.at && next_try.port_was_open == open) return false;
  next_try = {now + kPause, open};
  return true;
}

}  // namespace

const std::string& sysfs_root() {
  static Immortal<std::string> nothing;
  const std::string* const none = &*nothing;
  const std::lock_guard guard(tree_mutex);
  if (is_out_of_reach()) return *none;
  const bool open = Runtime::get().is_open();
  if (tree_is_whole) look_after_tree();
  if (tree_is_whole && tree_is_short == 0 && (tree_knows_port || !open)) return *tree_root;
  if (!is_time_to_try(open)) return tree_root != nullptr ? *tree_root : *none;
  EndpointIdentity identity;
  if (!Runtime::get().identify(identity, LogLevel::kDebug)) return *none;
  if (tree_root == nullptr && !make_tree()) return *none;
  if (!std::exchange(tree_is_whole, false) || tree_is_short != 0) {
    tree_is_short = 0;
    put_uverbs(*tree_root);
    delete std::exchange(tree_facts, nullptr);
  }
  const Path device = Path(*tree_root) / "sys/class/infiniband" / kDeviceName;
  put_device(device, identity);
  if (tree_facts == nullptr) put_port(device);
  put_facts(device, facts_of(identity));
  tree_knows_port = open;
  tree_is_whole = true;
  tell_shortage();
  return *tree_root;
}

int why_files_are_missing() { return tree_is_short; }

LinkFacts link_facts(const EndpointIdentity& identity) {
  const PortFacts facts = facts_of(identity);
  return {facts.up, facts.netdev};
}

void leave_sysfs_tree() {
  renew_after_fork(tree_mutex);
  tree_is_whole = tree_knows_port = false;
  tree_root = nullptr;
  tree_facts = nullptr;
  next_try = {};
  if (tree_lock >= 0) close(std::exchange(tree_lock, -1));
}

void refresh_file(const char* path) {
  constexpr char kPort[] = "/ports/1/";
  const char* const found = std::strstr(path, kPort);
  if (found == nullptr || is_out_of_reach() || !Runtime::get().is_open() || tree_root == nullptr ||
      getpid() != tree_owner)
    return;
  const std::string file = *tree_root + path;
  const char* const counter = std::strstr(found, "counters/");
  if (counter == nullptr) {
    const PortFacts facts = facts_of({});
    const std::lock_guard guard(tree_mutex);
    put_facts(Path(*tree_root) / "sys/class/infiniband" / kDeviceName, facts);
    return;
  }
  const std::string name = counter + std::strlen("counters/");
  if (name.empty() || name.find('/') != std::string::npos || access(file.c_str(), F_OK) != 0) return;
  Counters counters;
  {
    EngineLock lock(endpoint());
    counters = lock->counters();
  }
  put(file, std::to_string(counter_value(name, counters)));
}

}  // namespace uroce::verbs
