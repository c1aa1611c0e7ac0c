#include "engine/neighbour_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace uroce {

namespace {

constexpr Duration kFirstRetry = milliseconds(10);  // well within the time that QPs with short timeouts retry
constexpr Duration kLastRetry = milliseconds(1000);
constexpr Duration kVerifyInterval = milliseconds(1000);  // between two rounds of questions, when this host wants one
constexpr Duration kClaimInterval = milliseconds(100);    // when another host's claim causes one
constexpr Duration kAnswerTime = milliseconds(1000);      // a later reply does not count as an answer

}  // namespace

bool is_unicast(const IpAddress& ip) { return !ip.is_zero() && !ip.is_multicast() && ip != IpAddress::v4(0); }

NeighbourTable::NeighbourTable(const MacAddress& mac, Counters& counters, NewsDesk& news, Resolved on_resolved)
    : mac_(mac), counters_(counters), news_(news), on_resolved_(std::move(on_resolved)) {
  entries_.reserve(kMax);
}

const NeighbourTable::Entry* NeighbourTable::find(const IpAddress& ip, uint16_t vlan_id) const {
  for (const Entry& e : entries_) {
    if (e.ip == ip && e.vlan_id == vlan_id) return &e;
  }
  return nullptr;
}

NeighbourTable::Entry* NeighbourTable::find(const IpAddress& ip, uint16_t vlan_id) {
  return const_cast<Entry*>(std::as_const(*this).find(ip, vlan_id));
}

/// A fresh entry; when the table is full, in place of one that was never wanted here, or whose owner never
/// answered.
NeighbourTable::Entry* NeighbourTable::insert(const IpAddress& ip, uint16_t vlan_id) {
  Entry* entry = nullptr;
  if (entries_.size() < kMax) {
    ensure(entries_.size() < entries_.capacity(), "entries stay where they are");
    entry = &entries_.emplace_back();
  } else {
    const auto idle = [](const Entry& e) { return !e.fixed && e.next_question == Instant::never(); };
    auto old = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return !e.wanted && idle(e); });
    if (old == entries_.end()) old = std::find_if(entries_.begin(), entries_.end(), idle);
    if (old == entries_.end()) return nullptr;
    entry = &*old;
    *entry = Entry{};
  }
  entry->ip = ip;
  entry->vlan_id = vlan_id;
  return entry;
}

void NeighbourTable::set_mac(Entry& entry, const MacAddress& mac) {
  const bool news = !entry.known || entry.mac != mac;
  entry.known = true;
  entry.mac = mac;
  // The callback may call want(), which may reuse `entry`: hand it copies, and touch nothing afterwards.
  if (news) on_resolved_(IpAddress(entry.ip), entry.vlan_id, MacAddress(mac));
}

unsigned NeighbourTable::Entry::questions_max() const {
  if (!known) return kAttempts;
  return answered ? kHolderAttempts + kVerifyAttempts : kVerifyAttempts;
}

/// Whether the latest question was broadcast, and is not too long ago.
bool NeighbourTable::Entry::everybody_was_asked(Instant now) const {
  const unsigned to_holder = known && answered ? kHolderAttempts : 0;
  return questions > to_holder && now - last_question <= kAnswerTime;
}

std::optional<MacAddress> NeighbourTable::lookup(const IpAddress& ip, uint16_t vlan_id) const {
  const Entry* entry = find(ip, vlan_id);
  if (entry == nullptr || !entry->known) return std::nullopt;
  return entry->mac;
}

bool NeighbourTable::has_another(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac, Instant now) const {
  const Entry* entry = find(ip, vlan_id);
  return entry != nullptr && entry->known && entry->mac != mac && !entry->everybody_was_asked(now);
}

// Claims.

void NeighbourTable::hear(const NeighbourClaim& claim, Instant now) {
  if (!is_unicast(claim.ip) || claim.mac == mac_) return;
  Entry* entry = find(claim.ip, claim.vlan_id);
  if (entry == nullptr) {
    if (claim.how != Heard::kQuestion || !claim.asked->on_link(claim.ip) || entries_.size() == kMax) return;
    entry = insert(claim.ip, claim.vlan_id);
    entry->source = *claim.asked;
  }
  if (!entry->known) {
    on_first(*entry, claim.mac, claim.how, now);
  } else if (entry->mac == claim.mac) {
    on_holder(*entry, claim.how, now);
  } else {
    on_other(*entry, claim.mac, claim.how, now);
  }
}

/// No MAC is known yet. A question names its sender's MAC, which is enough to answer with; it is still verified if the
/// address is wanted.
void NeighbourTable::on_first(Entry& entry, const MacAddress& mac, Heard how, Instant now) {
  if (how == Heard::kAnnouncement || (how == Heard::kAnswer && !entry.wanted)) {
    if (entry.wanted) ask_soon(entry, now);
    return;
  }
  if (how == Heard::kAnswer) {
    entry.answered = true;
    entry.settle();
  }
  set_mac(entry, mac);
}

/// The holder lives: it keeps its address, and the other claimant is reported.
void NeighbourTable::on_holder(Entry& entry, Heard how, Instant now) {
  if (how == Heard::kAnswer && entry.wanted) entry.answered = true;
  if (!entry.answered) return;
  entry.settle();
  if (entry.claimant.is_zero()) return;
  tell(NeighbourNews::Kind::kDisputed, entry, entry.claimant, now);
  entry.claimant = MacAddress{};
}

/// Another host says that it has the address of `entry`.
void NeighbourTable::on_other(Entry& entry, const MacAddress& mac, Heard how, Instant now) {
  counters_.neighbour_claims++;
  if (entry.fixed) return tell(NeighbourNews::Kind::kDisputed, entry, mac, now);
  if (!entry.wanted) {
    // Neither claim was verified, and nothing here uses the address: forget the old one.
    entry.known = false;
    return on_first(entry, mac, how, now);
  }
  if (how == Heard::kAnswer && entry.everybody_was_asked(now)) {
    counters_.neighbour_moves++;
    tell(NeighbourNews::Kind::kMoved, entry, mac, now);
    entry.answered = true;
    entry.claimant = MacAddress{};
    entry.settle();
    return set_mac(entry, mac);
  }
  if (entry.claimant.is_zero()) entry.claimant = mac;
  verify(entry, now, kClaimInterval);
}

void NeighbourTable::tell(NeighbourNews::Kind kind, const Entry& entry, const MacAddress& claimant, Instant now) {
  news_.tell({kind, entry.ip, entry.vlan_id, entry.mac, claimant}, now);
}

bool NeighbourTable::set_static(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac) {
  if (!is_unicast(ip)) return false;
  Entry* entry = find(ip, vlan_id);
  if (entry == nullptr) entry = insert(ip, vlan_id);
  if (entry == nullptr) return false;
  entry->wanted = entry->fixed = true;
  entry->next_question = Instant::never();
  set_mac(*entry, mac);
  return true;
}

// Questions.

void NeighbourTable::want(const IpAddress& ip, const LocalAddress& source, Instant now) {
  Entry* entry = find(ip, source.vlan_id);
  if (entry == nullptr) entry = insert(ip, source.vlan_id);
  if (entry == nullptr) {
    counters_.tx_neighbour_unresolved++;
    return;
  }
  if (entry->fixed) return;
  entry->wanted = true;
  entry->source = source;
  if (entry->known) return verify(*entry, now, kVerifyInterval);
  entry->questions = 0;
  entry->next_question = now;
  next_due_ = std::min(next_due_, now);
}

void NeighbourTable::want_again(const IpAddress& ip, const LocalAddress& source, Instant now) {
  const Entry* entry = find(ip, source.vlan_id);
  if (entry == nullptr) entry = insert(ip, source.vlan_id);  // it gave way to others
  if (entry == nullptr) return;
  const bool asked_lately = now - entry->last_question < kVerifyInterval;
  if (!entry->known && entry->next_question == Instant::never() && !asked_lately) want(ip, source, now);
}

/// Asks whether the address still has this MAC. One round of questions at a time.
void NeighbourTable::verify(Entry& entry, Instant now, Duration interval) {
  const Instant at = std::max(now, entry.last_question + interval);
  const bool waits = entry.questions == 0 && entry.next_question > at;
  if (!waits && entry.next_question != Instant::never()) return;
  entry.questions = 0;
  entry.next_question = at;
  next_due_ = std::min(next_due_, entry.next_question);
}

/// The awaited host may be there now: asks early, and does not count this question.
void NeighbourTable::ask_soon(Entry& entry, Instant now) {
  const Instant soon = std::max(now, entry.last_question + kFirstRetry);
  if (entry.next_question <= soon) return;
  if (entry.questions > 0) entry.questions--;
  entry.next_question = soon;
  next_due_ = std::min(next_due_, soon);
}

std::optional<NeighbourQuestion> NeighbourTable::take_question(Instant now) {
  if (now < next_due_) return std::nullopt;
  std::optional<NeighbourQuestion> question;
  const auto due = [&](const Entry& e) { return now >= e.next_question; };
  if (const auto entry = std::find_if(entries_.begin(), entries_.end(), due); entry != entries_.end()) {
    question = {entry->ip, entry->vlan_id, entry->source, std::nullopt};
    if (entry->asks_holder()) question->holder = entry->mac;
    schedule_next(*entry, now);
  }
  update_next_due();
  return question;
}

void NeighbourTable::schedule_next(Entry& entry, Instant now) {
  ensure(!entry.fixed, "what is known for good is not asked for");
  entry.questions++;
  entry.last_question = now;
  if (entry.questions >= entry.questions_max()) {
    entry.next_question = Instant::never();
    return;
  }
  const unsigned doublings = std::min(entry.questions - 1, 10u);
  entry.next_question = now + std::min(kFirstRetry * (int64_t{1} << doublings), kLastRetry);
}

void NeighbourTable::update_next_due() {
  next_due_ = Instant::never();
  for (const Entry& e : entries_) next_due_ = std::min(next_due_, e.next_question);
}

}  // namespace uroce
