#include "congestion/congestion_control.h"

#include "base/check.h"

namespace uroce {

namespace {

constexpr Duration kQuiet = milliseconds(100);
constexpr int64_t kQuietRoundTrips = 4;
constexpr uint64_t kQuietPackets = 64;  // requesters ask for an answer at least every 32 packets

}  // namespace

void CongestionControl::start(uint32_t mtu) {
  mtu_ = mtu;
  limited_ = false;
  rate_ = 0;
  shortest_rtt_ = latest_rtt_ = {0};
  heard_at_ = {0};
  restart();
}

void CongestionControl::on_sent(uint32_t /*bytes*/, Instant /*now*/) {}
void CongestionControl::on_cnp(Instant /*now*/) {}
void CongestionControl::on_loss(Instant now) { heard_at_ = now; }
void CongestionControl::advance(Instant /*now*/) {}
void CongestionControl::handle_rtt(Duration /*rtt*/, Instant /*now*/) {}

void CongestionControl::on_rtt(Duration rtt, Instant now) {
  heard_at_ = now;
  latest_rtt_ = rtt;
  if (shortest_rtt_.ns == 0 || rtt < shortest_rtt_) shortest_rtt_ = rtt;
  handle_rtt(rtt, now);
}

/// A sample that is merely late, because the path is long or the rate low, is no silence.
Duration CongestionControl::patience() const {
  const Duration packets{static_cast<int64_t>(kQuietPackets * mtu_ * 8'000'000'000u / rate_)};
  return std::max({kQuiet, latest_rtt_ * kQuietRoundTrips, packets});
}

uint64_t CongestionControl::max_rate() const {
  if (config_.dcqcn.rpg_max_rate != 0) return config_.dcqcn.rpg_max_rate * kMegabit;
  return config_.link_bits_per_second != 0 ? config_.link_bits_per_second : kUnknownLinkBitsPerSecond;
}

void CongestionControl::set_rate(uint64_t bits_per_second) {
  ensure(bits_per_second != 0, "a rate is more than nothing");
  limited_ = bits_per_second < max_rate();
  rate_ = bits_per_second;
}

/// The bandwidth-delay product of the highest rate, or of the current one as in HPCC's variable window.
uint64_t CongestionControl::window_bytes() const {
  const uint64_t own = own_window_bytes();
  if (!config_.has_win) return own;
  const Duration rtt = config_.base_rtt.ns != 0 ? config_.base_rtt : shortest_rtt_;
  if (rtt.ns == 0) return own;
  const uint64_t rate = config_.var_win && limited_ ? rate_ : max_rate();
  const auto product = static_cast<unsigned __int128>(rate) * static_cast<uint64_t>(rtt.ns) / 8'000'000'000u;
  const uint64_t window = std::max<uint64_t>(static_cast<uint64_t>(product), 1);
  return own == 0 ? window : std::min(own, window);
}

}  // namespace uroce
