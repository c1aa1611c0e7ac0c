#include "cm/qp_settings.h"

#include <cerrno>

namespace uroce::cm {

namespace {

/// 0.64 ms, for a peer that repeats without end. One that counts its repetitions has to wait as long as with a kernel,
/// which leaves 655 ms here (the number 0), or it gives up before a busy program has posted its receive.
constexpr uint8_t kSoon = 12;
constexpr uint8_t kAsTheKernel = 0;
constexpr uint8_t kWithoutEnd = 7;

bool is_live(CmState state) { return state >= CmState::kReqSent && state <= CmState::kEstablished; }
bool knows_peer(CmState state) { return state >= CmState::kReqReceived && state <= CmState::kEstablished; }

void set_init(const IdState& id, QpSettings& out) {
  out.mask = kAttrState | kAttrPkeyIndex | kAttrPort;
  if (id.way) out.attributes.port_num = id.way->av.port_num;
  if (id.qp_type == QpType::kUd) {
    out.mask |= kAttrQkey;
    out.attributes.qkey = id.qkey;
    return;
  }
  out.mask |= kAttrAccessFlags;
  if (id.connection == nullptr) return;
  out.attributes.access = kRemoteWrite;
  if (id.connection->terms.responder_resources != 0) out.attributes.access |= kRemoteRead | kRemoteAtomic;
}

void set_rtr(const IdState& id, QpSettings& out) {
  const Connection& c = *id.connection;
  QpAttributes& a = out.attributes;
  out.mask = kAttrState | kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn;
  a.av = c.peer.av;
  a.path_mtu_bytes = c.terms.path_mtu_bytes;
  a.dest_qpn = c.peer.qpn;
  a.rq_psn = id.own_psn;
  if (id.qp_type != QpType::kRc && id.qp_type != QpType::kXrcRecv) return;
  out.mask |= kAttrMaxDestRdAtomic | kAttrMinRnrTimer;
  a.max_dest_rd_atomic = c.terms.responder_resources;
  a.min_rnr_timer = c.terms.peer_rnr_retry_count == kWithoutEnd ? kSoon : kAsTheKernel;
}

void set_rts(const IdState& id, QpSettings& out) {
  const Terms& terms = id.connection->terms;
  QpAttributes& a = out.attributes;
  out.mask = kAttrState | kAttrSqPsn;
  a.sq_psn = terms.peer_psn;
  if (!is_reliable(id.qp_type)) return;
  out.mask |= kAttrTimeout;
  a.timeout = id.options.ack_timeout.value_or(terms.ack_timeout);
  if (id.qp_type == QpType::kXrcRecv) return;
  out.mask |= kAttrRetryCnt | kAttrRnrRetry | kAttrMaxQpRdAtomic;
  a.retry_cnt = terms.retry_count;
  a.rnr_retry = terms.rnr_retry_count;
  a.max_rd_atomic = terms.initiator_depth;
}

}  // namespace

int qp_settings(const IdState& id, QpState state, QpSettings& settings) {
  settings = {};
  settings.attributes.state = state;
  settings.attributes.access = 0;
  const bool datagram = id.qp_type == QpType::kUd;
  if (datagram || id.connection == nullptr) {
    if (!datagram && state != QpState::kInit) return EINVAL;
    set_init(id, settings);
    return 0;
  }
  const CmState at = id.connection->state;
  if (state == QpState::kInit && is_live(at)) {
    set_init(id, settings);
  } else if (state == QpState::kRtr && knows_peer(at)) {
    set_rtr(id, settings);
  } else if (state == QpState::kRts && knows_peer(at)) {
    set_rts(id, settings);
  } else {
    return EINVAL;
  }
  return 0;
}

}  // namespace uroce::cm
