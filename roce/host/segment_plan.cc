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

/// A short name for this user's programs in this network namespace. Programs that were given addresses are known by
/// them: another address is another host.
std::string default_host(const EndpointConfig& config) {
  std::string text = place_in_the_world();
  for (const LocalAddress& address : config.addresses) text += " " + to_string(address);
  const MacAddress hash = segment::mac_of_host(text);
  char name[32];
  snprintf(name, sizeof name, "u%u-%02x%02x%02x%02x", machine_uid(), hash.bytes[2], hash.bytes[3], hash.bytes[4],
           hash.bytes[5]);
  return name;
}

/// The addresses of all interfaces that are up; the first of these that has any is the one that the device is shown to
/// belong to.
std::vector<LocalAddress> addresses_of_machine(std::string& netdev_name) {
  std::vector<LocalAddress> addresses;
  for (const std::string& name : list_netdevs()) {
    const auto netdev = read_netdev(name);
    if (!netdev || !netdev->up) continue;
    for (const LocalAddress& address : netdev->addresses) {
      if (address.ip.is_link_local_v6()) continue;
      if (netdev_name.empty()) netdev_name = name;
      addresses.push_back(address);
    }
  }
  std::stable_sort(addresses.begin(), addresses.end(),
                   [](const LocalAddress& a, const LocalAddress& b) { return a.ip.is_v4() && !b.ip.is_v4(); });
  return addresses;
}

/// The uplink whose host a program belongs to. One that has gone a moment ago is as good as one whose link is down, so
/// that a program that starts while its uplink is started anew is not of another host.
const segment::MemberCard* find_uplink(const segment::Directory& directory, const std::string& host) {
  const segment::MemberCard* found = nullptr;
  directory.for_each_card([&](const segment::MemberCard& card) {
    const bool fits = card.role == segment::Role::kUplink && (host.empty() || card.host == host);
    if (fits && found == nullptr) found = &card;  // those that live come first
  });
  return found;
}

void follow_uplink(const segment::MemberCard& uplink, const EndpointConfig& config, PortPlan& plan) {
  plan.host = uplink.host;
  plan.has_uplink = true;
  plan.qps_max = uplink.qps_max;
  plan.identity = {uplink.mac, uplink.addresses, uplink.netdev};
  const uint32_t mtu = uplink.mtu == 0 ? kFullMtu : uplink.mtu;
  use_mtu(plan, config.mtu == 0 ? mtu : std::min(config.mtu, mtu));
}

}  // namespace

std::string find_segment_directory(const std::string& name, const std::string& place, std::string& error) {
  if (!place.empty()) return place + leaf_of(name);
  std::string shared = kSharedSegments + leaf_of(name);
  if (!names_its_place() && faccessat(AT_FDCWD, shared.c_str(), R_OK | W_OK | X_OK, AT_EACCESS) == 0) return shared;
  const std::string dir = runtime_dir(error);
  return dir.empty() ? "" : dir + leaf_of(name);
}

bool plan_segment(const EndpointConfig& config, PortPlan& plan, std::string& error) {
  if (!config.host.empty() && !segment::valid_host_name(config.host)) {
    error = "host '" + config.host + "': the name of a host is 1 to 32 letters, digits, '-', '_', '.' or '@'";
    return false;
  }
  plan.segment_dir = find_segment_directory(plan.spec.wire, "", error);
  if (plan.segment_dir.empty()) return false;
  plan.name = "shmlan" + (plan.spec.wire.empty() ? "" : ":" + plan.spec.wire);
  plan.host = config.host.empty() ? default_host(config) : config.host;
  plan.identity.mac = segment::mac_of_host(plan.host);
  plan.identity.addresses = config.addresses;
  use_mtu(plan, config.mtu == 0 ? kFullMtu : config.mtu);
  if (!config.addresses.empty()) return true;
  segment::Directory directory;
  if (!directory.open(plan.segment_dir, error)) return false;
  directory.scan();
  if (const auto* uplink = find_uplink(directory, config.host)) {
    follow_uplink(*uplink, config, plan);
    return true;
  }
  const std::vector<LocalAddress> own = addresses_of_machine(plan.identity.netdev);
  plan.identity.addresses = segment::choose_addresses(directory, plan.host, own);
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
  // The group goes to all files in it.
  if (chown(dir.c_str(), 0, found->gr_gid) == 0 && chmod(dir.c_str(), 02770) == 0) return dir;
  error = "cannot give " + dir + " to group " + group + ": " + std::strerror(errno);
  return "";
}

}  // namespace uroce
