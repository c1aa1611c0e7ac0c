#include "host/segment_plan.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "host/descriptors.h"
#include "host/runtime_dir.h"
#include "segment/directory.h"
#include "segment/host_identity.h"

namespace uroce {
namespace {

std::string leaf_of(const std::string& name) { return name.empty() ? "/shmlan" : "/shmlan." + name; }

bool names_its_place() {
  const char* const own = std::getenv("UROCE_RUNTIME_DIR");
  return own != nullptr && *own != 0;
}

/// The addresses that make a program another host than the machine: those that it was given, sorted, unless the machine
/// has all of them.
/// Nothing, when errno says why the machine's are not known.
std::optional<std::set<std::string>> other_addresses(const EndpointConfig& config) {
  std::set<std::string> names;
  if (config.addresses.empty()) return names;
  std::string netdev_name;
  const auto own = addresses_of_machine(netdev_name);
  if (!own) return std::nullopt;
  bool others = false;
  for (const LocalAddress& given : config.addresses) {
    names.insert(to_string(given.ip) + "@" + std::to_string(given.vlan_id));
    others = others || std::none_of(own->begin(), own->end(), [&](const LocalAddress& address) {
               return address.ip == given.ip && address.vlan_id == given.vlan_id;
             });
  }
  return others ? names : std::set<std::string>{};
}

bool refuse(const char* port, const char* what, std::string& error) {
  error = std::string("port ") + port + " " + what +
          ": leave that out, or name another port, such as net_af_packet0,iface=eth0";
  return false;
}

/// Refuses what a segment cannot do: no member ever makes another one wait.
bool segment_can(const EndpointConfig& config, std::string& error) {
  if (config.lossless != 0) return refuse("shmlan", "has no pause frames (--pfc)", error);
  return does_without_eal(config, "shmlan", error);
}

/// Whether the addresses that the user gave belong to no other host. A host is found by its IP address alone, without
/// VLAN.
bool are_free(const segment::Directory& directory, const PortPlan& plan, std::string& error) {
  for (const auto& [id, record] : directory.members()) {
    if (record.host == plan.host) continue;
    for (const LocalAddress& address : record.addresses) {
      const auto same = [&](const LocalAddress& own) { return own.ip == address.ip; };
      const auto& wanted = plan.identity.addresses;
      if (std::none_of(wanted.begin(), wanted.end(), same)) continue;
      error = "address already in use: " + to_string(address.ip) + " belongs to process " + std::to_string(record.pid) +
              " (" + record.program + "), which is another host; programs of one host say the same --addr or --host";
      return false;
    }
  }
  return true;
}

/// Refuses to guess: with a wrong answer the program would be taken for another host.
bool is_unknown(const std::string& what, std::string& error) {
  error = what + " cannot be read: " + std::strerror(errno);
  return false;
}

bool has_all(const segment::MemberRecord& record, const std::vector<LocalAddress>& addresses) {
  return std::all_of(addresses.begin(), addresses.end(), [&](const LocalAddress& address) {
    return std::find(record.addresses.begin(), record.addresses.end(), address) != record.addresses.end();
  });
}

/// The uplink whose host a program belongs to; for a program that asks for addresses, the one that has them. An uplink
/// that left a moment ago is as good as one whose link is down, so that a program that starts while its uplink restarts
/// does not become another host. Those that programs started for themselves have the identity of the programs' host.
const segment::MemberRecord* find_uplink(const segment::Directory& directory, const EndpointConfig& config) {
  const segment::MemberRecord* found = nullptr;
  directory.for_each_record([&](const segment::MemberRecord& record) {
    const bool named = config.host.empty() || record.host == config.host;
    const bool is_uplink = record.role == segment::Role::kUplink && !record.leads_out;
    const bool fits = is_uplink && named && has_all(record, config.addresses);
    if (fits && found == nullptr) found = &record;  // live ones come first
  });
  return found;
}

/// The one that lives of those that programs of this host started.
const segment::MemberRecord* find_started(const segment::Directory& directory, const std::string& host) {
  for (const auto& [id, record] : directory.members()) {
    if (record.role == segment::Role::kUplink && record.leads_out && record.host == host) return &record;
  }
  return nullptr;
}

/// The machine's own host is what leads out; others would need addresses that the kernel does not have.
bool may_lead_out(const EndpointConfig& config, std::string& error) {
  const auto others = other_addresses(config);
  if (!others || (config.host.empty() && others->empty())) return true;
  error =
      !config.host.empty()
          ? "port network has the machine's own host: leave out --host, or share a port by uroced --host " + config.host
          : "port network has the addresses of this machine, and " + to_string(config.addresses.front()) +
                " is not all of them: leave out --addr, or name some that `ip address` lists";
  return false;
}

void follow_uplink(const segment::MemberRecord& uplink, const EndpointConfig& config, PortPlan& plan) {
  plan.host = uplink.host;
  plan.has_uplink = true;
  plan.qps_max = uplink.quotas.qps_max;
  plan.lanes_max = uplink.quotas.lanes_max;
  plan.identity = {uplink.mac, config.addresses.empty() ? uplink.addresses : config.addresses, uplink.netdev,
                   kSegmentMbps, uplink.link_up};
  plan.mtu_now = uplink.mtu;
}

}  // namespace

std::string host_of_machine(const EndpointConfig& config) {
  std::string text = place_on_the_machine();
  const auto addresses = other_addresses(config);
  const auto uid = machine_uid();
  if (text.empty() || !addresses || !uid) return "";
  for (const std::string& address : *addresses) text += " " + address;  // another address is another host
  const MacAddress hash = segment::mac_of_host(text);
  char name[32];
  snprintf(name, sizeof name, "u%u-%02x%02x%02x%02x", *uid, hash.bytes[2], hash.bytes[3], hash.bytes[4], hash.bytes[5]);
  return name;
}

std::optional<std::vector<LocalAddress>> addresses_of_machine(std::string& netdev_name) {
  std::vector<LocalAddress> addresses;
  const auto names = list_netdevs();
  if (!names) return std::nullopt;
  for (const std::string& name : *names) {
    const auto netdev = read_netdev(name);
    if (!netdev && could_not_ask(errno)) return std::nullopt;
    if (!netdev || !netdev->up) continue;
    for (const LocalAddress& address : netdev->addresses) {
      if (address.ip.is_link_local_v6()) continue;
      if (addresses.empty()) netdev_name = name;
      addresses.push_back(address);
    }
  }
  std::stable_sort(addresses.begin(), addresses.end(),
                   [](const LocalAddress& a, const LocalAddress& b) { return a.ip.is_v4() && !b.ip.is_v4(); });
  return addresses;
}

bool has_way_out(const segment::Directory& directory, const EndpointConfig& config, const std::string& host) {
  if (find_started(directory, host) != nullptr) return true;
  const auto& members = directory.members();
  const segment::MemberRecord* const uplink = find_uplink(directory, config);
  return std::any_of(members.begin(), members.end(), [&](const auto& member) { return &member.second == uplink; });
}

bool does_without_eal(const EndpointConfig& config, const char* port, std::string& error) {
  if (config.hugepages == Hugepages::kYes) return refuse(port, "takes no hugepages (--hugepages yes)", error);
  if (config.eal_args.empty()) return true;
  return refuse(port, "starts no EAL, so that arguments for it (--eal) change nothing", error);
}

std::string find_segment_directory(const std::string& name, const std::string& place, std::string& error) {
  if (!place.empty()) return place + leaf_of(name);
  std::string shared = kSharedSegments + leaf_of(name);
  if (!names_its_place() && faccessat(AT_FDCWD, shared.c_str(), R_OK | W_OK | X_OK, AT_EACCESS) == 0) return shared;
  const std::string dir = runtime_dir(error);
  return dir.empty() ? "" : dir + leaf_of(name);
}

bool plan_segment(const EndpointConfig& config, PortPlan& plan, std::string& error) {
  if (!segment_can(config, error)) return false;
  if (!config.host.empty() && !segment::valid_host_name(config.host)) {
    error = "host '" + config.host + "': the name of a host is 1 to 32 letters, digits, '-', '_', '.' or '@'";
    return false;
  }
  if (plan.spec.leads_out && !may_lead_out(config, error)) return false;
  plan.segment_dir = find_segment_directory(plan.spec.wire, "", error);
  if (plan.segment_dir.empty()) return false;
  plan.name = "shmlan" + (plan.spec.wire.empty() ? "" : ":" + plan.spec.wire);
  plan.host = config.host.empty() ? host_of_machine(config) : config.host;
  if (plan.host.empty()) return is_unknown("the name of this host", error);
  plan.identity.mac = segment::mac_of_host(plan.host);
  plan.identity.addresses = config.addresses;
  plan.identity.link_mbps = kSegmentMbps;
  plan.direct_copy = config.direct_copy == DirectCopying::kAuto && config.faults.empty();
  use_mtu(plan, config.mtu == 0 ? kFullMtu : config.mtu);
  segment::Directory directory;
  if (!directory.open(plan.segment_dir, error)) return false;
  if (!directory.scan()) return is_unknown("who is in " + plan.segment_dir, error);
  if (const auto* uplink = find_uplink(directory, config)) {
    follow_uplink(*uplink, config, plan);
    return true;
  }
  if (const auto* started = find_started(directory, plan.host)) plan.mtu_now = started->mtu;
  if (!config.addresses.empty()) return are_free(directory, plan, error);
  const auto own = addresses_of_machine(plan.identity.netdev);
  if (!own) return is_unknown("the addresses of this machine", error);
  plan.identity.addresses = segment::choose_addresses(directory, plan.host, *own);
  return true;
}

std::string make_segment_directory(const std::string& name, const std::string& group, std::string& error) {
  if (group.empty()) {
    const std::string dir = runtime_dir(error);
    return dir.empty() ? "" : dir + leaf_of(name);
  }
  const ::group* const found = getgrnam(group.c_str());
  if (found == nullptr || geteuid() != 0) {
    error = found == nullptr ? "there is no group '" + group + "': groupadd --system " + group
                             : "--group needs root, who alone can make a directory in which users meet";
    return "";
  }
  std::string dir = kSharedSegments + leaf_of(name);
  for (const char* const path : {kSharedSegments, dir.c_str()}) {
    if (mkdir(path, 0755) == 0 || errno == EEXIST) continue;
    error = std::string("cannot make ") + path + ": " + std::strerror(errno);
    return "";
  }
  // Setgid and sticky: files in it belong to the group, and only root removes those of others.
  const int fd = open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  const bool given = fd >= 0 && fchown(fd, 0, found->gr_gid) == 0 && fchmod(fd, 03770) == 0;
  if (!given) error = "cannot give " + dir + " to group " + group + ": " + std::strerror(errno);
  if (fd >= 0) close(fd);
  return given ? dir : "";
}

}  // namespace uroce
