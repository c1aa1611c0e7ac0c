// The other members of the segment, and which of them a frame is for.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "segment/direct_way.h"
#include "segment/directory.h"
#include "segment/lane.h"
#include "segment/lost_member.h"
#include "segment/scan_rest.h"
#include "segment/shared_memory.h"
#include "uroce/address.h"
#include "uroce/time.h"

namespace uroce::segment {

/// What `Bells` knows of a peer to which frames were sent.
struct Watch {
  bool fresh = false;              // frames were sent since the last `Bells::ring`
  bool watched = false;            // frames that were sent may lie there unread
  uint32_t rung = 0;               // the peer's bell when it was last rung
  std::optional<uint64_t> lay_at;  // what the peer had read at the last look, and more lay there
};

/// What two members share once they have had contact.
struct Lane {
  Lane(OwnMemory own, FramePool& pool)
      : memory(std::move(own)),
        sender(*static_cast<LaneMemory*>(memory.data()), pool),
        receiver(*static_cast<LaneMemory*>(memory.data())) {}

  OwnMemory memory;
  PeerMemory peer_base;
  PeerMemory peer_lane;
  LaneSender sender;
  LaneReceiver receiver;
  bool confirmed = false;  // the peer has mapped our memory, too
  unsigned hellos = 0;
  Instant next_hello;  // when to introduce ourselves again, unless confirmed
  Watch watch;
  bool queued = false;                       // frames wait
  bool unread = false;                       // something was unread when the peer was last looked at
  uint64_t seen_at = 0;                      // what the peer had read ...
  Instant seen;                              // ... at the first look since which it has read no more
  Instant unknown_since = Instant::never();  // the peer has had no record
  DirectWay direct;

  LaneMemory& own() const { return *static_cast<LaneMemory*>(memory.data()); }
  const LaneMemory* theirs() const { return static_cast<const LaneMemory*>(peer_lane.data()); }
  const BaseMemory* base() const { return static_cast<const BaseMemory*>(peer_base.data()); }
};

struct Peer {
  MemberId id = 0;
  MacAddress mac;
  Role role = Role::kProgram;
  bool link_up = true;                  // as its record says
  std::vector<LocalAddress> addresses;  // likewise, unless it is a program
  uint32_t mtu = 0;                     // likewise, of an uplink
  std::vector<Listening> listens;       // likewise
  std::vector<MacAddress> groups;       // likewise
  std::vector<MacAddress> raw;          // likewise
  bool raw_all = false;                 // likewise
  bool shut = false;                    // likewise
  bool told_shut = false;               // the log says so
  bool takes_raw(const MacAddress& to) const { return raw_all || std::find(raw.begin(), raw.end(), to) != raw.end(); }
  bool in_group(const MacAddress& group) const {
    return std::find(groups.begin(), groups.end(), group) != groups.end();
  }
  bool held_back = false;      // what the peer has sent stays in its ring for now, because ...
  int64_t allowance = 0;       // ... it has sent so many bytes more (-) than it may; an uplink counts them
  std::unique_ptr<Lane> lane;  // nullptr: no contact yet
  /// Whether it can be reached: a member that is shut out reads no letter of somebody whom it does not know.
  bool can_be_met() const { return !shut || (lane && lane->confirmed); }
};

/// The line about a peer that cannot be met; once of each.
inline std::string line_of_shut(Peer& peer) {
  if (peer.can_be_met() || std::exchange(peer.told_shut, true)) return "";
  return "a program of this machine has changed its user and may not look into the directory where programs meet any "
         "more: it and this one do not reach each other";
}

class Peers {
 public:
  /// How often a directory that changes is read because of frames: for an unknown receiver; and for connection
  /// management, whose senders repeat only after seconds, so that a member that has just joined should be found.
  static constexpr Duration kReadForUnknown = milliseconds(2);
  static constexpr Duration kReadForManagement = microseconds(200);

  /// All members but `own`. `directory` outlives them.
  /// `rests`: `refresh` puts off a scan, and returns false, so soon after one that took long that scans take no more
  /// than a twentieth of the time.
  Peers(Directory& directory, MemberId own, const MacAddress& own_mac, bool rests = false)
      : directory_(directory), own_(own), own_mac_(own_mac), rest_(rests) {}

  /// The member that a frame is for; nullptr: no single one, as far as the last scan tells. None has numbers 0 and 1.
  Peer* find(const MacAddress& mac, uint32_t qpn) {
    if (mac == own_mac_) return own_host_[qpn >> kQpnBlockBits];
    return find_at_other_host(mac, qpn);
  }
  Peer* find(MemberId id) const;
  /// Scans the directory, unless nothing has changed there; `always`: also for members that were killed, whose end
  /// changes nothing there. False when it could not be read as a whole: then members may be missing here.
  bool refresh(bool always = false);
  /// The same because of a frame, of which there may be many: at most once in `period`. Also false when it did not
  /// scan.
  bool refresh_for_frame(Instant now, Duration period) {
    if (now - refreshed_ < period) return false;
    refreshed_ = now;
    return refresh();
  }
  /// The same because of a frame that only programs with flows take: these have a period of their own, so that they do
  /// not delay a scan for other frames.
  void refresh_for_raw(Instant now) {
    if (now - refreshed_for_raw_ < kReadForUnknown) return;
    refreshed_for_raw_ = now;
    refresh();
  }
  /// Which MAC has this address; nothing when no host of the segment has it.
  std::optional<MacAddress> mac_of(const IpAddress& ip) const;
  Directory::Life life(const Peer& peer) const { return directory_.life(peer.id); }
  /// The member that has this MAC to itself, or is the uplink of the host that has it; nullptr: there is none.
  Peer* station_of(const MacAddress& mac) const;
  /// The programs of the host with this MAC.
  template <typename F>
  void for_each_program(const F& f) const {
    for (const auto& [id, peer] : peers_) {
      if (peer->role == Role::kProgram) f(*peer);
    }
  }
  template <typename F>
  void for_each_program(const MacAddress& mac, F&& f) const {
    for (const auto& [id, peer] : peers_) {
      if (peer->mac == mac && peer->role == Role::kProgram) f(*peer);
    }
  }
  /// The program of the host with this MAC that listens to a service; nullptr: none does, as far as the last scan
  /// tells.
  /// `shut`: becomes one that listens and cannot be met.
  Peer* listener(const MacAddress& mac, uint64_t service_id, Peer** shut = nullptr) const;
  /// Programs that take raw packets.
  const std::vector<Peer*>& raw_takers() const { return raw_takers_; }
  /// Members that are no programs.
  const std::vector<Peer*>& stations() const { return stations_; }
  /// Each member may have so many blocks; those that it claims beyond them belong to no member. 0: no limit.
  void set_blocks_max(size_t blocks) { blocks_max_ = blocks; }
  /// The peer is gone. Its lane must have nothing left to receive. Returns what is to be reported.
  LostMember remove(Peer& peer);

  /// The peers with which there is contact.
  const std::vector<Peer*>& in_contact() const { return in_contact_; }
  /// A peer that is not stuck has not yet read what was sent to it: that lies in our memory, and ends with us.
  bool unread() const;
  size_t size() const { return peers_.size(); }
  /// Other hosts of which there are members.
  size_t hosts() const { return others_.size(); }
  /// `peer` has a lane now.
  void note_contact(Peer& peer) { in_contact_.push_back(&peer); }

  /// Goes up whenever `find` may have another answer than before, or a peer is gone.
  uint64_t epoch = 1;

 private:
  using Blocks = std::array<Peer*, kQpnBlocks>;
  struct OtherHost {
    MacAddress mac;
    std::unique_ptr<Blocks> blocks;
    Peer* station = nullptr;  // has this MAC to itself, and so all its queue pair numbers
  };
  Peer* find_at_other_host(const MacAddress& mac, uint32_t qpn);
  Blocks& blocks_of(const MacAddress& mac) { return mac == own_mac_ ? own_host_ : *other_host(mac).blocks; }
  OtherHost& other_host(const MacAddress& mac);
  void take_blocks(Peer& peer, const MemberRecord& record);
  void find_way_out();

  Directory& directory_;
  const MemberId own_;
  const MacAddress own_mac_;
  std::map<MemberId, std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> in_contact_;
  Blocks own_host_{};
  std::vector<OtherHost> others_;
  std::vector<Peer*> stations_;
  std::vector<Peer*> raw_takers_;
  Peer* way_out_ = nullptr;  // the only member that takes frames for unknown destinations
  size_t blocks_max_ = 0;
  Instant refreshed_{0};  // because of a frame
  Instant refreshed_for_raw_{0};
  uint64_t scan_ = 0;  // of the directory, whose result is here
  ScanRest rest_;
};

}  // namespace uroce::segment
