#include "transport/shown_queue_pair.h"

namespace uroce {

void QueuePairShow::update(const QpContext& context, Psn next) {
  if (context.env.direct == nullptr || context.type != QpType::kRc) return;
  const bool receives =
      context.state == QpState::kRtr || context.state == QpState::kRts || context.state == QpState::kSqd;
  if (!receives) return hide(context);
  awaits_first_ = context.state == QpState::kRtr && next == context.attributes.rq_psn;
  if (!awaits_first_) show(context, next);
}

void QueuePairShow::show(const QpContext& context, Psn next) {
  awaits_first_ = false;
  next_ = context.env.direct->show({.qpn = context.qpn,
                                    .dest_qpn = context.attributes.dest_qpn,
                                    .pd = context.pd,
                                    .access = context.attributes.access,
                                    .reads = context.attributes.max_dest_rd_atomic,
                                    .vlan_id = context.path.vlan_id,
                                    .own = context.path.src_ip,
                                    .peer = context.path.dst_ip});
  if (next_ != nullptr) next_->store(next.value(), std::memory_order_release);
}

void QueuePairShow::hide(const QpContext& context) {
  awaits_first_ = false;
  if (next_ == nullptr) return;
  next_ = nullptr;
  context.env.direct->hide_queue_pair(context.qpn);
}

}  // namespace uroce
