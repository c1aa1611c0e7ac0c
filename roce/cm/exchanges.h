// The steps of every exchange of connection management: sending once or until there is an answer, resting, ending; and
// how the layer above is told.
#pragma once

#include <cstdint>
#include <optional>

#include "cm/connection.h"
#include "cm/connection_table.h"
#include "cm/counters.h"
#include "cm/last_answers.h"
#include "cm/mad.h"
#include "cm/services.h"

namespace uroce::cm {

/// A request of a peer before any state is kept for it.
struct Request {
  const ReceivedMad& mad;
  uint64_t service_id = 0;
  QpType qp_type = QpType::kRc;  // kUd: of SIDR
  const PrivateData& private_data;
  const Req* req = nullptr;  // not of SIDR
};

/// The listener that a request is for, or why it is refused.
struct Admission {
  uint64_t listener = 0;  // 0: refused
  RejReason reason = RejReason::kInvalidServiceId;
};

enum class ConnectionEventType : uint8_t {
  kRep,           // `rep`
  kEstablished,   // RTU, or data
  kRefused,       // `rej`
  kDisconnected,  // DREQ or DREP
  kDreqTimeout,   // a DREQ was not answered
  kTimeout,       // a REQ, a REP or a SIDR_REQ was not answered
  kTimewaitExit,
  kSidrRep,  // `sidr_rep`
};

struct ConnectionEvent {
  ConnectionEventType type{};
  const Rep* rep = nullptr;
  const Rej* rej = nullptr;
  const SidrRep* sidr_rep = nullptr;
  const PrivateData* private_data = nullptr;  // of RTU, DREQ and DREP
};

/// The layer above the exchanges. Does not call back into it from `admit` and `on_event`.
class ConnectionUser {
 public:
  virtual ~ConnectionUser() = default;
  virtual Admission admit(const Request& request) = 0;
  /// Takes the connection over, by setting its owner. False: no room, and the request is forgotten.
  virtual bool on_request(Connection& connection, const Request& request) = 0;
  virtual void on_event(Connection& connection, const ConnectionEvent& event) = 0;
};

class Exchanges {
 public:
  Exchanges(Services& its_services, ConnectionUser& its_user, const CmLimits& limits)
      : services(its_services), user(its_user), table(its_services, limits) {}

  Services& services;
  ConnectionUser& user;
  CmCounters counters;
  ConnectionTable table;
  LastAnswers last_answers;

  void send(const AddressVector& av, const MadBytes& mad, Instant now);
  /// Keeps the message and repeats it until the state changes, or the retries are used up.
  void send_awaiting(Connection& connection, CmState state, const MadBytes& mad, Instant now);
  void resend(Connection& connection, Instant now) { send(connection.peer.av, connection.out.mad, now); }
  /// Sends a message that has no answer.
  void send_last(const AddressVector& av, const MadBytes& mad, Instant now);
  /// Sends the message, and answers repetitions with it for a while.
  void send_and_rest(Connection& connection, CmState state, const MadBytes& mad, Instant now);
  /// Rejects after a REP was sent. A REJ has no answer: if both it and the RTU are lost, the peer keeps the connection
  /// for ever. So a DREQ follows, until there is an answer.
  void withdraw(Connection& connection, const MadBytes& rej, Instant now);
  void rest(Connection& connection, CmState state, Instant now);
  void enter_timewait(Connection& connection, Instant now);
  void send_dreq(Connection& connection, const PrivateData& private_data, Instant now);
  void send_drep(Connection& connection, Instant now);
  /// The peer's queue pair is used anew, or a request claims so. If we accepted the connection, the REP is sent again:
  /// a peer that still has it answers with an RTU, one that has not with a REJ or not at all, and then the connection
  /// is ended. If the peer accepted it, there is no message to ask with, and the connection is ended at once.
  void doubt(Connection& connection, Instant now);
  bool is_doubted(const Connection& connection) const {
    return connection.state == CmState::kEstablished && connection.deadline != Instant::never();
  }
  /// The awaited message will come later than was agreed on.
  void wait_longer(Connection& connection, uint8_t service_timeout, Instant now);
  /// Into kIdle; erased if it has no owner.
  void end(Connection& connection);
  void tell(Connection& connection, const ConnectionEvent& event);

  /// The way back to the sender of `mad`; counts when there is none.
  std::optional<ResolvedRoute> way_back(const ReceivedMad& mad);
  /// Refuses a message for which there is no connection.
  void refuse(const ReceivedMad& mad, const MadHeader& header, Rej rej, Instant now);
  MadBytes rej_of(const Connection& connection, RejReason reason, const PrivateData& private_data = {});
  MadBytes mra_of(const Connection& connection) const;
};

}  // namespace uroce::cm
