#include "engine/steering.h"

#include <algorithm>
#include <new>
#include <span>

#include "base/check.h"
#include "packet/mac_control.h"

namespace uroce {
namespace {

bool is_multicast(const FlowKey& key) { return (key.dst_mac[0] & 1) != 0; }

bool comes_before(const FlowRule& a, const FlowRule& b) {
  return a.kind != b.kind ? a.kind < b.kind : a.priority < b.priority;
}

/// The destination that a flow is for; false: it names none, or is for more than one.
bool names_mac(const FlowRule& flow, MacAddress& mac) {
  const auto& mask = flow.match.mask.dst_mac;
  if (flow.kind != FlowRuleKind::kNormal || !std::all_of(mask, mask + 6, [](uint8_t byte) { return byte == 0xFF; }))
    return false;
  std::memcpy(mac.bytes.data(), flow.match.value.dst_mac, 6);
  return true;
}

}  // namespace

FlowRule* Steering::add(const FlowRule& flow) {
  if (flows_.size() >= kFlowsMax) return nullptr;
  loopback_.open();
  const auto place = std::upper_bound(flows_.begin(), flows_.end(), flow,
                                      [](const FlowRule& a, const auto& b) { return comes_before(a, *b); });
  const auto inserted = flows_.insert(place, std::make_unique<FlowRule>(flow));
  FlowRule* const added = inserted->get();
  bool indexed = false;
  try {
    if (flow.kind == FlowRuleKind::kNormal) index_.add(*added);
    indexed = flow.kind == FlowRuleKind::kNormal;
    MacAddress mac;
    const bool named = names_mac(flow, mac) && !(all_ && macs_.size() >= kMacsMax);
    const bool known = named ? std::find(macs_.begin(), macs_.end(), mac) != macs_.end() : all_;
    if (!known) tell_filter();
  } catch (const std::bad_alloc&) {
    if (indexed) index_.remove(*added);
    flows_.erase(inserted);
    throw;
  }
  if (flow.kind == FlowRuleKind::kSniffer) sniffers_++;
  return added;
}

void Steering::remove(const FlowRule& flow) {
  const auto found = std::find_if(flows_.begin(), flows_.end(), [&](const auto& f) { return f.get() == &flow; });
  ensure(found != flows_.end(), "a flow that is removed was added");
  if (flow.kind == FlowRuleKind::kNormal) index_.remove(flow);
  if (flow.kind == FlowRuleKind::kSniffer) sniffers_--;
  MacAddress mac;
  const bool named = names_mac(flow, mac);
  flows_.erase(found);
  const auto wants_the_same = [&](const auto& other) {
    MacAddress its;
    return names_mac(*other, its) == named && (!named || its == mac);
  };
  if (std::none_of(flows_.begin(), flows_.end(), wants_the_same)) tell_filter();
}

void Steering::forget(const Qp& qp) {
  for (const auto& flow : flows_) {
    if (flow->qp == &qp) flow->qp = nullptr;
  }
  for (RssGroup* const group : groups_) {
    for (Qp*& entry : group->table) {
      if (entry == &qp) entry = nullptr;
    }
  }
}

/// Tells the filter which frames are wanted when that has changed.
void Steering::tell_filter() {
  std::vector<MacAddress> macs;
  bool all = false;
  for (const auto& flow : flows_) {
    MacAddress mac;
    if (!names_mac(*flow, mac) || macs.size() >= kMacsMax) {
      all = true;
    } else if (std::find(macs.begin(), macs.end(), mac) == macs.end()) {
      macs.push_back(mac);
    }
  }
  if (macs == macs_ && all == all_) return;
  macs_ = std::move(macs);
  all_ = all;
  if (filter_ != nullptr) filter_->want_raw(macs_, all_);
}

bool Steering::takes_own(const MacAddress& dst, const MacAddress& own) const {
  if (flows_.empty()) return false;
  return dst == own || dst.is_multicast() || std::find(macs_.begin(), macs_.end(), dst) != macs_.end();
}

Steering::Arrival Steering::arrival_of(const RxFrame& frame, Instant now) {
  Arrival arrival{{}, {}, frame.bytes, now};
  const bool copied = frame.headers != nullptr;
  const uint32_t head = copied ? std::min(frame.bytes, RxFrame::kHeaderBytes) : frame.bytes;
  arrival.frame.head = copied ? frame.headers : frame.data;
  arrival.frame.head_bytes = head;
  arrival.frame.rest = frame.data + head;
  arrival.frame.rest_bytes = frame.bytes - head;
  arrival.key = flow_key_of({arrival.frame.head, std::min(head, RxFrame::kHeaderBytes)});
  return arrival;
}

bool Steering::on_frame(const RxFrame& frame, Instant now) {
  if (flows_.empty()) return false;
  const Arrival arrival = arrival_of(frame, now);
  const bool pause = is_mac_control({arrival.frame.head, arrival.frame.head_bytes});
  bool taken = !pause && (take_normal(arrival) || take_default(arrival));
  if (sniffs()) {
    sniff(frame, now);
    taken = true;
  }
  return taken;
}

bool Steering::take_normal(const Arrival& arrival) {
  bool taken = false;
  int priority = -1;  // of the flows that took the frame and trap
  index_.for_each_match(arrival.key, [&](const FlowRule& flow) {
    if (priority >= 0 && flow.priority != priority) return false;
    count(flow, arrival);
    if (flow.drops) {
      counters_.rx_drop_flow++;
      taken = true;
      return false;
    }
    deliver(flow, arrival);
    if (!flow.traps) return true;
    taken = true;
    priority = flow.priority;
    return true;
  });
  return taken;
}

bool Steering::take_default(const Arrival& arrival) {
  const bool multicast = is_multicast(arrival.key);
  bool taken = false;
  for (size_t i = flows_.size(); i-- > 0;) {
    const FlowRule& flow = *flows_[i];
    if (flow.kind == FlowRuleKind::kSniffer) continue;
    if (flow.kind == FlowRuleKind::kNormal) break;
    if (flow.kind == FlowRuleKind::kMulticastDefault && !multicast) continue;
    count(flow, arrival);
    deliver(flow, arrival);
    taken = true;
  }
  return taken;
}

void Steering::sniff(const RxFrame& frame, Instant now) {
  const Arrival arrival = arrival_of(frame, now);
  for (size_t i = flows_.size(); i-- > 0 && flows_[i]->kind == FlowRuleKind::kSniffer;) {
    count(*flows_[i], arrival);
    deliver(*flows_[i], arrival);
  }
}

void Steering::count(const FlowRule& flow, const Arrival& arrival) {
  for (FlowCounter* const counter : flow.counters) {
    counter->packets++;
    counter->bytes += arrival.bytes;
  }
}

Qp* Steering::target_of(const FlowRule& flow, const Arrival& arrival) const {
  if (flow.group == nullptr) return flow.qp;
  const auto& table = flow.group->table;
  const uint32_t hash = rss_hash(flow.group->key, flow.group->fields, arrival.key);
  return table.empty() ? nullptr : table[hash & (table.size() - 1)];
}

void Steering::deliver(const FlowRule& flow, const Arrival& arrival) {
  Qp* const qp = target_of(flow, arrival);
  if (qp == nullptr) {
    counters_.rx_drop_flow++;
    return;
  }
  RawFrame frame = arrival.frame;
  frame.flow_tag = flow.tag;
  qp->on_frame(frame, arrival.now);
  schedule_.update(*qp);
}

}  // namespace uroce
