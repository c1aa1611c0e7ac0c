#include "pmd/shmlan/membership.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "host/runtime_dir.h"
#include "host/segment_plan.h"
#include "pmd/shmlan/log.h"
#include "segment/directory.h"
#include "segment/host_identity.h"

namespace uroce::shmlan {
namespace {

/// How many devices of one name, whose MACs follow from it, a segment can have at a time: far more than lcores.
constexpr unsigned kNamesakes = 4096;

/// Whether a member or a host has this MAC. That of a bridge is free to use, since no frame has it.
bool is_taken(const segment::Directory& directory, const MacAddress& mac) {
  const auto has = [&](const auto& member) {
    return member.second.mac == mac && member.second.role != segment::Role::kBridge;
  };
  return std::any_of(directory.members().begin(), directory.members().end(), has);
}

/// The host that has the address, or "".
std::string owner_of(const segment::Directory& directory, const IpAddress& ip) {
  for (const auto& [id, record] : directory.members()) {
    for (const LocalAddress& address : record.addresses) {
      if (address.ip == ip) return record.host;
    }
  }
  return "";
}

bool check_addresses(const segment::Directory& directory, const Arguments& arguments, std::string& error) {
  for (const LocalAddress& address : arguments.addresses) {
    const std::string owner = owner_of(directory, address.ip);
    if (owner.empty()) continue;
    error = arguments.device + ": addr=" + to_string(address) + ": host " + owner + " of the segment has this address";
    return false;
  }
  return true;
}

bool choose_mac(const segment::Directory& directory, const Arguments& arguments, MacAddress& mac, std::string& error) {
  if (arguments.mac) {
    mac = *arguments.mac;
    if (!is_taken(directory, mac)) return true;
    error = arguments.device + ": mac=" + to_string(mac) + ": another member of the segment has this MAC";
    return false;
  }
  const std::string place = place_in_the_world() + arguments.device + "#";
  for (unsigned i = 0; i < kNamesakes; i++) {
    mac = segment::mac_of_host(place + std::to_string(i));
    if (!is_taken(directory, mac)) return true;
  }
  error = arguments.device + ": the segment has too many devices of this name: say mac=";
  return false;
}

segment::MemberRecord record_of(const Arguments& arguments, const MacAddress& mac) {
  segment::MemberRecord record;
  record.role = segment::Role::kStation;
  char host[32];
  std::snprintf(host, sizeof host, "dpdk-%02x%02x%02x%02x%02x%02x", mac.bytes[0], mac.bytes[1], mac.bytes[2],
                mac.bytes[3], mac.bytes[4], mac.bytes[5]);
  record.host = host;
  record.mac = mac;
  record.addresses = arguments.addresses;
  record.pid = getpid();
  record.program = program_invocation_short_name;
  return record;
}

/// Another process may have looked for a free MAC at the same time, and found the same one.
bool is_alone(segment::SegmentPort& port, const MacAddress& mac) {
  bool alone = port.peers().station_of(mac) == nullptr;
  port.peers().for_each_program(mac, [&](const segment::Peer&) { alone = false; });
  return alone;
}

}  // namespace

bool join_segment(const Arguments& arguments, Joined& out, std::string& error) {
  segment::SegmentOptions options;
  options.directory = find_segment_directory(arguments.segment, arguments.dir, error);
  options.warn = [device = arguments.device](const std::string& line) {
    SHMLAN_LOG(WARNING, "%s: %s", device.c_str(), line.c_str());
  };
  segment::Directory directory;
  if (options.directory.empty() || !directory.open(options.directory, error)) {
    error = arguments.device + ": " + error;
    return false;
  }
  constexpr int kAttempts = 16;
  for (int attempt = 0; attempt < kAttempts; attempt++) {
    directory.scan();
    if (!check_addresses(directory, arguments, error) || !choose_mac(directory, arguments, out.mac, error))
      return false;
    options.record = record_of(arguments, out.mac);
    out.port = segment::SegmentPort::join(options, error);
    if (!out.port) {
      error = arguments.device + ": " + error;
      return false;
    }
    if (is_alone(*out.port, out.mac)) return true;
    out.port.reset();
    usleep(static_cast<useconds_t>(1000 + getpid() % 16 * 1000));  // differs, so that two do not collide again
  }
  error = arguments.device + ": others join the segment with the same MAC all the time: say mac=";
  return false;
}

}  // namespace uroce::shmlan
