// One copy: memory of another process of this machine is read and written in place, without a frame, and this process
// shows what of its own others may reach that way.
//
// The transport asks for it, and the port implements it (segment/direct_copies.h); an engine without it sends
// everything in frames. Everything is called by the owner of the engine. Nothing that a peer shows is believed: it is
// copied, and the copy is checked (transport/direct_checks.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "uroce/address.h"
#include "uroce/time.h"

namespace uroce {

/// A memory region, as its owner shows it.
struct ShownRegion {
  uint32_t key = 0;  // 0: none
  uint32_t pd = 0;
  uint32_t access = 0;  // Access
  uint64_t iova = 0;    // first address as peers name it
  uint64_t length = 0;
  uint64_t memory = 0;  // the address of `iova` in the owner's process
  bool operator==(const ShownRegion&) const = default;
};

/// A queue pair that takes requests, as its owner shows it.
struct ShownQueuePair {
  uint32_t qpn = 0;  // 0: none
  uint32_t dest_qpn = 0;
  uint32_t pd = 0;
  uint32_t access = 0;  // Access
  uint32_t reads = 0;   // that it answers at a time
  uint16_t vlan_id = 0;
  IpAddress own = {};  // the addresses between which its connection is
  IpAddress peer = {};
  bool operator==(const ShownQueuePair&) const = default;
};

/// What a peer shows of the two that a request names.
struct ShownTarget {
  ShownQueuePair qp;
  uint32_t next_psn = 0;  // that the queue pair expects
  ShownRegion region;
};

/// Memory of this process.
struct DirectPiece {
  uint8_t* memory = nullptr;
  size_t bytes = 0;
};

/// The process that has a queue pair.
class DirectPeer {
 public:
  virtual ~DirectPeer() = default;
  /// Whether it shows both of them, as far as a look tells.
  virtual bool shows(uint32_t qpn, uint32_t key) const = 0;
  /// From now on until `end`, which always follows, the peer waits before it takes back what it shows. False when it
  /// does not show both of them.
  virtual bool begin(uint32_t qpn, uint32_t key, ShownTarget& target, Instant now) = 0;
  virtual void end() = 0;
  // Between the two. False when not everything could be copied; what was copied then stays. At most kPiecesMax pieces.
  static constexpr size_t kPiecesMax = 32;
  /// `ends`: the message ends here. On x86, whoever sees its last eight bytes sees all others.
  virtual bool write(uint64_t to, std::span<const DirectPiece> from, bool ends) = 0;
  virtual bool read(uint64_t from, std::span<const DirectPiece> to) = 0;
};

class DirectCopy {
 public:
  virtual ~DirectCopy() = default;

  /// Who has this queue pair; nullptr: it cannot be reached this way, so frames have to do. Valid until the next call.
  virtual DirectPeer* find(const MacAddress& mac, uint32_t qpn) = 0;

  // What others may reach. There is room for some: what finds none is not shown, and frames have to do.
  virtual void show(const ShownRegion& region) = 0;
  /// Returns when no peer copies any more that may have seen the region. That is at most a moment, but for a peer that
  /// was stopped: it is given a second, and is never let in again (doc/adr/0022-one-copy.md).
  virtual void hide_region(uint32_t key) = 0;
  /// Shows it, or what has changed of it. Returns where to store the PSN that the queue pair expects, until it is
  /// hidden; nullptr: it is not shown.
  virtual std::atomic<uint32_t>* show(const ShownQueuePair& qp) = 0;
  virtual void hide_queue_pair(uint32_t qpn) = 0;  // waits as for a region
  /// While paused, nothing is copied in either direction: everything goes in frames, for who wants to see them.
  virtual void pause(bool paused) = 0;
};

}  // namespace uroce
