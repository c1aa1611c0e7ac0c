// What a requester sent: every packet, the READs and atomics among them, and the path MTU that all this shows.
#pragma once

#include <cstdint>
#include <optional>

#include "lint/packet.h"
#include "lint/path_mtu.h"
#include "lint/reads.h"
#include "lint/sent_log.h"

namespace uroce::lint {

class SentRequests {
 public:
  const Sent* find(Psn psn) const { return log_.find(psn); }
  Sent* find(Psn psn) { return log_.find(psn); }
  /// The packet that stands right in front of `psn`, when it was seen.
  const Sent* before(Psn psn) const;
  /// The newest packet, unset before the first.
  const Sent& last() const { return last_; }

  const Reads& reads() const { return reads_; }
  Reads& reads() { return reads_; }
  const Read* find_read(Psn psn) const { return reads_.find(psn); }
  Read* find_read(Psn psn) { return reads_.find(psn); }

  /// Bytes; 0: not known yet.
  uint32_t mtu() const { return mtu_; }
  bool span_is_known(const Packet& packet) const;
  /// PSNs that a request takes. As long as the path MTU is not known, a READ may take more.
  uint32_t span_of(const Packet& packet) const;
  uint32_t longest_span_of(const Packet& packet) const;

  /// What the log holds of a packet that comes behind `before`, when that was seen.
  Sent describe(const Packet& packet, const Sent* before) const;
  /// A run of packets begins: nothing was seen in front of it. Gives its number, from 1.
  uint32_t begin_run() { return ++epoch_; }
  /// `oldest`: packets from here on are still wanted.
  void log(const Sent& sent, Psn oldest) { log_.put(sent, oldest); }
  void set_last(const Sent& sent) { last_ = sent; }

  /// READs that came before now have their PSNs. Gives the end of the newest, when it is among them.
  std::optional<Psn> learn_mtu(uint32_t bytes);

 private:
  SentLog log_;
  Sent last_;
  Reads reads_;
  uint32_t mtu_ = 0;
  uint32_t epoch_ = 0;
};

}  // namespace uroce::lint
