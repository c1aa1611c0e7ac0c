#include "engine/neighbour_news.h"

#include <algorithm>

namespace uroce {

std::string to_string(const NeighbourNews& news) {
  std::string ip = to_string(news.ip);
  if (news.vlan_id != 0) ip += " (VLAN " + std::to_string(news.vlan_id) + ")";
  const std::string holder = to_string(news.holder);
  const std::string claimant = to_string(news.claimant);
  switch (news.kind) {
    case NeighbourNews::Kind::kMoved:
      return "neighbour " + ip + " moved from " + holder + ", which does not answer, to " + claimant;
    case NeighbourNews::Kind::kDisputed:
      return "two neighbours claim " + ip + ": " + holder + " answers and keeps it, " + claimant +
             " is ignored; one of them is wrongly configured, or forges";
    case NeighbourNews::Kind::kOurs:
      return "our own address " + ip + " is claimed by " + claimant + " (we are " + holder +
             "): give one of the two another address";
  }
  return "?";
}

bool NewsLimiter::allows(const NeighbourNews& news, Instant now) {
  if (left_ == kBurst) refilled_ = now;
  const auto refills = static_cast<uint64_t>((now - refilled_).ns / kInterval.ns);
  left_ = static_cast<uint32_t>(std::min<uint64_t>(kBurst, left_ + refills));
  refilled_ = refilled_ + kInterval * static_cast<int64_t>(refills);
  // A move is an event; a dispute is a state, which every further claim would report again.
  const bool event = news.kind == NeighbourNews::Kind::kMoved;
  const auto end = told_.begin() + std::min(told_count_, kBurst);
  if (!event && std::find(told_.begin(), end, news) != end) return false;
  if (left_ == 0) return false;
  left_--;
  if (!event) told_[told_count_++ % kBurst] = news;
  return true;
}

}  // namespace uroce
