// What comes in for queue pair 1: requests of peers, and all that follows them.
//
// A reply is taken only if it names our ID and the peer's ID (where that is known), and comes from the peer's address
// to ours. Everything else is counted and dropped, or refused in one datagram.
#pragma once

#include "cm/exchanges.h"

namespace uroce::cm {

class InboundRequests {
 public:
  explicit InboundRequests(Exchanges& exchanges) : exchanges_(exchanges) {}
  void on_req(const ReceivedMad& mad, const MadHeader& header, Instant now);
  void on_sidr_req(const ReceivedMad& mad, const MadHeader& header, Instant now);

 private:
  void on_repeated_req(Connection& connection, const Req& req, const ReceivedMad& mad, const MadHeader& header,
                       Instant now);
  void on_stale(Connection& old, const Req& req, const ReceivedMad& mad, const MadHeader& header, Instant now);
  void refuse(const Req& req, RejReason reason, const ReceivedMad& mad, const MadHeader& header, Instant now);
  bool has_room(uint64_t listener);
  template <typename Fill>
  void keep(const Request& request, uint64_t listener, uint32_t peer_id, const MadHeader& header,
            const AddressVector& av, Fill fill);

  Exchanges& exchanges_;
};

class InboundReplies {
 public:
  explicit InboundReplies(Exchanges& exchanges) : exchanges_(exchanges) {}
  void on_rep(const ReceivedMad& mad, const MadHeader& header, Instant now);
  void on_rtu(const ReceivedMad& mad, const MadHeader& header, Instant now);
  void on_mra(const ReceivedMad& mad, Instant now);
  void on_rej(const ReceivedMad& mad, Instant now);
  void on_dreq(const ReceivedMad& mad, const MadHeader& header, Instant now);
  void on_drep(const ReceivedMad& mad, Instant now);
  void on_lap(const ReceivedMad& mad, const MadHeader& header, Instant now);
  void on_sidr_rep(const ReceivedMad& mad, Instant now);
  /// The peer is gone without a DREQ: the connection ends as if its kernel had sent one.
  void on_lost(Connection& connection, Instant now);
  void establish(Connection& connection, const PrivateData* private_data);

 private:
  Connection* find(uint32_t id, const ReceivedMad& mad);
  bool fits(const Connection& connection, uint32_t peer_id);
  void take_rep(Connection& connection, const Rep& rep, const ReceivedMad& mad, Instant now);
  void on_repeated_rep(Connection& connection, Instant now);
  void refuse_unknown(uint32_t id, uint32_t peer_id, Answered answered, const ReceivedMad& mad, const MadHeader& header,
                      Instant now);
  void answer_dreq(const Dreq& dreq, const ReceivedMad& mad, const MadHeader& header, Instant now);
  void take_dreq(Connection& connection, const Dreq& dreq, const ReceivedMad& mad, const MadHeader& header,
                 Instant now);
  bool ask_again(Connection& connection, Instant now);
  void take_rej(Connection& connection, const Rej& rej, Instant now);

  Exchanges& exchanges_;
};

}  // namespace uroce::cm
