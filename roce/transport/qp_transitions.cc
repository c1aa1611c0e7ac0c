#include "transport/qp_transitions.h"

namespace uroce {

namespace {

struct Transition {
  QpState from;
  QpState to;
  uint32_t required[3];  // RC, UC, UD
  uint32_t optional[3];
};

constexpr uint32_t kConnected = kAttrPkeyIndex | kAttrPort | kAttrAccessFlags;
constexpr uint32_t kDatagram = kAttrPkeyIndex | kAttrPort | kAttrQkey;
constexpr uint32_t kToRtrUc = kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn;
constexpr uint32_t kToRtrRc = kToRtrUc | kAttrMaxDestRdAtomic | kAttrMinRnrTimer;
constexpr uint32_t kToRtsRc = kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrSqPsn | kAttrMaxQpRdAtomic;
constexpr uint32_t kLive = kAttrCurState | kAttrAccessFlags | kAttrRateLimit;
constexpr uint32_t kLiveUd = kAttrCurState | kAttrQkey | kAttrRateLimit;
constexpr uint32_t kSqdRc = kAttrPort | kAttrAv | kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrMaxQpRdAtomic |
                            kAttrMaxDestRdAtomic | kAttrAccessFlags | kAttrPkeyIndex | kAttrMinRnrTimer;

constexpr Transition kTable[] = {
    {QpState::kReset, QpState::kInit, {kConnected, kConnected, kDatagram}, {0, 0, 0}},
    {QpState::kInit, QpState::kInit, {0, 0, 0}, {kConnected, kConnected, kDatagram}},
    {QpState::kInit,
     QpState::kRtr,
     {kToRtrRc, kToRtrUc, 0},
     {kAttrAccessFlags | kAttrPkeyIndex, kAttrAccessFlags | kAttrPkeyIndex, kAttrPkeyIndex | kAttrQkey}},
    {QpState::kRtr, QpState::kRts, {kToRtsRc, kAttrSqPsn, kAttrSqPsn}, {kLive | kAttrMinRnrTimer, kLive, kLiveUd}},
    {QpState::kRts, QpState::kRts, {0, 0, 0}, {kLive | kAttrMinRnrTimer, kLive, kLiveUd}},
    {QpState::kRts, QpState::kSqd, {0, 0, 0}, {kAttrEnSqdAsyncNotify, kAttrEnSqdAsyncNotify, kAttrEnSqdAsyncNotify}},
    {QpState::kSqd, QpState::kRts, {0, 0, 0}, {kLive | kAttrMinRnrTimer, kLive, kLiveUd}},
    {QpState::kSqd,
     QpState::kSqd,
     {0, 0, 0},
     {kSqdRc, kAttrAv | kAttrAccessFlags | kAttrPkeyIndex, kAttrPkeyIndex | kAttrQkey}},
    {QpState::kSqe, QpState::kRts, {0, 0, 0}, {0, kAttrCurState | kAttrAccessFlags, kAttrCurState | kAttrQkey}},
};

unsigned column(QpType type) { return type == QpType::kRc ? 0 : type == QpType::kUc ? 1 : 2; }

}  // namespace

ModifyResult check_transition(QpType type, QpState from, QpState to, uint32_t mask) {
  mask &= ~uint32_t{kAttrState};
  if (to == QpState::kReset || to == QpState::kErr)
    return mask == 0 ? ModifyResult::kOk : ModifyResult::kExtraAttribute;
  for (const Transition& t : kTable) {
    if (t.from != from || t.to != to) continue;
    const unsigned c = column(type);
    if (type == QpType::kRc && from == QpState::kSqe) break;
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
