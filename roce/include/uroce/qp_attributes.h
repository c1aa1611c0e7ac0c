// The size of a QP, and what `modify` sets. Names and mask bits are those of verbs (ibv_qp_attr, ibv_qp_attr_mask).
#pragma once

#include <cstdint>

#include "uroce/address.h"
#include "uroce/psn.h"
#include "uroce/types.h"

namespace uroce {

struct QpCapabilities {
  uint32_t max_send_wr = 0;
  uint32_t max_recv_wr = 0;
  uint32_t max_send_sge = 0;
  uint32_t max_recv_sge = 0;
  uint32_t max_inline_data = 0;
};

/// ibv_qp_attr_mask.
enum QpAttrMask : uint32_t {
  kAttrState = 1 << 0,
  kAttrCurState = 1 << 1,
  kAttrEnSqdAsyncNotify = 1 << 2,
  kAttrAccessFlags = 1 << 3,
  kAttrPkeyIndex = 1 << 4,
  kAttrPort = 1 << 5,
  kAttrQkey = 1 << 6,
  kAttrAv = 1 << 7,
  kAttrPathMtu = 1 << 8,
  kAttrTimeout = 1 << 9,
  kAttrRetryCnt = 1 << 10,
  kAttrRnrRetry = 1 << 11,
  kAttrRqPsn = 1 << 12,
  kAttrMaxQpRdAtomic = 1 << 13,
  kAttrAltPath = 1 << 14,
  kAttrMinRnrTimer = 1 << 15,
  kAttrSqPsn = 1 << 16,
  kAttrMaxDestRdAtomic = 1 << 17,
  kAttrPathMigState = 1 << 18,
  kAttrCap = 1 << 19,
  kAttrDestQpn = 1 << 20,
  kAttrRateLimit = 1 << 25,
};

/// Where the packets of a connected QP or of an address handle go.
struct AddressVector {
  IpAddress dgid;
  bool is_global = true;  // false: `dlid` names the peer (doc/adr/0005-lid-on-ethernet.md)
  uint16_t dlid = 0;
  uint8_t sgid_index = 0;
  uint8_t hop_limit = 64;
  uint8_t traffic_class = 0;
  uint32_t flow_label = 0;
  uint8_t sl = 0;
  uint8_t static_rate = 0;
  uint8_t port_num = 1;
};

struct QpAttributes {
  QpState state = QpState::kReset;
  QpState cur_state = QpState::kReset;
  uint32_t access = 0;  // Access bits that a peer may use
  uint32_t qkey = 0;
  AddressVector av;
  uint32_t path_mtu_bytes = 1024;
  uint8_t timeout = 14;  // 4.096 us * 2^timeout; 0: never
  uint8_t retry_cnt = 7;
  uint8_t rnr_retry = 7;  // 7: for ever
  uint8_t min_rnr_timer = 12;
  uint8_t max_rd_atomic = 1;       // as requester
  uint8_t max_dest_rd_atomic = 1;  // as responder
  Psn rq_psn;
  Psn sq_psn;
  uint32_t dest_qpn = 0;
  uint8_t port_num = 1;
  uint16_t pkey_index = 0;
  bool sq_draining = false;  // output only: in SQD, with work still under way
  bool sqd_async_notify = false;
  uint32_t rate_limit_kbps = 0;  // 0: none
};

/// The mask bits of the attributes that have to be set for a transition, including kAttrState. If there is no such
/// transition, the result is kAttrState alone, and `modify` refuses the transition.
UROCE_API uint32_t required_attributes(QpType type, QpState from, QpState to);

/// Why `modify` refused. Nothing was changed.
enum class ModifyResult : uint8_t {
  kOk,
  kBadTransition,     // not a transition of the state machine, or cur_state does not hold
  kMissingAttribute,  // a required attribute's mask bit is not set
  kExtraAttribute,    // an attribute that this transition does not take
  kBadValue,          // out of range: MTU, PSN, port, sgid_index, counts
  kNoRoute,           // dgid and source GID do not go together (address family, LID outside the subnet)
};

UROCE_API const char* modify_result_text(ModifyResult result);

}  // namespace uroce
