// ibv_modify_qp: converts verbs' attributes to the engine's, and waits for the peer's MAC address.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "dpdk/log.h"
#include "engine/address_table.h"
#include "engine/queue_pairs.h"
#include "identity.h"
#include "operations.h"
#include "runtime.h"
#include "transport/qp.h"

using namespace uroce;
using namespace uroce::verbs;

static_assert(int{kAttrState} == IBV_QP_STATE && int{kAttrCurState} == IBV_QP_CUR_STATE &&
              int{kAttrEnSqdAsyncNotify} == IBV_QP_EN_SQD_ASYNC_NOTIFY &&
              int{kAttrAccessFlags} == IBV_QP_ACCESS_FLAGS && int{kAttrPkeyIndex} == IBV_QP_PKEY_INDEX &&
              int{kAttrPort} == IBV_QP_PORT && int{kAttrQkey} == IBV_QP_QKEY && int{kAttrAv} == IBV_QP_AV &&
              int{kAttrPathMtu} == IBV_QP_PATH_MTU && int{kAttrTimeout} == IBV_QP_TIMEOUT &&
              int{kAttrRetryCnt} == IBV_QP_RETRY_CNT && int{kAttrRnrRetry} == IBV_QP_RNR_RETRY &&
              int{kAttrRqPsn} == IBV_QP_RQ_PSN && int{kAttrMaxQpRdAtomic} == IBV_QP_MAX_QP_RD_ATOMIC &&
              int{kAttrAltPath} == IBV_QP_ALT_PATH && int{kAttrMinRnrTimer} == IBV_QP_MIN_RNR_TIMER &&
              int{kAttrSqPsn} == IBV_QP_SQ_PSN && int{kAttrMaxDestRdAtomic} == IBV_QP_MAX_DEST_RD_ATOMIC &&
              int{kAttrPathMigState} == IBV_QP_PATH_MIG_STATE && int{kAttrCap} == IBV_QP_CAP &&
              int{kAttrDestQpn} == IBV_QP_DEST_QPN && int{kAttrRateLimit} == IBV_QP_RATE_LIMIT);

namespace {

// How long a program waits in modify_qp for the peer's MAC address before going on without.
constexpr Duration kModifyPatience = milliseconds(1000);

/// False when a value does not fit the engine's attribute. Removes bits from `mask` that change nothing here.
bool attributes_from(const ibv_qp_attr& attr, uint32_t& mask, QpAttributes& out) {
  if ((mask & kAttrState) != 0) {
    if (attr.qp_state > IBV_QPS_ERR) return false;
    out.state = static_cast<QpState>(attr.qp_state);
  }
  if ((mask & kAttrCurState) != 0) {
    if (attr.cur_qp_state > IBV_QPS_ERR) return false;
    out.cur_state = static_cast<QpState>(attr.cur_qp_state);
  }
  if ((mask & kAttrAv) != 0 && !address_vector_from(attr.ah_attr, out.av)) return false;
  if ((mask & kAttrPathMtu) != 0) {
    if (attr.path_mtu < IBV_MTU_256 || attr.path_mtu > IBV_MTU_4096) return false;
    out.path_mtu_bytes = mtu_from_verbs(attr.path_mtu);
  }
  constexpr uint32_t kPsnMax = 0xffffff;
  // Programs pass whatever their random generator gave; as with rdma-core, the upper byte is ignored.
  out.rq_psn = Psn(attr.rq_psn & kPsnMax);
  out.sq_psn = Psn(attr.sq_psn & kPsnMax);
  if ((mask & kAttrDestQpn) != 0 && attr.dest_qp_num > kPsnMax) return false;
  out.dest_qpn = attr.dest_qp_num;
  out.access = attr.qp_access_flags & (kRemoteWrite | kRemoteRead | kRemoteAtomic | kFlushGlobal | kFlushPersistent);
  out.qkey = attr.qkey;
  out.timeout = attr.timeout;
  out.retry_cnt = attr.retry_cnt;
  out.rnr_retry = attr.rnr_retry;
  out.min_rnr_timer = attr.min_rnr_timer;
  out.max_rd_atomic = attr.max_rd_atomic;
  out.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  if ((mask & kAttrMaxQpRdAtomic) != 0 && attr.max_rd_atomic > kMaxReads) return false;
  if ((mask & kAttrMaxDestRdAtomic) != 0 && attr.max_dest_rd_atomic > kMaxReads) return false;
  if ((mask & kAttrRateLimit) != 0) {
    if (attr.rate_limit > kMaxRateKbps) return false;
    out.rate_limit_kbps = attr.rate_limit;
  }
  out.port_num = attr.port_num;
  out.pkey_index = attr.pkey_index;
  out.sqd_async_notify = attr.en_sqd_async_notify != 0;
  // There is only one path, so the state can only be the initial one, "migrated".
  if ((mask & kAttrPathMigState) != 0) {
    if (attr.path_mig_state != IBV_MIG_MIGRATED) return false;
    mask &= ~uint32_t{kAttrPathMigState};
  }
  return true;
}

/// Programs set an XRC queue pair's attributes as they would set those of RC; as in the kernel, those that only the
/// other side has are left out.
uint32_t without_other_side(ibv_qp_type type, uint32_t mask) {
  if (type == IBV_QPT_XRC_SEND) return mask & ~uint32_t{kAttrMaxDestRdAtomic | kAttrMinRnrTimer};
  if (type == IBV_QPT_XRC_RECV) return mask & ~uint32_t{kAttrMaxQpRdAtomic | kAttrRetryCnt | kAttrRnrRetry};
  return mask;
}

void wait_for_peer(QueuePair& qp) {
  const bool resolved = drive_until(kModifyPatience, [&](Engine& /*engine*/) { return qp.qp->path_resolved(); });
  if (resolved) return;
  IpAddress peer;
  {
    EngineLock lock(endpoint());
    peer = qp.qp->path().dst_ip;
  }
  log_message(LogLevel::kWarning, "QP 0x%06x: nobody answers for %s yet (ARP/ND); going on, sends will be retried",
              qp.base()->qp_num, to_string(peer).c_str());
}

/// Warns when the peer's address is our own and no such peer is here: programs on different wires may have the same
/// default address, and those that meet in another directory have this machine's. Each would then talk to itself.
void warn_of_own_address(QueuePair& qp) {
  EngineLock lock(endpoint());
  const IpAddress& peer = qp.qp->path().dst_ip;
  const uint32_t peer_qpn = qp.qp->attributes().dest_qpn;
  const auto gids = lock->addresses().gids();
  if (std::none_of(gids.begin(), gids.end(), [&](const LocalAddress& own) { return own.ip == peer; })) return;
  bool here = false;
  lock->qps().for_each([&](const Qp& other) { here = here || other.qpn() == peer_qpn; });
  if (here || lock->qps().table().another_has(peer_qpn)) return;
  log_message(
      LogLevel::kWarning,
      "QP 0x%06x: the peer's address %s is this program's own, and QP 0x%06x is not here: if the peer is another "
      "program, the two do not meet; they have to use one directory (same user, same UROCE_RUNTIME_DIR) and one "
      "port, or a network interface (--port, --addr)",
      qp.base()->qp_num, to_string(peer).c_str(), peer_qpn);
}

int modify_errno(ModifyResult result) { return result == ModifyResult::kNoRoute ? ENETUNREACH : EINVAL; }

}  // namespace

UROCE_VERBS_EXPORT int ibv_modify_qp(ibv_qp* base, ibv_qp_attr* attr, int attr_mask) try {
  if (is_the_parents(base->context)) [[unlikely]]
    return refuse_to_child();
  if (!is_found(*base)) return with_errno(ENOENT);
  QueuePair& qp = ours(base);
  uint32_t mask = without_other_side(base->qp_type, static_cast<uint32_t>(attr_mask));
  if ((mask & (kAttrAltPath | kAttrCap)) != 0) {
    log_message(LogLevel::kWarning, "ibv_modify_qp: alternate paths and other sizes are not supported (EOPNOTSUPP)");
    return with_errno(EOPNOTSUPP);
  }
  if (qp.rss != nullptr) return with_errno(EOPNOTSUPP);  // its work queues have states, it has none
  QpAttributes attributes;
  if (!attributes_from(*attr, mask, attributes)) {
    log_message(LogLevel::kInfo, "ibv_modify_qp, QP 0x%06x: value out of range", base->qp_num);
    return with_errno(EINVAL);
  }
  ModifyResult result;
  {
    EngineLock lock(endpoint());
    result = lock->modify_qp(*qp.qp, attributes, mask, endpoint().now());
    if (result == ModifyResult::kOk) {
      base->state = static_cast<ibv_qp_state>(qp.qp->state());
      endpoint().transmit();
    }
  }
  if (result != ModifyResult::kOk) {
    log_message(result == ModifyResult::kNoRoute ? LogLevel::kWarning : LogLevel::kInfo,
                "ibv_modify_qp, QP 0x%06x to state %d, mask 0x%x: %s", base->qp_num, static_cast<int>(attr->qp_state),
                mask, modify_result_text(result));
    return with_errno(modify_errno(result));
  }
  const bool connects = (mask & kAttrState) != 0 && attributes.state == QpState::kRtr && base->qp_type != IBV_QPT_UD &&
                        base->qp_type != IBV_QPT_RAW_PACKET;
  if (connects) {
    warn_of_own_address(qp);
    wait_for_peer(qp);
  }
  return 0;
} catch (const std::bad_alloc&) {
  return with_errno(ENOMEM);
}

namespace uroce::verbs {

/// The gaps between packets follow from the rate alone, so the two sizes change nothing.
int modify_qp_rate_limit(ibv_qp* qp, ibv_qp_rate_limit_attr* attr) {
  if (attr->comp_mask != 0) return with_errno(EINVAL);
  ibv_qp_attr wish{};
  wish.qp_state = IBV_QPS_RTS;
  wish.rate_limit = attr->rate_limit;
  // As with hardware, only a connection that is up takes it.
  if (qp->state != IBV_QPS_RTS) return with_errno(EINVAL);
  return ibv_modify_qp(qp, &wish, IBV_QP_STATE | IBV_QP_RATE_LIMIT);
}

bool address_vector_from(const ibv_ah_attr& attr, AddressVector& av) {
  if (attr.port_num != 1) return false;
  std::memcpy(av.dgid.bytes.data(), attr.grh.dgid.raw, 16);
  av.is_global = attr.is_global != 0;
  av.dlid = attr.dlid;
  av.sgid_index = attr.grh.sgid_index;
  // Programs that fill in only what they must leave 0 here; a packet with that hop limit would be useless, so the
  // default is kept.
  if (av.is_global && attr.grh.hop_limit != 0) av.hop_limit = attr.grh.hop_limit;
  av.traffic_class = attr.grh.traffic_class;
  av.flow_label = attr.grh.flow_label & IB_GRH_FLOWLABEL_MASK;
  av.sl = attr.sl;
  av.static_rate = attr.static_rate;
  av.port_num = attr.port_num;
  if (!av.is_global) {
    av.dgid = {};
    av.sgid_index = 0;
    av.traffic_class = 0;
    av.flow_label = 0;
  }
  return true;
}

void address_vector_to(const AddressVector& av, ibv_ah_attr& attr) {
  attr = {};
  std::memcpy(attr.grh.dgid.raw, av.dgid.bytes.data(), 16);
  attr.grh.flow_label = av.flow_label;
  attr.grh.sgid_index = av.sgid_index;
  attr.grh.hop_limit = av.hop_limit;
  attr.grh.traffic_class = av.traffic_class;
  attr.dlid = av.dlid;
  attr.sl = av.sl;
  attr.static_rate = av.static_rate;
  attr.is_global = av.is_global ? 1 : 0;
  attr.port_num = av.port_num;
}

}  // namespace uroce::verbs
