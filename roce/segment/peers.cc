#include "segment/peers.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace uroce::segment {

Peer* Peers::find_at_other_host(const MacAddress& mac, uint32_t qpn) {
  for (const OtherHost& host : others_) {
    if (host.mac != mac) continue;
    Peer* const owner = (*host.blocks)[qpn >> kQpnBlockBits];
    return owner != nullptr ? owner : host.station;
  }
  return mac.is_multicast() ? nullptr : way_out_;
}

Peer* Peers::station_of(const MacAddress& mac) const {
  const auto found = std::find_if(stations_.begin(), stations_.end(),
                                  [&](const Peer* peer) { return peer->mac == mac && peer->role != Role::kBridge; });
  return found == stations_.end() ? nullptr : *found;
}

/// The listener with the more specific mask wins.
Peer* Peers::listener(const MacAddress& mac, uint64_t service_id, Peer** shut) const {
  Peer* found = nullptr;
  int bits = -1;
  for_each_program(mac, [&](Peer& peer) {
    for (const Listening& listening : peer.listens) {
      if (!listening.covers(service_id)) continue;
      if (!peer.can_be_met()) {
        if (shut != nullptr) *shut = &peer;
        continue;
      }
      if (std::popcount(listening.mask) <= bits) continue;
      bits = std::popcount(listening.mask);
      found = &peer;
    }
  });
  return found;
}

Peer* Peers::find(MemberId id) const {
  const auto found = peers_.find(id);
  return found == peers_.end() ? nullptr : found->second.get();
}

Peers::OtherHost& Peers::other_host(const MacAddress& mac) {
  for (OtherHost& host : others_) {
    if (host.mac == mac) return host;
  }
  others_.push_back({mac, std::make_unique<Blocks>()});
  return others_.back();
}

bool Peers::refresh(bool always) {
  // Other parts scan the directory, too, as BlockClaims does. What they found may be new here.
  const bool due = rest_.owed() || always || directory_.maybe_changed();
  const bool whole = !due || rest_.scan(directory_);
  if (directory_.scans() == std::exchange(scan_, directory_.scans())) return whole;
  epoch++;
  // First the members that are gone: others may have their numbers by now. PeerChecks removes those that were in
  // contact, one by one.
  std::vector<Peer*> gone;
  for (const auto& [id, peer] : peers_) {
    if (directory_.members().count(id) != 0) continue;
    peer->listens.clear();
    peer->groups.clear();
    peer->raw.clear();
    peer->raw_all = false;
    if (!peer->lane) gone.push_back(peer.get());
  }
  for (Peer* peer : gone) static_cast<void>(remove(*peer));
  for (const auto& [id, record] : directory_.members()) {
    if (id == own_) continue;
    std::unique_ptr<Peer>& peer = peers_[id];
    if (!peer) {
      peer = std::make_unique<Peer>();
      peer->id = id;
      peer->mac = record.mac;
      peer->role = record.role;
      if (peer->role != Role::kProgram) stations_.push_back(peer.get());
      if (peer->role == Role::kStation && record.mac != own_mac_) other_host(record.mac).station = peer.get();
    }
    if (peer->mac != record.mac || peer->role != record.role) continue;  // no member moves to another host
    peer->link_up = record.link_up;
    if (peer->role != Role::kProgram) peer->addresses = record.addresses;
    peer->mtu = record.mtu;
    peer->listens = record.listens;
    peer->groups = record.groups;
    peer->raw = record.raw.macs;
    peer->raw_all = record.raw.all;
    peer->shut = record.shut;
    take_blocks(*peer, record);
  }
  raw_takers_.clear();
  for_each_program([this](Peer& peer) {
    if (peer.raw_all || !peer.raw.empty()) raw_takers_.push_back(&peer);
  });
  find_way_out();
  return whole;
}

void Peers::take_blocks(Peer& peer, const MemberRecord& record) {
  if (peer.role == Role::kBridge) return;
  Blocks& blocks = blocks_of(record.mac);
  const size_t count = blocks_max_ == 0 ? record.blocks.size() : std::min(record.blocks.size(), blocks_max_);
  for (size_t i = 0; i < count; i++) {
    // A member that claims another's block does not get it.
    Peer*& owner = blocks[record.blocks[i]];
    if (owner == nullptr) owner = &peer;
  }
}

/// The uplink of our own host goes before any other.
void Peers::find_way_out() {
  const auto count = [this](auto&& takes) {
    way_out_ = nullptr;
    size_t found = 0;
    for (Peer* peer : stations_) {
      if (!takes(*peer)) continue;
      way_out_ = peer;
      found++;
    }
    return found;
  };
  if (count([this](const Peer& peer) { return peer.role == Role::kUplink && peer.mac == own_mac_; }) == 1) return;
  if (count([](const Peer& peer) { return peer.role == Role::kUplink || peer.role == Role::kBridge; }) != 1)
    way_out_ = nullptr;
}

std::optional<MacAddress> Peers::mac_of(const IpAddress& ip) const {
  std::optional<MacAddress> found;
  for (const auto& [id, record] : directory_.members()) {
    if (record.role == Role::kBridge) continue;
    const auto& own = record.addresses;
    const bool has = link_local_of(record.mac) == ip ||
                     std::any_of(own.begin(), own.end(), [&](const LocalAddress& address) { return address.ip == ip; });
    // Programs that joined before an uplink may have taken an address of the uplink's.
    if (has && (!found || record.role != Role::kProgram)) found = record.mac;
  }
  return found;
}

bool Peers::unread() const {
  return std::any_of(in_contact_.begin(), in_contact_.end(), [](const Peer* peer) {
    return peer->lane && !peer->lane->sender.stuck() && peer->lane->sender.unread();
  });
}

LostMember Peers::remove(Peer& peer) {
  epoch++;
  LostMember lost{peer.mac, peer.role == Role::kStation && peer.mac != own_mac_, {}};
  Blocks& blocks = blocks_of(peer.mac);
  for (uint32_t i = 0; i < blocks.size(); i++) {
    if (blocks[i] != &peer) continue;
    blocks[i] = nullptr;
    lost.blocks.push_back(i);
  }
  for (OtherHost& host : others_) {
    if (host.station == &peer) host.station = nullptr;
  }
  std::erase(in_contact_, &peer);
  std::erase(raw_takers_, &peer);
  if (std::erase(stations_, &peer) != 0) find_way_out();
  const MacAddress mac = peer.mac;
  peers_.erase(peer.id);
  const auto is_there = [&](const auto& entry) { return entry.second->mac == mac; };
  if (std::any_of(peers_.begin(), peers_.end(), is_there)) {
    lost.whole_host = false;  // whatever its role, other members have this MAC
  } else {
    // A host without members may turn up elsewhere.
    std::erase_if(others_, [&](const OtherHost& host) { return host.mac == mac; });
  }
  return lost;
}

}  // namespace uroce::segment
