// The connection management of the specification, over communication IDs: REQ, REP, RTU, REJ, MRA, DREQ, DREP, SIDR and
// the refusal of LAP, with their retries, timeouts, repetitions and timewait.
//
// It knows nothing of IP ports: the layer above (`ConnectionUser`) says whether there is a service, and is told what
// happens. Functions that return an int return 0, or EINVAL when the connection's state does not allow it.
#pragma once

#include "cm/exchanges.h"
#include "cm/inbound.h"

namespace uroce::cm {

class ConnectionManager {
 public:
  ConnectionManager(Services& services, ConnectionUser& user, const CmLimits& limits)
      : exchanges_(services, user, limits), requests_(exchanges_), replies_(exchanges_) {}

  /// For the active side: idle, and with an ID.
  Connection& create(Id& owner) { return exchanges_.table.create(&owner); }
  /// `req` has all fields but the IDs; the connection's peer and terms are set.
  void send_req(Connection& connection, Req req, Instant now);
  void send_sidr_req(Connection& connection, SidrReq req, Instant now);

  int send_rep(Connection& connection, Rep rep, Instant now);
  int send_rtu(Connection& connection, Instant now);
  int send_rej(Connection& connection, RejReason reason, const PrivateData& private_data, Instant now);
  int send_sidr_rep(Connection& connection, SidrRep rep, Instant now);
  /// Sends DREQ, or answers the peer's.
  int disconnect(Connection& connection, Instant now);
  /// Establishes the connection as if the RTU had arrived.
  int establish(Connection& connection);
  Connection* find_awaiting(uint32_t qpn) { return exchanges_.table.find_awaiting(qpn); }
  /// The owner is destroyed. What is under way is ended in order; no Id is told any more.
  void release(Connection& connection, Instant now);
  /// Tells the peer that the connection ends; false: there was nothing to tell.
  bool hang_up(Connection& connection, Instant now);
  /// The program ends soon: peers that have not answered a DREQ are sent it again every `kFarewellRetry`, instead of
  /// seconds later.
  void hasten_farewells(Instant now);
  /// The program ends soon: its last answers are sent again (LastAnswers). Returns how many messages that were.
  uint32_t repeat_last_answers(Instant now) {
    return exchanges_.last_answers.repeat(
        now, [&](const AddressVector& av, const MadBytes& mad) { exchanges_.send(av, mad, now); });
  }
  size_t leaving() const { return exchanges_.table.leaving(); }

  void on_mad(const ReceivedMad& mad, Instant now);
  /// RdmaCm::on_peer_lost
  void on_peer_lost(const LostPeer& peer, Instant now);
  void run_timers(Instant now);
  Instant next_timeout() const { return exchanges_.table.next_timeout(); }
  const CmCounters& counters() const { return exchanges_.counters; }
  const ConnectionTable& table() const { return exchanges_.table; }

 private:
  void on_timer(Connection& connection, Instant now);
  void on_timeout(Connection& connection, Instant now);
  void dispatch(const ReceivedMad& mad, const MadHeader& header, Instant now);

  Exchanges exchanges_;
  InboundRequests requests_;
  InboundReplies replies_;
};

}  // namespace uroce::cm
