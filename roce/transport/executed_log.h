// The latest READs and atomics that a responder carried out, kept for a peer that asks for one of them again.
//
// The log keeps as many as the peer may have in flight (max_dest_rd_atomic), so an honest peer asks for no others.
// Anybody can send a packet with an old PSN, so such a packet must not obtain anything that was not given before: no
// other memory, no other atomic's result, and no more traffic than retries cause.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "packet/headers.h"
#include "packet/opcode.h"
#include "uroce/psn.h"

namespace uroce {

class ExecutedLog {
 public:
  struct Entry {
    Operation operation = Operation::kSend;  // kSend: this entry is empty
    Psn psn;                                 // PSN of its first response
    Reth read;
    Psn furthest_repeat;  // READ: the furthest PSN from which it was asked for again
    // READ: how many packets were asked for again since the requester last got further in this READ or in an older one.
    uint32_t repeated_packets = 0;
    bool began_here = false;  // READ: a requester that went back has begun with it
    AtomicEth atomic;
    uint64_t original = 0;  // atomic: the value before
  };

  /// From now on `depth` of them are kept. The log is empty afterwards.
  void make_room(uint32_t depth);
  /// The same, but the entries stay.
  void grow(uint32_t depth);
  /// Begins anew for a connection. `mtu` is the payload of a full packet in bytes.
  void start(uint32_t mtu);
  void clear();

  // Each replaces the oldest entry.
  void add_read(Psn psn, const Reth& reth);
  void add_atomic(Operation operation, Psn psn, const AtomicEth& eth, uint64_t original);

  /// The READ that this one repeats as a whole or in part: it has the same key, and each byte of memory has the same
  /// PSN as before. nullptr when there is none, or when it was already repeated as often as retries can explain.
  Entry* find_read(Psn psn, const Reth& reth);
  /// `read` is answered again from `psn` on, with so many packets.
  void on_repeated(Entry& read, Psn psn, uint32_t packets);
  /// The atomic that is identical in every bit, or nullptr: another request with the same old PSN must not get the
  /// answer that was meant for this one.
  const Entry* find_atomic(Operation operation, Psn psn, const AtomicEth& eth) const;

 private:
  Entry& add(Operation operation, Psn psn);
  Entry& entry(uint32_t age);
  bool repeats_left(const Entry& read, Psn psn) const;
  void on_asked(uint32_t age, Psn psn);

  std::vector<Entry> entries_;  // a ring
  uint32_t next_ = 0;
  std::optional<Psn> last_asked_;  // the READ that was asked for again last; none since the latest new request
  uint32_t mtu_ = 1;
};

}  // namespace uroce
