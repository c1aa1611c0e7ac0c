#include "cm/exchanges.h"

#include "base/big_endian.h"

namespace uroce::cm {

namespace {

/// Two response timeouts: a repetition of a refused message comes within one, unless it is lost.
constexpr Duration kRefusedRest = code_time(kResponseTimeoutCode) * 2;

constexpr uint8_t kProbes = 2;

/// Which message of the peer a REJ refuses. A REJ that withdraws our own message refuses none.
Answered answered_in(CmState state) {
  switch (state) {
    case CmState::kReqReceived:
    case CmState::kMraReqSent:
      return Answered::kReq;
    case CmState::kRepReceived:
    case CmState::kMraRepSent:
      return Answered::kRep;
    default:
      return Answered::kOther;
  }
}

}  // namespace

void Exchanges::send(const AddressVector& av, const MadBytes& mad, Instant now) {
  counters.tx_mads++;
  services.send_mad(av, mad, now);
}

void Exchanges::send_awaiting(Connection& c, CmState state, const MadBytes& mad, Instant now) {
  table.set_state(c, state);
  c.out.mad = mad;
  c.out.is_answer = false;
  c.out.retries_left = c.out.max_retries;
  table.arm(c, now + c.out.timeout);
  resend(c, now);
}

void Exchanges::send_last(const AddressVector& av, const MadBytes& mad, Instant now) {
  last_answers.note(av, mad, now);
  send(av, mad, now);
}

void Exchanges::send_and_rest(Connection& c, CmState state, const MadBytes& mad, Instant now) {
  c.out.mad = mad;
  c.out.is_answer = true;
  send_last(c.peer.av, mad, now);
  rest(c, state, now);
}

void Exchanges::withdraw(Connection& c, const MadBytes& rej, Instant now) {
  send(c.peer.av, rej, now);
  const Dreq dreq{.local_id = c.id, .remote_id = c.peer.id, .remote_qpn = c.peer.qpn};
  c.out.mad = encode(c.transaction_id, dreq);
  c.out.is_answer = true;
  c.out.retries_left = c.out.max_retries;
  rest(c, CmState::kWithdrawn, now);
  table.arm(c, now + c.out.timeout);
}

void Exchanges::rest(Connection& c, CmState state, Instant now) {
  table.set_state(c, state);
  table.arm(c, now + kRefusedRest);
  while (Connection* longest = table.over_the_limit()) {
    counters.rests_cut_short++;
    if (longest->state == CmState::kTimewait) tell(*longest, {.type = ConnectionEventType::kTimewaitExit});
    end(*longest);
  }
}

void Exchanges::enter_timewait(Connection& c, Instant now) {
  rest(c, CmState::kTimewait, now);
  const uint8_t code = std::clamp(c.terms.ack_timeout, kMinTimewaitCode, kMaxTimewaitCode);
  table.arm(c, now + code_time(code));
}

void Exchanges::send_dreq(Connection& c, const PrivateData& private_data, Instant now) {
  const Dreq dreq{.local_id = c.id, .remote_id = c.peer.id, .remote_qpn = c.peer.qpn, .private_data = private_data};
  send_awaiting(c, CmState::kDreqSent, encode(c.transaction_id, dreq), now);
}

void Exchanges::send_drep(Connection& c, Instant now) {
  const Confirmation drep{.local_id = c.id, .remote_id = c.peer.id, .private_data = {}};
  send_last(c.peer.av, encode_drep(c.transaction_id, drep), now);
  enter_timewait(c, now);
}

void Exchanges::doubt(Connection& c, Instant now) {
  if (c.state != CmState::kEstablished || is_doubted(c)) return;
  if (!c.passive) return send_dreq(c, {}, now);
  c.out.retries_left = kProbes;
  table.arm(c, now + c.out.timeout);
  resend(c, now);
}

void Exchanges::wait_longer(Connection& c, uint8_t service_timeout, Instant now) {
  const Duration service = code_time(std::min(service_timeout, kMaxMraCode));
  table.arm(c, now + service + c.out.timeout);
}

void Exchanges::end(Connection& c) {
  table.set_state(c, CmState::kIdle);
  if (c.owner == nullptr) table.erase(c);
}

void Exchanges::tell(Connection& c, const ConnectionEvent& event) {
  if (c.owner != nullptr) user.on_event(c, event);
}

std::optional<ResolvedRoute> Exchanges::way_back(const ReceivedMad& mad) {
  std::optional<ResolvedRoute> way = services.find_route(mad.dst_ip, mad.src_ip, 0);
  if (!way) counters.drop_no_way_back++;
  return way;
}

void Exchanges::refuse(const ReceivedMad& mad, const MadHeader& header, Rej rej, Instant now) {
  const auto way = way_back(mad);
  if (way) send(way->av, encode(header.transaction_id, rej), now);
}

MadBytes Exchanges::rej_of(const Connection& c, RejReason reason, const PrivateData& private_data) {
  Rej rej{.local_id = c.id,
          .remote_id = c.peer.id,
          .answered = answered_in(c.state),
          .reason = static_cast<uint16_t>(reason),
          .private_data = private_data};
  if (reason == RejReason::kTimeout) {  // a peer whose ID we do not know finds the request by this
    store_be64(rej.ari.data(), services.node_guid());
    rej.ari_length = 8;
  }
  return encode(c.transaction_id, rej);
}

MadBytes Exchanges::mra_of(const Connection& c) const {
  return encode(c.transaction_id, Mra{.local_id = c.id,
                                      .remote_id = c.peer.id,
                                      .answered = c.passive ? Answered::kReq : Answered::kRep,
                                      .service_timeout = kMraTimeoutCode});
}

}  // namespace uroce::cm
