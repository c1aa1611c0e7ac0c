#include "transport/executed_log.h"

#include <algorithm>

#include "base/check.h"
#include "transport/packet_count.h"

namespace uroce {

namespace {

// How many times the responses of a READ are sent again, in all, until its requester gets further. A requester has at
// most eight tries (retry_cnt has three bits), and the network may duplicate each; with selective repeat it asks for
// small parts of a READ, in any order and as often as they are lost. A requester that uses go-back-N asks each time for
// all READs that follow, so their counts start anew when it gets further in an earlier one, or begins with a later one
// than ever before.
constexpr uint32_t kRepeatsMax = 32;

}  // namespace

void ExecutedLog::make_room(uint32_t depth) { entries_.assign(depth, Entry{}); }

void ExecutedLog::grow(uint32_t depth) {
  if (depth <= entries_.size()) return;
  entries_.reserve(depth);  // nothing fails after this
  std::rotate(entries_.begin(), entries_.begin() + next_, entries_.end());
  next_ = static_cast<uint32_t>(entries_.size());
  entries_.resize(depth);
}

void ExecutedLog::start(uint32_t mtu) {
  clear();
  mtu_ = mtu;
}

void ExecutedLog::clear() {
  next_ = 0;
  last_asked_.reset();
  std::fill(entries_.begin(), entries_.end(), Entry{});
}

ExecutedLog::Entry& ExecutedLog::add(Operation operation, Psn psn) {
  ensure(next_ < entries_.size(), "there is room to remember what was carried out");
  last_asked_.reset();
  Entry& entry = entries_[next_];
  next_ = (next_ + 1) % static_cast<uint32_t>(entries_.size());
  entry = Entry{};
  entry.operation = operation;
  entry.psn = entry.furthest_repeat = psn;
  return entry;
}

void ExecutedLog::add_read(Psn psn, const Reth& reth) { add(Operation::kReadRequest, psn).read = reth; }

void ExecutedLog::add_atomic(Operation operation, Psn psn, const AtomicEth& eth, uint64_t original) {
  Entry& entry = add(operation, psn);
  entry.atomic = eth;
  entry.original = original;
}

/// The entry of the given age; the latest has age 0.
ExecutedLog::Entry& ExecutedLog::entry(uint32_t age) {
  const auto size = static_cast<uint32_t>(entries_.size());
  return entries_[(next_ + size - 1 - age) % size];
}

/// A requester gets further when it asks from a PSN beyond all those from which it asked before.
bool ExecutedLog::repeats_left(const Entry& read, Psn psn) const {
  return read.furthest_repeat.before(psn) ||
         read.repeated_packets < kRepeatsMax * packets_of(read.read.dma_length, mtu_);
}

/// A request that does not follow the one asked for again before it is the first of those that a requester asks for
/// after it went back. Refused ones count as well: what stands behind them is no beginning.
void ExecutedLog::on_asked(uint32_t age, Psn psn) {
  const bool follows = last_asked_ && last_asked_->before(psn);
  last_asked_ = psn;
  if (follows) return;
  for (uint32_t later = 0; later <= age; later++) {
    if (entry(later).began_here) return;
  }
  entry(age).began_here = true;
  for (uint32_t later = 0; later <= age; later++) entry(later).repeated_packets = 0;
}

ExecutedLog::Entry* ExecutedLog::find_read(Psn psn, const Reth& reth) {
  for (uint32_t age = 0; age < entries_.size(); age++) {
    Entry& e = entry(age);
    if (e.operation != Operation::kReadRequest || psn.before(e.psn)) continue;
    const uint64_t offset = uint64_t{mtu_} * static_cast<uint32_t>(distance(e.psn, psn));
    if (offset != 0 && offset >= e.read.dma_length) continue;
    const bool part = reth.dma_length <= e.read.dma_length - offset && (reth.dma_length != 0 || e.read.dma_length == 0);
    const bool same = part && reth.rkey == e.read.rkey && reth.va == e.read.va + offset;
    if (!same) return nullptr;
    on_asked(age, psn);
    return repeats_left(e, psn) ? &e : nullptr;
  }
  return nullptr;
}

void ExecutedLog::on_repeated(Entry& read, Psn psn, uint32_t packets) {
  ensure(read.operation == Operation::kReadRequest, "what is answered again was a READ");
  if (read.furthest_repeat.before(psn)) {
    read.furthest_repeat = psn;
    uint32_t age = 0;
    while (&entry(age) != &read) entry(age++).repeated_packets = 0;
    read.repeated_packets = 0;
  }
  read.repeated_packets += packets;
}

const ExecutedLog::Entry* ExecutedLog::find_atomic(Operation operation, Psn psn, const AtomicEth& eth) const {
  for (const Entry& e : entries_) {
    if (e.operation != operation || e.psn != psn) continue;
    if (e.atomic == eth) return &e;
  }
  return nullptr;
}

}  // namespace uroce
