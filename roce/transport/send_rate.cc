#include "transport/send_rate.h"

#include <algorithm>

namespace uroce {

SendRate::SendRate(const CongestionConfig& config, bool wanted) : config_(config) {
  if (wanted) control_ = make_congestion_control(config);
}

void SendRate::start(uint32_t mtu) {
  mtu_ = mtu;
  pacer_.reset();
  limited_ = closed_ = false;
  if (control_) control_->start(mtu);
  if (control_ || limit_ != 0) follow({0});
}

void SendRate::on_rtt(std::optional<Duration> rtt, Instant now) {
  if (!rtt || !control_) return;
  control_->on_rtt(*rtt, now);
  news_ = true;
}

void SendRate::on_loss(Instant now) {
  if (!control_) return;
  control_->on_loss(now);
  news_ = true;
}

bool SendRate::on_cnp(Instant now) {
  if (!control_ || !control_->takes_cnps()) return false;
  control_->on_cnp(now);
  follow(now);
  return true;
}

Instant SendRate::next_timeout() const {
  return control_ ? std::min(pacer_.open_at(), control_->next_change()) : pacer_.open_at();
}

}  // namespace uroce
