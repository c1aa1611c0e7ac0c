// A queue pair: the state machine, and the requester and responder that it joins.
//
// Sans-I/O. Work requests, packets and time go in; frames (into memory that the caller owns) and completions come out.
// Nothing is rolled back: `poll_transmit` is called only with room for a frame that will be sent.
//
// After any call that can change them (`modify`, `post_send`, `on_packet`, `on_timeout`, `poll_transmit`), ask
// `wants_transmit` and `next_timeout` again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/time.h"
#include "transport/tx_frame.h"
#include "transport/qp_attributes.h"
#include "transport/qp_context.h"
#include "transport/receive_queue.h"
#include "transport/requester.h"
#include "transport/responder.h"

namespace uroce {

class Qp {
 public:
  Qp(const QpInit& init, uint32_t qpn, uint32_t index, TransportEnv& env, void* user);
  ~Qp();

  uint32_t qpn() const { return context_.qpn; }
  uint32_t index() const { return index_; }  // its slot in the engine's table
  void* user() const { return user_; }
  QpType type() const { return context_.type; }
  QpState state() const { return context_.state; }
  const QpInit& init() const { return init_; }
  const QpAttributes& attributes() const { return context_.attributes; }
  const PathSpec& path() const { return context_.path; }
  bool path_resolved() const { return context_.path_resolved; }

  /// Checks the transition and its attributes, then applies them. `path`: where the address vector leads (nullptr:
  /// unchanged, or no route).
  ModifyResult modify(const QpAttributes& attributes, uint32_t mask, const PathSpec* path, Instant now);
  /// The peer's MAC became known, or changed: what was lost for want of it is sent again at once.
  void on_path_resolved(const MacAddress& mac, Instant now);

  PostResult post_send(const SendWr& wr);
  PostResult post_recv(const RecvWr& wr);

  /// A packet of this QP's service, addressed to it, with a good iCRC.
  void on_packet(const PacketView& packet, Instant now);
  void on_timeout(Instant now);
  /// Fills `frame`. False when there is nothing to send now.
  bool poll_transmit(TxFrame& frame, Instant now);
  bool wants_transmit(Instant now) const;
  Instant next_timeout() const;
};

}  // namespace uroce
