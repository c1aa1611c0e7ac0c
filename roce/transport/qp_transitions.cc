#include "transport/qp_transitions.h"

namespace uroce {

namespace {

struct Transition {
  QpState from;
  QpState to;
  uint32_t required[6];  // RC, UC, UD, XRC_SEND, XRC_RECV, RAW_PACKET
  uint32_t optional[6];
};

constexpr uint32_t kConnected = kAttrPkeyIndex | kAttrPort | kAttrAccessFlags;
constexpr uint32_t kDatagram = kAttrPkeyIndex | kAttrPort | kAttrQkey;
constexpr uint32_t kToRtrUc = kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn;
constexpr uint32_t kToRtrRc = kToRtrUc | kAttrMaxDestRdAtomic | kAttrMinRnrTimer;
constexpr uint32_t kToRtsRc = kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrSqPsn | kAttrMaxQpRdAtomic;
constexpr uint32_t kLive = kAttrCurState | kAttrAccessFlags | kAttrRateLimit;
constexpr uint32_t kLiveRaw = kAttrCurState | kAttrRateLimit;
constexpr uint32_t kLiveUd = kAttrCurState | kAttrQkey | kAttrRateLimit;
constexpr uint32_t kSqdRc = kAttrPort | kAttrAv | kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrMaxQpRdAtomic |
                            kAttrMaxDestRdAtomic | kAttrAccessFlags | kAttrPkeyIndex | kAttrMinRnrTimer;

// XRC: what only one side does is an attribute of that side.
constexpr uint32_t kToRtrXrcRecv = kToRtrRc;
constexpr uint32_t kToRtsXrcRecv = kAttrTimeout | kAttrSqPsn;
constexpr uint32_t kSqdXrcSend = kAttrPort | kAttrAv | kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry |
                                 kAttrMaxQpRdAtomic | kAttrAccessFlags | kAttrPkeyIndex;
constexpr uint32_t kSqdXrcRecv =
    kAttrPort | kAttrAv | kAttrTimeout | kAttrMaxDestRdAtomic | kAttrAccessFlags | kAttrPkeyIndex | kAttrMinRnrTimer;
constexpr uint32_t kLiveXrc = kAttrCurState | kAttrAccessFlags;
constexpr uint32_t kLiveRc = kLive | kAttrMinRnrTimer;
constexpr uint32_t kRefined = kAttrAccessFlags | kAttrPkeyIndex;  // what INIT -> RTR may set anew
constexpr uint32_t kNotify = kAttrEnSqdAsyncNotify;

constexpr Transition kTable[] = {
    {QpState::kReset,
     QpState::kInit,
     {kConnected, kConnected, kDatagram, kConnected, kConnected, kAttrPort},
     {0, 0, 0, 0, 0, 0}},
    {QpState::kInit,
     QpState::kInit,
     {0, 0, 0, 0, 0, 0},
     {kConnected, kConnected, kDatagram, kConnected, kConnected, kAttrPort}},
    {QpState::kInit,
     QpState::kRtr,
     {kToRtrRc, kToRtrUc, 0, kToRtrUc, kToRtrXrcRecv, 0},
     {kRefined, kRefined, kAttrPkeyIndex | kAttrQkey, kRefined, kRefined, 0}},
    {QpState::kRtr,
     QpState::kRts,
     {kToRtsRc, kAttrSqPsn, kAttrSqPsn, kToRtsRc, kToRtsXrcRecv, 0},
     {kLiveRc, kLive, kLiveUd, kLiveXrc, kLiveXrc | kAttrMinRnrTimer, kLiveRaw}},
    {QpState::kRts,
     QpState::kRts,
     {0, 0, 0, 0, 0, 0},
     {kLiveRc, kLive, kLiveUd, kLiveXrc, kLiveXrc | kAttrMinRnrTimer, kLiveRaw}},
    {QpState::kRts, QpState::kSqd, {0, 0, 0, 0, 0, 0}, {kNotify, kNotify, kNotify, kNotify, kNotify, kNotify}},
    {QpState::kSqd,
     QpState::kRts,
     {0, 0, 0, 0, 0, 0},
     {kLiveRc, kLive, kLiveUd, kLiveXrc, kLiveXrc | kAttrMinRnrTimer, kLiveRaw}},
    {QpState::kSqd,
     QpState::kSqd,
     {0, 0, 0, 0, 0, 0},
     {kSqdRc, kAttrAv | kAttrAccessFlags | kAttrPkeyIndex, kAttrPkeyIndex | kAttrQkey, kSqdXrcSend, kSqdXrcRecv, 0}},
    {QpState::kSqe,
     QpState::kRts,
     {0, 0, 0, 0, 0, 0},
     {0, kAttrCurState | kAttrAccessFlags, kAttrCurState | kAttrQkey, 0, 0, kAttrCurState}},
};

unsigned column(QpType type) {
  switch (type) {
    case QpType::kRc:
      return 0;
    case QpType::kUc:
      return 1;
    case QpType::kUd:
      return 2;
    case QpType::kXrcSend:
      return 3;
    case QpType::kXrcRecv:
      return 4;
    case QpType::kRawPacket:
      return 5;
  }
  return 0;
}

}  // namespace

ModifyResult check_transition(QpType type, QpState from, QpState to, uint32_t mask) {
  mask &= ~uint32_t{kAttrState};
  if (to == QpState::kReset || to == QpState::kErr)
    return mask == 0 ? ModifyResult::kOk : ModifyResult::kExtraAttribute;
  for (const Transition& t : kTable) {
    if (t.from != from || t.to != to) continue;
    const unsigned c = column(type);
    if (is_reliable(type) && from == QpState::kSqe) break;
    if ((mask & t.required[c]) != t.required[c]) return ModifyResult::kMissingAttribute;
    if ((mask & ~(t.required[c] | t.optional[c])) != 0) return ModifyResult::kExtraAttribute;
    return ModifyResult::kOk;
  }
  return ModifyResult::kBadTransition;
}

uint32_t required_attributes(QpType type, QpState from, QpState to) {
  for (const Transition& t : kTable) {
    if (t.from == from && t.to == to) return kAttrState | t.required[column(type)];
  }
  return kAttrState;
}

const char* modify_result_text(ModifyResult result) {
  switch (result) {
    case ModifyResult::kOk:
      return "ok";
    case ModifyResult::kBadTransition:
      return "the QP cannot go from its state to that one";
    case ModifyResult::kMissingAttribute:
      return "an attribute that this transition needs is missing from the mask";
    case ModifyResult::kExtraAttribute:
      return "the mask has an attribute that this transition does not take";
    case ModifyResult::kBadValue:
      return "an attribute is out of range";
    case ModifyResult::kNoRoute:
      return "the address vector leads nowhere: no such source GID, or another address family";
  }
  return "?";
}

}  // namespace uroce
