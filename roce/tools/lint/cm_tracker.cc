#include "lint/cm_tracker.h"

#include <cstring>

#include "lint/finding.h"

namespace uroce::lint {
namespace {

constexpr size_t kMaxExchanges = 1u << 18;
constexpr size_t kMaxDoubts = 1u << 12;
/// Longer than any sender waits for an answer: sixteen tries, and an MRA that asks for 275 s.
constexpr Duration kLongestWait = milliseconds(1200 * 1000);

unsigned long long wide(uint64_t number) { return number; }

}  // namespace

size_t CmTracker::KeyHash::operator()(const Key& key) const {
  uint64_t halves[2];
  std::memcpy(halves, key.ip.bytes.data(), 16);
  return (halves[0] ^ halves[1] * 0x9E3779B97F4A7C15u ^ key.number) * 0xBF58476D1CE4E5B9u;
}

void CmTracker::on_req(const Seen& seen, const CmMessage& message, std::vector<Issue>& issues) {
  if (const auto known = by_transaction_.find({seen.src, message.transaction_id}); known != by_transaction_.end()) {
    Exchange& exchange = exchanges_[known->second];
    Sent& sent = exchange.sent[kActive];
    const bool ended =
        sent.has(CmAttribute::kDreq) || exchange.sent[kPassive].has(CmAttribute::kDreq) || sent.has(CmAttribute::kRej);
    if (exchange.connection.active.id == message.local_id && !ended) {  // sent again
      sent.opening++;
      if (sent.digests[0] == message.digest) return;
      issues.push_back({Rule::kCmRepeatDiffers, "REQ sent again with other content; expected the same"});
      return;
    }
  }
  if (exchanges_.size() == kMaxExchanges) return;
  Exchange exchange;
  exchange.connection.active = {
      seen.src, message.local_id, message.qpn, message.starting_psn, message.responder_resources, message.rnr_retries};
  exchange.connection.passive.ip = seen.dst;
  exchange.connection.service = message.service;
  exchange.connection.path_mtu = message.path_mtu;
  exchange.connection.req_frame = seen.frame;
  exchange.transaction_id = message.transaction_id;
  exchange.sent[kActive].attributes = Sent::bit(CmAttribute::kReq);
  exchange.sent[kActive].opening = 1;
  exchange.sent[kActive].digests[0] = message.digest;
  const auto index = static_cast<uint32_t>(exchanges_.size());
  by_transaction_[{seen.src, message.transaction_id}] = index;
  by_id_[{seen.src, message.local_id}] = index;
  exchanges_.push_back(exchange);
}

void CmTracker::on_sidr(const Seen& seen, const CmMessage& message, std::vector<Issue>& issues) {
  if (message.attribute == CmAttribute::kSidrReq) {
    if (resolutions_.size() == kMaxExchanges) return;
    const Resolution fresh{message.transaction_id, message.digest};
    const auto [known, is_new] = resolutions_.try_emplace({seen.src, message.local_id}, fresh);
    if (is_new || known->second.transaction_id != message.transaction_id) {
      known->second = fresh;
    } else if (known->second.digest != message.digest) {
      issues.push_back({Rule::kCmRepeatDiffers, "SIDR_REQ sent again with other content; expected the same"});
    }
    return;
  }
  const auto asked = resolutions_.find({seen.dst, message.remote_id});
  if (asked == resolutions_.end()) return on_stranger(seen, message);
  if (asked->second.transaction_id == message.transaction_id) return;
  issues.push_back(
      {Rule::kCmTransaction, sentence("SIDR_REP of transaction 0x%llx; expected 0x%llx, that of the request",
                                      wide(message.transaction_id), wide(asked->second.transaction_id))});
}

/// An answer to a request that is not in the capture. Most likely that came before; but no sender waits for ever.
void CmTracker::on_stranger(const Seen& seen, const CmMessage& message) {
  const bool opens = message.attribute == CmAttribute::kRep || message.attribute == CmAttribute::kSidrRep;
  if (!opens || doubts_.size() == kMaxDoubts || exchanges_.size() == kMaxExchanges) return;
  if (seen.time - *began_ < kLongestWait) return;
  const char* name = cm_attribute_name(message.attribute);
  doubts_.push_back({{Rule::kCmUnasked, sentence("%s for the id 0x%08x, which no request of this capture had; expected "
                                                 "one",
                                                 name, message.remote_id)},
                     seen.frame,
                     seen.flow,
                     seen.dst,
                     seen.src});
}

/// The exchange that a message other than REQ belongs to: by its transaction, or by the ids that it names.
CmTracker::Exchange* CmTracker::find(const Seen& seen, const CmMessage& message) {
  const auto joins = [&](const Exchange& exchange) {
    const IpAddress& active = exchange.connection.active.ip;
    const IpAddress& passive = exchange.connection.passive.ip;
    return (active == seen.src && passive == seen.dst) || (active == seen.dst && passive == seen.src);
  };
  for (const IpAddress& ip : {seen.dst, seen.src}) {
    const auto found = by_transaction_.find({ip, message.transaction_id});
    if (found != by_transaction_.end() && joins(exchanges_[found->second])) return &exchanges_[found->second];
  }
  for (const Key& key : {Key{seen.src, message.local_id}, Key{seen.dst, message.remote_id}}) {
    const auto found = by_id_.find(key);
    if (found != by_id_.end() && joins(exchanges_[found->second])) return &exchanges_[found->second];
  }
  return nullptr;
}

bool CmTracker::ids_fit(const Message& m, std::vector<Issue>& issues) const {
  const Connection& connection = m.exchange.connection;
  const End& mine = m.side == kActive ? connection.active : connection.passive;
  const End& theirs = m.side == kActive ? connection.passive : connection.active;
  const bool mine_known = m.side == kActive || m.exchange.has_passive;
  const bool theirs_known = m.side == kPassive || m.exchange.has_passive;
  // A REJ may come from a side that never chose an id, or does not know the other's id.
  const bool may_be_zero = m.message.attribute == CmAttribute::kRej;
  if (theirs_known && m.message.remote_id != theirs.id && !(may_be_zero && m.message.remote_id == 0)) {
    issues.push_back({Rule::kCmId, sentence("%s with remote communication id 0x%08x; expected 0x%08x", m.name,
                                            m.message.remote_id, theirs.id)});
    return false;
  }
  if (mine_known && m.message.local_id != mine.id && !(may_be_zero && m.message.local_id == 0)) {
    issues.push_back({Rule::kCmId, sentence("%s with local communication id 0x%08x; expected 0x%08x", m.name,
                                            m.message.local_id, mine.id)});
    return false;
  }
  return true;
}

/// Answers to a REQ or a REP belong to the REQ's transaction; DREQ and LAP begin one of their own.
void CmTracker::check_transaction(const Message& m, std::vector<Issue>& issues) const {
  uint64_t expected = m.exchange.transaction_id;
  switch (m.message.attribute) {
    case CmAttribute::kDreq:
    case CmAttribute::kLap:
      return;
    case CmAttribute::kDrep:
      if (!m.theirs().has(CmAttribute::kDreq)) return;
      expected = m.theirs().dreq_transaction;
      break;
    case CmAttribute::kApr:
      if (!m.theirs().has(CmAttribute::kLap)) return;
      expected = m.theirs().lap_transaction;
      break;
    case CmAttribute::kMra:
    case CmAttribute::kRej:
      if (m.message.answered == Answered::kReq || m.message.answered == Answered::kRep) break;
      return;
    default:
      break;
  }
  if (m.message.transaction_id == expected) return;
  issues.push_back({Rule::kCmTransaction, sentence("%s of transaction 0x%llx; expected 0x%llx", m.name,
                                                   wide(m.message.transaction_id), wide(expected))});
}

void CmTracker::doubt(const Message& m, const char* missing) {
  if (doubts_.size() == kMaxDoubts) return;
  doubts_.push_back({{Rule::kCmUnasked, sentence("%s, but no %s came before it; expected one", m.name, missing)},
                     m.seen.frame,
                     m.seen.flow,
                     m.seen.dst,
                     m.seen.src});
}

/// Whether the sender may send this now, as far as the capture shows what reached it.
void CmTracker::check_place(const Message& m, std::vector<Issue>& issues) {
  const Sent& passive = m.exchange.sent[kPassive];
  const bool from_active = m.side == kActive;
  const char* out_of_order = nullptr;
  switch (m.message.attribute) {
    case CmAttribute::kRep:
      if (from_active) out_of_order = "from the side that connects";
      // Each REQ is refused or accepted; one that comes again may be accepted after all.
      if (!from_active && m.mine().refused >= m.theirs().opening) out_of_order = "after every REQ was refused";
      break;
    case CmAttribute::kRtu:
      if (!from_active) out_of_order = "from the side that accepts";
      if (from_active && m.mine().has(CmAttribute::kRej)) out_of_order = "after a REJ of its own";
      if (from_active && !passive.has(CmAttribute::kRep)) doubt(m, "REP");
      break;
    case CmAttribute::kMra:
    case CmAttribute::kRej:
      if (!from_active && m.message.answered == Answered::kRep) out_of_order = "for a REP of its own";
      // A sender that gives up waiting for an answer may say so with REJ 4, and name the REQ.
      if (from_active && m.message.answered == Answered::kReq && m.message.reason != kReasonTimeout) {
        out_of_order = "for a REQ of its own";
      }
      if (from_active && m.message.answered == Answered::kRep && !passive.has(CmAttribute::kRep)) doubt(m, "REP");
      break;
    case CmAttribute::kDreq:
    case CmAttribute::kLap:
      if (!from_active && !passive.has(CmAttribute::kRep)) out_of_order = "before its REP";
      if (from_active && !passive.has(CmAttribute::kRep)) doubt(m, "REP");
      break;
    case CmAttribute::kDrep:
      if (!m.theirs().has(CmAttribute::kDreq)) doubt(m, "DREQ");
      break;
    case CmAttribute::kApr:
      if (!m.theirs().has(CmAttribute::kLap)) doubt(m, "LAP");
      break;
    default:
      break;
  }
  if (out_of_order == nullptr) return;
  issues.push_back({Rule::kCmOrder, sentence("%s %s", m.name, out_of_order)});
}

void CmTracker::check_repetition(const Message& m, std::vector<Issue>& issues) {
  unsigned kind = 0;
  if (m.message.attribute == CmAttribute::kRtu) {
    kind = 1;
  } else if (m.message.attribute == CmAttribute::kDreq) {
    kind = 2;
  } else if (m.message.attribute != CmAttribute::kRep) {
    return;
  }
  if (!m.mine().has(m.message.attribute)) {
    m.mine().digests[kind] = m.message.digest;
  } else if (m.mine().digests[kind] != m.message.digest) {
    issues.push_back({Rule::kCmRepeatDiffers, sentence("%s sent again with other content; expected the same", m.name)});
  }
}

CmTracker::Progress CmTracker::advance(const Message& m) {
  Connection& connection = m.exchange.connection;
  const bool is_new = !m.mine().has(m.message.attribute);
  m.mine().attributes |= Sent::bit(m.message.attribute);
  switch (m.message.attribute) {
    case CmAttribute::kRej:
      m.mine().refused++;
      break;
    case CmAttribute::kLap:
      m.mine().lap_transaction = m.message.transaction_id;
      break;
    case CmAttribute::kRtu:
      if (m.side == kActive) return {Step::kConfirmed, &connection};
      break;
    case CmAttribute::kDreq:
      m.mine().dreq_transaction = m.message.transaction_id;
      return {Step::kEnding, &connection};
    case CmAttribute::kRep:
      if (m.side == kActive || !is_new) break;
      connection.passive = {connection.passive.ip,         m.message.local_id,   m.message.qpn, m.message.starting_psn,
                            m.message.responder_resources, m.message.rnr_retries};
      m.exchange.has_passive = true;
      by_id_[{connection.passive.ip, m.message.local_id}] = static_cast<uint32_t>(&m.exchange - exchanges_.data());
      return {Step::kConnected, &connection};
    default:
      break;
  }
  return {};
}

CmTracker::Progress CmTracker::on_message(const Seen& seen, const CmMessage& message, std::vector<Issue>& issues) {
  if (!began_) began_ = seen.time;
  if (message.attribute == CmAttribute::kReq) {
    on_req(seen, message, issues);
    return {};
  }
  if (message.attribute == CmAttribute::kSidrReq || message.attribute == CmAttribute::kSidrRep) {
    on_sidr(seen, message, issues);
    return {};
  }
  Exchange* const exchange = find(seen, message);
  if (exchange == nullptr) {
    on_stranger(seen, message);
    return {};
  }
  const Connection& connection = exchange->connection;
  const bool from_active = connection.active.ip == seen.src &&
                           (connection.passive.ip != seen.src || message.local_id == connection.active.id);
  const Message m{seen, message, *exchange, from_active ? kActive : kPassive, cm_attribute_name(message.attribute)};
  if (!ids_fit(m, issues)) return {};
  check_transaction(m, issues);
  check_place(m, issues);
  check_repetition(m, issues);
  if (message.attribute == CmAttribute::kDreq && exchange->has_passive) {
    const uint32_t theirs = from_active ? connection.passive.qpn : connection.active.qpn;
    if (message.qpn != theirs) {
      issues.push_back({Rule::kCmDreqQp, sentence("DREQ for QP 0x%06x; expected 0x%06x", message.qpn, theirs)});
    }
  }
  return advance(m);
}

}  // namespace uroce::lint
