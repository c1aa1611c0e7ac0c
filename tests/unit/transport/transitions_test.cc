// The state machine: every transition of every QP type, every mask bit too many and too few.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "transport/qp_transitions.h"

namespace uroce::test {
namespace {

constexpr QpState kStates[] = {QpState::kReset, QpState::kInit, QpState::kRtr, QpState::kRts,
                               QpState::kSqd,   QpState::kSqe,  QpState::kErr};
constexpr uint32_t kEveryBit[] = {kAttrCurState,
                                  kAttrEnSqdAsyncNotify,
                                  kAttrAccessFlags,
                                  kAttrPkeyIndex,
                                  kAttrPort,
                                  kAttrQkey,
                                  kAttrAv,
                                  kAttrPathMtu,
                                  kAttrTimeout,
                                  kAttrRetryCnt,
                                  kAttrRnrRetry,
                                  kAttrRqPsn,
                                  kAttrMaxQpRdAtomic,
                                  kAttrAltPath,
                                  kAttrMinRnrTimer,
                                  kAttrSqPsn,
                                  kAttrMaxDestRdAtomic,
                                  kAttrPathMigState,
                                  kAttrDestQpn};

struct Rule {
  uint32_t required;
  uint32_t optional;
};
using Key = std::pair<QpState, QpState>;

constexpr uint32_t P = kAttrPkeyIndex, L = kAttrPort, A = kAttrAccessFlags, Q = kAttrQkey, C = kAttrCurState,
                   N = kAttrMinRnrTimer, R = kAttrRateLimit;

/// From ibv_modify_qp(3) and the kernel's qp_state_table, written down independently.
std::map<Key, Rule> rules(QpType type) {
  using S = QpState;
  std::map<Key, Rule> table;
  if (type == QpType::kRc) {
    const uint32_t rtr = kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn | kAttrMaxDestRdAtomic | N;
    const uint32_t rts = kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrSqPsn | kAttrMaxQpRdAtomic;
    table[{S::kReset, S::kInit}] = {P | L | A, 0};
    table[{S::kInit, S::kInit}] = {0, P | L | A};
    table[{S::kInit, S::kRtr}] = {rtr, A | P};
    table[{S::kRtr, S::kRts}] = {rts, C | A | N | R};
    table[{S::kRts, S::kRts}] = {0, C | A | N | R};
    table[{S::kRts, S::kSqd}] = {0, kAttrEnSqdAsyncNotify};
    table[{S::kSqd, S::kRts}] = {0, C | A | N | R};
    table[{S::kSqd, S::kSqd}] = {0, L | kAttrAv | kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrMaxQpRdAtomic |
                                        kAttrMaxDestRdAtomic | A | P | N};
  } else if (type == QpType::kXrcSend || type == QpType::kXrcRecv) {
    const bool asks = type == QpType::kXrcSend;
    const uint32_t live = asks ? C | A : C | A | N;
    const uint32_t rtr = kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn;
    table[{S::kReset, S::kInit}] = {P | L | A, 0};
    table[{S::kInit, S::kInit}] = {0, P | L | A};
    table[{S::kInit, S::kRtr}] = {asks ? rtr : rtr | kAttrMaxDestRdAtomic | N, A | P};
    table[{S::kRtr, S::kRts}] = {asks ? kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrSqPsn | kAttrMaxQpRdAtomic
                                      : uint32_t{kAttrTimeout | kAttrSqPsn},
                                 live};
    table[{S::kRts, S::kRts}] = {0, live};
    table[{S::kRts, S::kSqd}] = {0, kAttrEnSqdAsyncNotify};
    table[{S::kSqd, S::kRts}] = {0, live};
    table[{S::kSqd, S::kSqd}] = {
        0, L | kAttrAv | kAttrTimeout | A | P |
               (asks ? kAttrRetryCnt | kAttrRnrRetry | kAttrMaxQpRdAtomic : kAttrMaxDestRdAtomic | N)};
  } else if (type == QpType::kUc) {
    table[{S::kReset, S::kInit}] = {P | L | A, 0};
    table[{S::kInit, S::kInit}] = {0, P | L | A};
    table[{S::kInit, S::kRtr}] = {kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn, A | P};
    table[{S::kRtr, S::kRts}] = {kAttrSqPsn, C | A | R};
    table[{S::kRts, S::kRts}] = {0, C | A | R};
    table[{S::kRts, S::kSqd}] = {0, kAttrEnSqdAsyncNotify};
    table[{S::kSqd, S::kRts}] = {0, C | A | R};
    table[{S::kSqd, S::kSqd}] = {0, kAttrAv | A | P};
    table[{S::kSqe, S::kRts}] = {0, C | A};
  } else {
    table[{S::kReset, S::kInit}] = {P | L | Q, 0};
    table[{S::kInit, S::kInit}] = {0, P | L | Q};
    table[{S::kInit, S::kRtr}] = {0, P | Q};
    table[{S::kRtr, S::kRts}] = {kAttrSqPsn, C | Q | R};
    table[{S::kRts, S::kRts}] = {0, C | Q | R};
    table[{S::kRts, S::kSqd}] = {0, kAttrEnSqdAsyncNotify};
    table[{S::kSqd, S::kRts}] = {0, C | Q | R};
    table[{S::kSqd, S::kSqd}] = {0, P | Q};
    table[{S::kSqe, S::kRts}] = {0, C | Q};
  }
  for (const S from : kStates) {
    table[{from, S::kReset}] = {0, 0};
    table[{from, S::kErr}] = {0, 0};
  }
  return table;
}

class Transitions : public testing::TestWithParam<QpType> {};
INSTANTIATE_TEST_SUITE_P(Types, Transitions,
                         testing::Values(QpType::kRc, QpType::kUc, QpType::kUd, QpType::kXrcSend, QpType::kXrcRecv));

TEST_P(Transitions, ExactlyThese) {
  const auto table = rules(GetParam());
  for (const QpState from : kStates) {
    for (const QpState to : kStates) {
      const auto at = table.find({from, to});
      const uint32_t mask = kAttrState | (at == table.end() ? 0 : at->second.required);
      EXPECT_EQ(check_transition(GetParam(), from, to, mask),
                at == table.end() ? ModifyResult::kBadTransition : ModifyResult::kOk)
          << qp_type_name(GetParam()) << " " << qp_state_name(from) << " -> " << qp_state_name(to);
      EXPECT_EQ(required_attributes(GetParam(), from, to), mask)
          << qp_type_name(GetParam()) << " " << qp_state_name(from) << " -> " << qp_state_name(to);
    }
  }
}

TEST_P(Transitions, EachAttributeMissing) {
  for (const auto& [key, rule] : rules(GetParam())) {
    for (const uint32_t bit : kEveryBit) {
      if ((rule.required & bit) == 0) continue;
      EXPECT_EQ(check_transition(GetParam(), key.first, key.second, kAttrState | (rule.required & ~bit)),
                ModifyResult::kMissingAttribute)
          << qp_state_name(key.first) << " -> " << qp_state_name(key.second) << " without " << bit;
    }
  }
}

TEST_P(Transitions, EachAttributeMore) {
  for (const auto& [key, rule] : rules(GetParam())) {
    for (const uint32_t bit : kEveryBit) {
      if ((rule.required & bit) != 0) continue;
      const bool takes = (rule.optional & bit) != 0;
      EXPECT_EQ(check_transition(GetParam(), key.first, key.second, kAttrState | rule.required | bit),
                takes ? ModifyResult::kOk : ModifyResult::kExtraAttribute)
          << qp_type_name(GetParam()) << " " << qp_state_name(key.first) << " -> " << qp_state_name(key.second)
          << " with " << bit;
    }
  }
}

}  // namespace
}  // namespace uroce::test
