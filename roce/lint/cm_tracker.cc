#include "lint/cm_tracker.h"

#include <cstring>

#include "lint/finding.h"

namespace uroce::lint {
namespace {

constexpr size_t kMaxExchanges = 1u << 18;

}  // namespace

size_t CmTracker::KeyHash::operator()(const Key& key) const {
  uint64_t halves[2];
  std::memcpy(halves, key.ip.bytes.data(), 16);
  return (halves[0] ^ halves[1] * 0x9E3779B97F4A7C15u ^ key.number) * 0xBF58476D1CE4E5B9u;
}

void CmTracker::on_req(const IpAddress& src, const IpAddress& dst, const CmMessage& message) {
  if (exchanges_.size() == kMaxExchanges) return;
  if (const auto known = by_transaction_.find({src, message.transaction_id}); known != by_transaction_.end()) {
    if (exchanges_[known->second].active.id == message.local_id) return;  // sent again
  }
  Exchange exchange;
  exchange.active = {src, message.local_id, message.qpn, message.starting_psn, message.responder_resources};
  exchange.passive.ip = dst;
  exchange.service = message.service;
  const auto index = static_cast<uint32_t>(exchanges_.size());
  by_transaction_[{src, message.transaction_id}] = index;
  by_id_[{src, message.local_id}] = index;
  exchanges_.push_back(exchange);
}

/// The exchange that a message other than REQ belongs to: by its transaction, or by the id that its sender chose.
CmTracker::Exchange* CmTracker::find(const IpAddress& src, const IpAddress& dst, const CmMessage& message) {
  for (const IpAddress& ip : {dst, src}) {
    const auto found = by_transaction_.find({ip, message.transaction_id});
    if (found == by_transaction_.end()) continue;
    Exchange& exchange = exchanges_[found->second];
    const bool same_ends = (exchange.active.ip == src && exchange.passive.ip == dst) ||
                           (exchange.active.ip == dst && exchange.passive.ip == src);
    if (same_ends) return &exchange;
  }
  const auto found = by_id_.find({src, message.local_id});
  return found == by_id_.end() ? nullptr : &exchanges_[found->second];
}

std::optional<CmTracker::Established> CmTracker::on_rep(Exchange& exchange, const CmMessage& message) {
  if (exchange.established) return std::nullopt;
  exchange.passive.id = message.local_id;
  exchange.passive.qpn = message.qpn;
  exchange.passive.starting_psn = message.starting_psn;
  exchange.passive.responder_resources = message.responder_resources;
  exchange.has_passive = exchange.established = true;
  by_id_[{exchange.passive.ip, message.local_id}] = static_cast<uint32_t>(&exchange - exchanges_.data());
  return Established{exchange.active, exchange.passive, exchange.service};
}

std::optional<CmTracker::Established> CmTracker::on_message(const IpAddress& src, const IpAddress& dst,
                                                            const CmMessage& message, std::vector<Issue>& issues) {
  if (message.attribute == CmAttribute::kReq) {
    on_req(src, dst, message);
    return std::nullopt;
  }
  Exchange* const exchange = find(src, dst, message);
  if (exchange == nullptr) return std::nullopt;  // it began before the capture
  const bool from_active =
      exchange->active.ip == src && (exchange->passive.ip != src || message.local_id == exchange->active.id);
  const char* name = cm_attribute_name(message.attribute);
  const End& mine = from_active ? exchange->active : exchange->passive;
  const End& theirs = from_active ? exchange->passive : exchange->active;
  const bool mine_known = from_active || exchange->has_passive;
  const bool theirs_known = !from_active || exchange->has_passive;
  // A REJ may come from a side that never chose an id, or does not know the other's id.
  const bool may_be_zero = message.attribute == CmAttribute::kRej;
  if (theirs_known && message.remote_id != theirs.id && !(may_be_zero && message.remote_id == 0)) {
    issues.push_back({Rule::kCmId, sentence("%s with remote communication id 0x%08x; expected 0x%08x", name,
                                            message.remote_id, theirs.id)});
    return std::nullopt;
  }
  if (mine_known && message.local_id != mine.id && !(may_be_zero && message.local_id == 0)) {
    issues.push_back({Rule::kCmId, sentence("%s with local communication id 0x%08x; expected 0x%08x", name,
                                            message.local_id, mine.id)});
    return std::nullopt;
  }
  if (message.attribute != CmAttribute::kRep || from_active) return std::nullopt;
  return on_rep(*exchange, message);
}

}  // namespace uroce::lint
