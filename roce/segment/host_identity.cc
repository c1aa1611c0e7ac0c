#include "segment/host_identity.h"

#include <algorithm>
#include <optional>

namespace uroce::segment {
namespace {

constexpr uint32_t kLeaseNetwork = 0xc6130000;  // 198.19.0.0
constexpr uint8_t kLeasePrefix = 16;
constexpr uint32_t kLeases = 0xFFFE;

uint64_t hash(const std::string& text) {
  uint64_t value = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : text) value = (value ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  value ^= value >> 29;  // so far the last characters have changed only the low bits
  value *= 0xbf58476d1ce4e5b9u;
  return value ^ value >> 32;
}

/// The host that has `ip`, or nullptr. A host whose members are gone keeps its addresses as long as their numbers rest.
const MemberRecord* owner_of(const Directory& directory, const IpAddress& ip) {
  const MemberRecord* owner = nullptr;
  directory.for_each_record([&](const MemberRecord& record) {
    const auto has = [&](const LocalAddress& address) { return address.ip == ip; };
    if (owner == nullptr && std::any_of(record.addresses.begin(), record.addresses.end(), has)) owner = &record;
  });
  return owner;
}

/// The private address of the host.
std::optional<LocalAddress> lease_of(const Directory& directory, const std::string& host) {
  for (const auto& [id, record] : directory.members()) {
    if (record.host != host) continue;
    const auto leased = std::find_if(record.addresses.begin(), record.addresses.end(), is_leased);
    if (leased != record.addresses.end()) return *leased;
  }
  return std::nullopt;
}

}  // namespace

MacAddress mac_of_host(const std::string& host) {
  const uint64_t value = hash(host);
  MacAddress mac{{0x02, 0x75}};  // locally administered; not a prefix to which analysers give a name
  for (unsigned i = 2; i < 6; i++) mac.bytes[i] = static_cast<uint8_t>(value >> (8 * (i - 2)));
  return mac;
}

bool is_leased(const LocalAddress& address) {
  return address.ip.is_v4() && address.ip.v4_host_order() >> 16 == kLeaseNetwork >> 16 && address.vlan_id == 0;
}

std::vector<LocalAddress> choose_addresses(const Directory& directory, const std::string& host,
                                           const std::vector<LocalAddress>& own) {
  std::vector<LocalAddress> chosen;
  for (const LocalAddress& address : own) {
    const MemberRecord* const owner = owner_of(directory, address.ip);
    if (owner == nullptr || owner->host == host) chosen.push_back(address);
  }
  const auto leased = lease_of(directory, host);
  const bool more = leased && std::find(chosen.begin(), chosen.end(), *leased) == chosen.end();
  chosen.resize(std::min(chosen.size(), more ? kAddressesMax - 1 : kAddressesMax));
  if (more) chosen.push_back(*leased);
  if (!chosen.empty()) return chosen;
  const auto first = static_cast<uint32_t>(hash(host) % kLeases);
  for (uint32_t i = 0; i < kLeases; i++) {
    const IpAddress ip = IpAddress::v4(kLeaseNetwork + 1 + (first + i) % kLeases);
    const MemberRecord* const owner = owner_of(directory, ip);
    if (owner == nullptr || owner->host == host) return {{ip, kLeasePrefix, 0}};
  }
  return {};
}

}  // namespace uroce::segment
