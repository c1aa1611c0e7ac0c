// What a member tells the others about itself: a short text in its file in the segment's directory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "uroce/address.h"

namespace uroce::segment {

/// A number that no other member ever has; 0: no member.
using MemberId = uint64_t;

/// Queue pair numbers are given to members in blocks of 2^kQpnBlockBits.
inline constexpr uint32_t kQpnBlockBits = 12;
inline constexpr uint32_t kQpnBlocks = 1u << (24 - kQpnBlockBits);

/// Which frames a member takes.
enum class Role : uint8_t {
  kProgram,  // those for its blocks of its host's queue pair numbers
  kStation,  // all for its MAC, which no other member has, and broadcasts: a DPDK application
  kUplink,   // a host's way out, with the host's MAC: frames for unknown MACs, and broadcasts
  kBridge,   // the same, but it belongs to no host: behind it are hosts with MACs of their own
};

/// Services to which a member listens: all IDs that equal `service_id` in the bits of `mask`.
struct Listening {
  uint64_t service_id = 0;
  uint64_t mask = 0;
  bool covers(uint64_t service) const { return ((service ^ service_id) & mask) == 0; }
  bool operator==(const Listening&) const = default;
};

/// Frames of other protocols of which a member wants copies: to these, whatever host has them, or to any.
struct RawWish {
  std::vector<MacAddress> macs;
  bool all = false;
  bool operator==(const RawWish&) const = default;
};

/// What an uplink leaves to each program of its host. 0: it has no limit of its own.
struct Quotas {
  uint32_t qps_max = 0;    // queue pairs that the program may have
  uint32_t lanes_max = 0;  // other programs that it may meet
  bool operator==(const Quotas&) const = default;
};

struct MemberRecord {
  Role role = Role::kProgram;
  std::string host;  // the name of the host that it belongs to
  MacAddress mac;    // of that host
  std::vector<LocalAddress> addresses;
  std::vector<uint32_t> blocks;    // this member's blocks of the host's queue pair numbers
  std::vector<Listening> listens;  // requests for these services come to this member
  std::vector<MacAddress> groups;  // multicast RoCE frames to these, too
  RawWish raw;                     // copies of frames of other protocols, too
  bool shut = false;               // it may not look at other members' files any more: it meets nobody new
  bool leads_out = false;          // a program that asked for the network, or the uplink that was started for such ones
  int pid = 0;                     // as the member sees it; for display
  std::string program;             // likewise; printable

  // Of an uplink, for the programs of its host.
  uint32_t mtu = 0;  // IP MTU of its port
  Quotas quotas;
  bool link_up = true;
  std::string netdev;  // the kernel interface below its port, or ""

  bool operator==(const MemberRecord&) const = default;
};

std::string to_text(const MemberRecord& record);
/// Nothing when the text is not a whole record.
std::optional<MemberRecord> parse_record(std::string_view text);

/// 1 to 32 letters, digits, '-', '_', '.' or '@'; the first is a letter or a digit.
bool valid_host_name(std::string_view name);

/// No record has more than these: writers keep to the limits, and readers reject other records.
inline constexpr size_t kAddressesMax = 255;  // as many as a GID table has beside its first row
inline constexpr size_t kBlocksMax = 512;     // 131072 queue pairs, which is the most that --max-qps allows
inline constexpr size_t kListensMax = 512;
inline constexpr size_t kGroupsMax = 256;
inline constexpr size_t kRawMacsMax = 64;
inline constexpr size_t kProgramBytesMax = 255;
/// The longest record that is read; it has room for the maximum of every list.
inline constexpr size_t kRecordBytesMax = 64 * 1024;

}  // namespace uroce::segment
