#include "engine/qp_schedule.h"

namespace uroce {

QpSchedule::QpSchedule(uint32_t qps_max)
    : ready_(qps_max, qps_max),
      parked_(qps_max, qps_max),
      held_(qps_max, qps_max),
      cnps_(kCnpsMax, qps_max),
      timers_(qps_max) {}

void QpSchedule::remove(const Qp& qp) {
  ready_.remove(qp);
  parked_.remove(qp);
  cnps_.remove(qp);
  timers_.cancel(qp.index());
}

void QpSchedule::unpark_all() {
  for (; !parked_.empty(); parked_.pop()) {
    ensure(!ready_.contains(parked_.front()), "a QP that is parked has no turn");
    ready_.push(parked_.front());
  }
}

}  // namespace uroce
