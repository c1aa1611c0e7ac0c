// The READs and atomics that a responder carried out last, for a peer that asks for one of them again.
//
// As many as the peer may have in flight (max_dest_rd_atomic), so it asks for no other. A packet with an old PSN costs
// its sender nothing, so nothing may be had for it that was not given before: not other memory, not another atomic's
// result, not more traffic than retries make.
#pragma once

#include <cstdint>
#include <vector>

#include "uroce/psn.h"
#include "wire/headers.h"
#include "wire/opcode.h"

namespace uroce {

class ExecutedLog {
 public:
  struct Entry {
    Operation operation = Operation::kSend;  // kSend: an empty place
    Psn psn;                                 // of its first response
    Reth read;
    Psn furthest_repeat;  // READ: the furthest place from which it was asked for again
    // READ: how many packets were asked for again since its requester got further in it, or in an older one.
    uint32_t repeated_packets = 0;
    AtomicEth atomic;
    uint64_t original = 0;  // atomic: the value before
  };

  /// So many are remembered; none is now.
  void make_room(uint32_t depth);
  /// The same, and what is remembered stays.
  void grow(uint32_t depth);
  /// A new connection. `mtu`: payload bytes of a full packet.
  void start(uint32_t mtu);
  void clear();

  // Each takes the place of the oldest.
  void add_read(Psn psn, const Reth& reth);
  void add_atomic(Operation operation, Psn psn, const AtomicEth& eth, uint64_t original);

  /// The READ that this one repeats, whole or in part: with the same key, and each byte of memory at the PSN that it
  /// had. nullptr: there is none, or it was repeated as often as retries explain.
  Entry* find_read(Psn psn, const Reth& reth);
  /// `read` is answered again, from `psn` on.
  void on_repeated(Entry& read, Psn psn, uint32_t packets);
  /// The same request, to the last bit: another one with an old PSN gets no answer that was meant for this one.
  const Entry* find_atomic(Operation operation, Psn psn, const AtomicEth& eth) const;

 private:
  Entry& add(Operation operation, Psn psn);
  Entry& entry(uint32_t age);
  bool repeats_left(const Entry& read, Psn psn) const;

  std::vector<Entry> entries_;  // a ring
  uint32_t next_ = 0;
  uint32_t mtu_ = 1;
};

}  // namespace uroce
