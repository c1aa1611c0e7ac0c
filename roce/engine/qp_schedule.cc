#include "engine/qp_schedule.h"

namespace uroce {

QpSchedule::QpSchedule(uint32_t qps_max)
    : ready_(qps_max, qps_max),
      paused_(qps_max, qps_max),
      congested_(qps_max, qps_max),
      cnps_(kCnpsMax, qps_max),
      timers_(qps_max) {}

void QpSchedule::remove(const Qp& qp) {
  ready_.remove(qp);
  paused_.remove(qp);
  cnps_.remove(qp);
  timers_.cancel(qp.index());
}

void QpSchedule::release_all_paused() {
  for (; !paused_.empty(); paused_.pop()) {
    ensure(!ready_.contains(paused_.front()), "a QP that is paused has no turn");
    ready_.push(paused_.front());
  }
}

}  // namespace uroce
