// A queue pair: the state machine, and the sending and receiving sides that it joins.
//
// Sans-I/O. Work requests, packets and time go in; frames (into memory that the caller owns) and completions come out.
// Nothing is rolled back: `poll_transmit` is called only with room for a frame that will be sent.
//
// After any call that can change them (`modify`, `post_send`, `post_recv`, `on_packet`, `on_timeout`, `poll_transmit`),
// ask `wants_transmit` and `next_timeout` again.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "transport/datagram.h"
#include "transport/qp_attributes.h"
#include "transport/qp_context.h"
#include "transport/receive_queue.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "transport/send_queue.h"
#include "transport/tx_frame.h"

namespace uroce {

class Qp {
 public:
  Qp(const QpInit& init, uint32_t qpn, uint32_t index, uint32_t port_mtu, TransportEnv& env, void* user);
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  uint32_t qpn() const { return context_.qpn; }
  uint32_t index() const { return index_; }  // its slot in the engine's table
  void* user() const { return user_; }
  QpType type() const { return context_.type; }
  QpState state() const { return context_.state; }
  const QpInit& init() const { return init_; }
  /// As set; `state`, `cur_state` and `sq_draining` are filled in.
  QpAttributes attributes() const;
  const PathSpec& path() const { return context_.path; }
  bool path_resolved() const { return context_.path_resolved; }
  bool connected() const { return context_.type != QpType::kUd; }
  uint32_t mtu() const { return context_.mtu; }

  /// Checks the transition and its attributes, then applies them. `path`: where attributes.av leads; needed when the
  /// mask has kAttrAv.
  ModifyResult modify(const QpAttributes& attributes, uint32_t mask, const PathSpec* path, bool resolved, Instant now);
  /// The peer's MAC became known, or changed: what was lost for want of it is sent again at once.
  void on_path_resolved(const MacAddress& mac);

  PostResult post_send(const SendWr& wr);
  PostResult post_recv(const RecvWr& wr);

  /// A packet of this QP's service with a good iCRC, from the peer that the address vector names.
  void on_packet(const PacketView& packet, Instant now);
  void on_timeout(Instant now);
  /// Fills `frame`. False when there is nothing to send now.
  bool poll_transmit(TxFrame& frame, Instant now);
  bool wants_transmit() const;
  Instant next_timeout() const;
  /// An answer that waits for a better moment leaves with the next frames: before a program goes away.
  void release_held_ack() { responder_.release_held(); }

  // For explaining a QP to a person.
  const Requester& requester() const { return requester_; }
  const Responder& responder() const { return responder_; }
  uint32_t sends_queued() const { return send_queue_.ring().size(); }
  uint32_t receives_queued() const { return receive_queue_.size(); }

  bool ready = false;  // the engine's: it is in the list of QPs with something to send

 private:
  ModifyResult check_values(const QpAttributes& attributes, uint32_t mask) const;
  void apply(const QpAttributes& attributes, uint32_t mask, const PathSpec* path, bool resolved);
  void enter(QpState to, Instant now);
  void flush(Instant now);
  void settle(Instant now);
  void check_drained();
  bool transmit(TxFrame& frame, Instant now);

  QpContext context_;
  const QpInit init_;
  const uint32_t index_;
  const uint32_t port_mtu_;
  void* const user_;
  SendQueue send_queue_;
  ReceiveQueue receive_queue_;
  Requester requester_;
  Responder responder_;
  UnackedSender sender_;
  UcReceiver uc_receiver_;
  UdReceiver ud_receiver_;
  bool draining_ = false;
  bool answered_ = false;  // the last frame was the responder's
};

}  // namespace uroce
