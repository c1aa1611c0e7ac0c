// A queue pair: the state machine, and the sending and receiving sides that it joins.
//
// A Qp does no I/O. Work requests, packets and time go in; frames (in memory that the caller owns) and completions come
// out. Nothing is rolled back: `poll_transmit` is called only with room for a frame that will be sent. All calls come
// from the thread that owns the engine.
//
// After any call that can change them (`modify`, `post_send`, `post_recv`, `on_packet`, `on_timeout`, `poll_transmit`),
// ask `wants_transmit` and `next_timeout` again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "transport/qp_core.h"
#include "uroce/port.h"
#include "uroce/qp_attributes.h"
#include "uroce/time.h"
#include "uroce/work_request.h"

namespace uroce {

class CongestionControl;
class PeerLink;
class Requester;
class Responder;
class SendQueue;
class SharedReceiveQueue;
struct FirstError;
struct PacketView;
struct QpBody;
struct QpInit;
struct RawFrame;
struct TransportEnv;

class Qp {
 public:
  Qp(const QpInit& init, uint32_t qpn, uint32_t index, uint32_t port_mtu, TransportEnv& env, void* user);
  ~Qp();
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  uint32_t qpn() const { return core_.qpn; }
  uint32_t index() const { return index_; }  // its slot in the engine's table
  void* user() const { return user_; }
  QpType type() const { return core_.type; }
  QpState state() const { return core_.state; }
  const QpInit& init() const;  // qp_init.h
  /// The attributes as they were set, with the current `state`, `cur_state` and `sq_draining`.
  QpAttributes attributes() const;
  /// Leads the link to where the next frame goes, and returns it; of datagrams, that at the head of the queue. Raw
  /// packets go nowhere in particular.
  PeerLink& lead_link();
  const Route& path() const { return core_.path; }
  bool path_resolved() const { return core_.path_resolved; }
  bool connected() const { return !is_datagram(core_.type); }

  /// Checks the transition and its attributes, then applies them. `path` is where attributes.av leads, and is needed
  /// when the mask has kAttrAv; `resolved` says whether the peer's MAC address in it is known.
  ModifyResult modify(const QpAttributes& attributes, uint32_t mask, const Route* path, bool resolved, Instant now);
  /// The peer's MAC address became known, or changed. What was lost because it was not known is sent again at once.
  void on_path_resolved(const MacAddress& mac);

  PostResult post_send(const SendWr& wr, Instant now) { return post_sends({&wr, 1}, now); }
  /// Posts all of them or, when one is refused, none.
  PostResult post_sends(std::span<const SendWr> wrs, Instant now);
  PostResult post_recv(const RecvWr& wr, Instant now);
  /// To be called before the QP is destroyed: takes its completions out of the completion queues, and drops the receive
  /// that it took from a shared receive queue.
  void forget_work();
  /// The same for a shared receive queue of XRC: a message under way to it has nowhere to go.
  void forget_xrc_queue(const SharedReceiveQueue& queue);

  /// A packet of this QP's service with a good iCRC, from the peer that the address vector names.
  void on_packet(const PacketView& packet, Instant now);
  /// A frame for a QP of raw packets.
  void on_frame(const RawFrame& frame, Instant now);
  void on_timeout(Instant now);
  /// Fills `frame`. False when there is nothing to send now.
  bool poll_transmit(TxFrame& frame, Instant now);
  bool wants_transmit() const;
  Instant next_timeout() const;
  /// The traffic class of the frame that poll_transmit would fill.
  uint8_t priority() const;
  /// Lets a delayed ACK leave with the next frames. Called before the program ends.
  void end_ack_delay();
  /// Whether the peer is to get an answer, READ responses included.
  bool owes_answer() const;
  /// Whether the next answer is one that never waits for a rate: any but a READ response.
  bool wants_unpaced() const;
  /// Fills `frame` with that answer. False when there is none.
  bool poll_unpaced(TxFrame& frame, Instant now);

  // Congestion (qp_congestion.cc).
  /// The peer sent a CNP: what this QP sends meets congestion. False when the QP has no congestion control that
  /// listens.
  bool on_cnp(Instant now);
  /// A packet came with a congestion mark. True when a CNP is to be sent to the peer now; how often that happens is
  /// limited. Only to be called when a CNP can be sent.
  bool on_marked(Instant now);
  /// Fills `frame` with a CNP. False in a state that sends nothing.
  bool encode_cnp(TxFrame& frame) const;
  const CongestionControl* congestion() const;  // nullptr: none

  /// The peer has not answered for so long that it may have another MAC address by now.
  bool asks_in_vain() const;

  // For displaying a QP to a person.
  const Requester* requester() const;  // nullptr unless RC or XRC
  const Responder* responder() const;  // the same
  /// Completions that the program has not polled keep their slots.
  const SendQueue& send_queue() const;
  uint32_t sends_queued() const;
  uint32_t receives_queued() const;
  const std::optional<FirstError>& first_error() const;  // qp_events.h

 private:
  ModifyResult check_values(const QpAttributes& attributes, uint32_t mask) const;

  const uint32_t index_;
  void* const user_;
  const std::unique_ptr<QpBody> body_;  // never null
  QpCore& core_;                        // of the body
};

}  // namespace uroce
