#include "engine/bring_up.h"

#include "transport/qp.h"

namespace uroce {

ModifyResult bring_up(Engine& engine, Qp& qp, QpAttributes attributes, QpState target, Instant now) {
  if (qp.state() != QpState::kReset && qp.state() != QpState::kInit) return ModifyResult::kBadTransition;
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    if (state <= qp.state() || state > target) continue;
    attributes.state = state;
    const uint32_t mask = required_attributes(qp.type(), qp.state(), state);
    if (const auto result = engine.modify_qp(qp, attributes, mask, now); result != ModifyResult::kOk) return result;
  }
  return ModifyResult::kOk;
}

}  // namespace uroce
