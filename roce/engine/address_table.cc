#include "engine/address_table.h"

#include "base/check.h"

namespace uroce {

namespace {

bool has(std::span<const LocalAddress> list, const LocalAddress& address) {
  return std::find(list.begin(), list.end(), address) != list.end();
}

}  // namespace

AddressTable::AddressTable(const MacAddress& mac, std::span<const LocalAddress> addresses)
    : mac_(mac), gids_{{link_local_of(mac), 64, 0}} {
  for (const LocalAddress& address : addresses) {
    if (!has(gids_, address) && gids_.size() < kGidsMax) gids_.push_back(address);
  }
}

uint16_t AddressTable::lid() const {
  const LocalAddress* v4 = first_v4();
  return v4 != nullptr ? static_cast<uint16_t>(v4->ip.v4_host_order()) : 0;
}

std::vector<LocalAddress> AddressTable::present() const {
  std::vector<LocalAddress> rows = gids_;
  std::erase_if(rows, [](const LocalAddress& row) { return row.ip.is_zero(); });
  return rows;
}

const LocalAddress* AddressTable::row(uint32_t index) const {
  return index < gids_.size() && !gids_[index].ip.is_zero() ? &gids_[index] : nullptr;
}

const LocalAddress* AddressTable::first_v4() const {
  const auto v4 = std::find_if(gids_.begin(), gids_.end(), [](const LocalAddress& a) { return a.ip.is_v4(); });
  return v4 != gids_.end() ? &*v4 : nullptr;
}

bool AddressTable::set(std::span<const LocalAddress> addresses) {
  const size_t rows = gids_.size();
  bool changed = remove_absent(addresses);
  for (const LocalAddress& address : addresses) {
    if (address.ip.is_zero() || has(gids_, address)) continue;
    if (!add(address)) break;
    changed = true;
  }
  ensure(gids_[0].ip == link_local_of(mac_), "GID 0 stays");
  ensure(gids_.size() >= rows, "GIDs keep their numbers");
  if (changed) version_++;
  return changed;
}

/// Rows of absent addresses become holes.
bool AddressTable::remove_absent(std::span<const LocalAddress> addresses) {
  bool changed = false;
  for (LocalAddress& row : std::span(gids_).subspan(1)) {
    if (row.ip.is_zero() || has(addresses, row)) continue;
    row = {};
    changed = true;
  }
  return changed;
}

/// Adds it in the first hole, or behind the last row. False: no room.
bool AddressTable::add(const LocalAddress& address) {
  const auto hole = std::find_if(gids_.begin(), gids_.end(), [](const LocalAddress& a) { return a.ip.is_zero(); });
  if (hole != gids_.end()) {
    *hole = address;
  } else if (gids_.size() < kGidsMax) {
    gids_.push_back(address);
  } else {
    return false;
  }
  return true;
}

}  // namespace uroce
