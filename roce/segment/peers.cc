#include "segment/peers.h"

#include <algorithm>

namespace uroce::segment {

Peer* Peers::find_at_other_host(const MacAddress& mac, uint32_t qpn) {
  for (const OtherHost& host : others_) {
    if (host.mac == mac) return (*host.blocks)[qpn >> kQpnBlockBits];
  }
  return nullptr;
}

Peer* Peers::find(MemberId id) const {
  const auto found = peers_.find(id);
  return found == peers_.end() ? nullptr : found->second.get();
}

Peers::Blocks& Peers::blocks_of(const MacAddress& mac) {
  if (mac == own_mac_) return own_host_;
  for (const OtherHost& host : others_) {
    if (host.mac == mac) return *host.blocks;
  }
  others_.push_back({mac, std::make_unique<Blocks>()});
  return *others_.back().blocks;
}

void Peers::refresh(bool always) {
  if (!always && !directory_.maybe_changed()) return;
  directory_.scan();
  // First who is gone: others may have their numbers by now. Those with which there was contact are looked after
  // one by one.
  std::vector<Peer*> gone;
  for (const auto& [id, peer] : peers_) {
    if (!peer->lane && directory_.members().count(id) == 0) gone.push_back(peer.get());
  }
  for (Peer* peer : gone) remove(*peer);
  for (const auto& [id, card] : directory_.members()) {
    if (id == own_) continue;
    std::unique_ptr<Peer>& peer = peers_[id];
    if (!peer) {
      peer = std::make_unique<Peer>();
      peer->id = id;
      peer->mac = card.mac;
    }
    if (peer->mac != card.mac) continue;  // nobody moves to another host
    Blocks& blocks = blocks_of(card.mac);
    for (const uint32_t block : card.blocks) {
      // Who claims what another has gets nothing.
      if (blocks[block] == nullptr) blocks[block] = peer.get();
    }
  }
}

std::optional<MacAddress> Peers::mac_of(const IpAddress& ip) const {
  for (const auto& [id, card] : directory_.members()) {
    if (link_local_of(card.mac) == ip) return card.mac;
    for (const LocalAddress& address : card.addresses) {
      if (address.ip == ip) return card.mac;
    }
  }
  return std::nullopt;
}

void Peers::remove(Peer& peer) {
  for (Peer*& block : blocks_of(peer.mac)) {
    if (block == &peer) block = nullptr;
  }
  std::erase(in_contact_, &peer);
  const MacAddress mac = peer.mac;
  peers_.erase(peer.id);
  const auto belongs = [&](const auto& other) { return other.second->mac == mac; };
  if (std::any_of(peers_.begin(), peers_.end(), belongs)) return;
  std::erase_if(others_, [&](const OtherHost& host) { return host.mac == mac; });
}

}  // namespace uroce::segment
