// What a requester sent: every packet, the READs and atomics among them, and the path MTU that follows from them.
#pragma once

#include <cstdint>
#include <optional>

#include "lint/packet.h"
#include "lint/path_mtu.h"
#include "lint/reads.h"
#include "lint/sent_log.h"

namespace uroce::lint {

/// Of the extension headers and the solicited bit, which are the same each time that a request is sent. Not so for a
/// READ that is asked again for its rest.
uint32_t header_crc_of(const Packet& packet);

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

  /// The path MTU in bytes; 0 while it is not known.
  uint32_t mtu() const { return mtu_; }
  bool span_is_known(const Packet& packet) const;
  /// The PSNs that a request takes. As long as the path MTU is not known, a READ may take more.
  uint32_t span_of(const Packet& packet) const;
  uint32_t longest_span_of(const Packet& packet) const;

  /// The log entry for a packet that comes after `before`, which is nullptr when that one was not seen.
  Sent describe(const Packet& packet, const Sent* before) const;
  /// A run of packets begins, before which nothing was seen. Returns its number, from 1.
  uint32_t begin_run() { return ++epoch_; }
  /// Packets from `oldest` on are kept.
  void log(const Sent& sent, Psn oldest) { log_.put(sent, oldest); }
  void set_last(const Sent& sent) { last_ = sent; }

  /// Sets the path MTU, so that the number of PSNs of earlier READs is known. Returns the end of the newest packet, if
  /// it is one of them.
  std::optional<Psn> learn_mtu(uint32_t bytes);

 private:
  SentLog log_;
  Sent last_;
  Reads reads_;
  uint32_t mtu_ = 0;
  uint32_t epoch_ = 0;
};

}  // namespace uroce::lint
