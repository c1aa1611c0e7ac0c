#include "replay/learned_responder.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "transport/packet_count.h"

namespace uroce::replay {

namespace {

constexpr uint32_t kRemoteRights = kRemoteRead | kRemoteWrite | kRemoteAtomic | kFlushGlobal | kFlushPersistent;

uint32_t right_of(Operation operation) {
  switch (operation) {
    case Operation::kWrite:
    case Operation::kAtomicWrite:
      return kRemoteWrite;
    case Operation::kFlush:
      return kFlushGlobal | kFlushPersistent;
    case Operation::kReadRequest:
      return kRemoteRead;
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
      return kRemoteAtomic;
    default:
      return 0;
  }
}

class ResponderLearner {
 public:
  ResponderLearner(const Conversation& conversation, const Parameters& parameters)
      : packets_(conversation.packets), conversation_(conversation), parameters_(parameters) {}
  LearnedResponder run();

 private:
  void judge_requests();
  RequestNote judge(size_t at, size_t until) const;
  void prove_arrivals();
  void prove_until(Psn last, size_t response);
  bool arrived(size_t at) const;
  int64_t from_start(Psn psn) const { return distance(origin_, psn); }
  void learn_start();
  void learn_rights();
  void learn_region(size_t at);

  const std::vector<Recorded>& packets_;
  const Conversation& conversation_;
  const Parameters& parameters_;
  std::vector<size_t> responses_;  // usable ones
  bool fatal_ = false;             // a NAK ended the connection
  // By PSN, counted from that of the first request: every copy of a request, and the last copy that can be the one that
  // was carried out, because a later request was.
  Psn origin_;
  std::map<int64_t, std::vector<size_t>> copies_;
  std::unordered_map<int64_t, size_t> arrived_by_;
  LearnedResponder learned_;
};

/// What the first relevant answer between this request and its next copy tells about it.
RequestNote ResponderLearner::judge(size_t at, size_t until) const {
  const Psn psn = packets_[at].psn();
  auto next = std::lower_bound(responses_.begin(), responses_.end(), at);
  for (; next != responses_.end() && *next < until; ++next) {
    const Recorded& response = packets_[*next];
    const int32_t beyond = distance(psn, response.psn());
    const bool acknowledge = response.info().operation == Operation::kAcknowledge;
    const uint8_t syndrome = acknowledge ? response.view.aeth().syndrome : 0;
    const AethKind kind = acknowledge ? aeth_kind(syndrome) : AethKind::kAck;
    if (beyond > 0 || (beyond == 0 && kind == AethKind::kAck)) return {Fate::kAccepted, 0};
    if (kind == AethKind::kAck) continue;
    if (kind == AethKind::kRnrNak && beyond == 0) return {Fate::kNotReady, 0};
    const bool sequence =
        kind == AethKind::kNak && aeth_value(syndrome) == static_cast<uint8_t>(NakCode::kPsnSequenceError);
    if (sequence) return {beyond < 0 ? Fate::kAhead : Fate::kLost, 0};
    if (kind == AethKind::kNak && beyond == 0) return {Fate::kRefused, aeth_value(syndrome)};
  }
  return {};
}

/// Acknowledged requests were carried out, and everything before them was carried out earlier.
void ResponderLearner::prove_arrivals() {
  bool any = false;
  for (size_t i = 0; i < packets_.size(); i++) {
    if (packets_[i].response || !packets_[i].usable()) continue;
    if (!any) origin_ = packets_[i].psn();
    any = true;
    copies_[from_start(packets_[i].psn())].push_back(i);
  }
  for (const size_t at : responses_) {
    const Recorded& response = packets_[at];
    const bool acknowledge = response.info().operation == Operation::kAcknowledge;
    const bool nak = acknowledge && aeth_kind(response.view.aeth().syndrome) != AethKind::kAck;
    prove_until(nak ? response.psn() - 1 : response.psn(), at);
  }
}

/// Goes backwards from the last one. Of each request it takes the last copy before the request that had to follow.
void ResponderLearner::prove_until(Psn last, size_t response) {
  int64_t psn = from_start(last);
  for (size_t limit = response;;) {
    const auto next = copies_.upper_bound(psn);
    if (next == copies_.begin()) return;
    const auto& [first, copies] = *std::prev(next);
    if (arrived_by_.contains(first)) return;
    const auto behind = std::lower_bound(copies.begin(), copies.end(), limit);
    if (behind == copies.begin()) return;
    limit = *std::prev(behind);
    if (from_start(end_of(packets_[limit].view, learned_.mtu)) <= psn) return;  // the capture lacks requests
    arrived_by_[first] = limit;
    psn = first - 1;
  }
}

/// Later copies came too late to be the one that was carried out.
bool ResponderLearner::arrived(size_t at) const {
  const auto found = arrived_by_.find(from_start(packets_[at].psn()));
  return found != arrived_by_.end() && found->second == at;
}

void ResponderLearner::judge_requests() {
  const size_t count = packets_.size();
  learned_.notes.resize(count);
  for (size_t i = 0; i < count; i++) {
    if (packets_[i].response && packets_[i].usable()) responses_.push_back(i);
  }
  if (conversation_.service != Service::kRc) return;
  prove_arrivals();
  std::vector<size_t> copy(count, SIZE_MAX);  // the next request with the same PSN
  std::unordered_map<uint32_t, size_t> seen;
  for (size_t i = count; i-- > 0;) {
    if (packets_[i].response || !packets_[i].usable()) continue;
    const auto [at, fresh] = seen.try_emplace(packets_[i].psn().value(), i);
    if (!fresh) {
      copy[i] = at->second;
      at->second = i;
    }
  }
  bool hole_open = false;  // something is missing
  Psn hole;
  for (size_t i = 0; i < count; i++) {
    if (packets_[i].response || !packets_[i].usable()) continue;
    const bool already_lost = learned_.notes[i].fate == Fate::kLost;  // its earlier copy was lost, and this is the last
    learned_.notes[i] = judge(i, std::min(copy[i], count));
    RequestNote& note = learned_.notes[i];
    if (note.fate == Fate::kUnknown && arrived(i)) note.fate = Fate::kAccepted;
    if (note.fate == Fate::kUnknown && (copy[i] != SIZE_MAX || already_lost)) note.fate = Fate::kLost;
    // One lost packet explains why all later ones get no answer.
    const bool behind_hole = hole_open && hole.before(packets_[i].psn());
    if (note.fate == Fate::kLost && behind_hole) {
      note.fate = Fate::kAhead;
    } else if (note.fate == Fate::kLost) {
      hole = packets_[i].psn();
      hole_open = true;
    } else if (hole_open && hole == packets_[i].psn()) {
      hole_open = false;
    }
    if (note.fate == Fate::kLost && copy[i] != SIZE_MAX) learned_.notes[copy[i]].fate = Fate::kLost;
    fatal_ |= note.fate == Fate::kRefused;
  }
}

void ResponderLearner::learn_start() {
  const auto request = std::find_if(packets_.begin(), packets_.end(),
                                    [](const Recorded& packet) { return !packet.response && packet.usable(); });
  if (request != packets_.end()) learned_.first_psn = request->psn();
  for (const size_t at : responses_) {
    const Recorded& response = packets_[at];
    if (response.info().operation != Operation::kAcknowledge) break;
    const uint8_t syndrome = response.view.aeth().syndrome;
    if (syndrome == make_syndrome(AethKind::kNak, 0) && response.psn().before(learned_.first_psn)) {
      learned_.first_psn = response.psn();
    }
    break;
  }
  for (const size_t at : responses_) {
    const Recorded& response = packets_[at];
    if (response.info().operation != Operation::kAcknowledge) continue;
    const uint8_t syndrome = response.view.aeth().syndrome;
    if (aeth_kind(syndrome) == AethKind::kRnrNak) learned_.rnr_timer = aeth_value(syndrome);
  }
}

void ResponderLearner::learn_region(size_t at) {
  const Recorded& request = packets_[at];
  const PacketView& view = request.view;
  const OpcodeInfo& info = request.info();
  uint64_t begin = 0;
  uint64_t bytes = 0;
  uint32_t rkey = 0;
  if (info.has(kHasReth)) {
    const Reth reth = view.reth();
    if (reth.dma_length == 0) return;
    begin = reth.va;
    bytes = reth.dma_length;
    rkey = reth.rkey;
  } else if (info.has(kHasAtomicEth)) {
    begin = view.atomic_eth().va;
    bytes = 8;
    rkey = view.atomic_eth().rkey;
  } else if (info.has(kHasIeth)) {
    learned_.regions[view.ieth().rkey].window = true;
    return;
  } else {
    return;
  }
  if (begin + bytes < begin) return;
  LearnedRegion& region = learned_.regions[rkey];
  const bool fresh = region.end == region.begin;
  region.begin = fresh ? begin : std::min(region.begin, begin);
  region.end = fresh ? begin + bytes : std::max(region.end, begin + bytes);
  region.access |= right_of(info.operation);
}

/// A key allows the operations accepted with it; the QP allows those that were not refused as invalid requests.
void ResponderLearner::learn_rights() {
  learned_.access = kRemoteRights;
  uint32_t used = 0;   // what was accepted once was allowed
  int64_t behind = 0;  // the PSN behind all requests so far
  for (size_t i = 0; i < packets_.size(); i++) {
    if (packets_[i].response || !packets_[i].usable()) continue;
    const RequestNote& note = learned_.notes[i];
    const PacketView& view = packets_[i].view;
    // A request that comes again and gets no answer may ask for something that is not allowed, since such requests are
    // dropped.
    const int64_t psn = from_start(packets_[i].psn());
    const bool again = psn < behind;
    behind = std::max(behind, psn + 1);
    const bool taken = note.fate == Fate::kAccepted || note.fate == Fate::kNotReady ||
                       (note.fate == Fate::kUnknown && !fatal_ && !again);
    if (taken) learn_region(i);
    const bool aligned = !view.info->has(kHasAtomicEth) || (view.atomic_eth().va & 7) == 0;
    const bool whole = !view.info->has(kHasReth) || !view.info->is_last() || !view.info->has(kHasPayload) ||
                       view.reth().dma_length == view.payload_bytes;
    const uint32_t right = right_of(view.info->operation);
    if (taken) used |= right;
    if (note.fate == Fate::kRefused && note.nak == static_cast<uint8_t>(NakCode::kInvalidRequest) && aligned && whole &&
        view.info->is_first() && (used & right) == 0) {
      learned_.access &= ~right;
    }
  }
  if (parameters_.access) learned_.access = *parameters_.access;
  for (const RegionParameter& region : parameters_.regions) {
    learned_.regions[region.rkey] = {region.va, region.va + region.length, region.access, false};
  }
}

LearnedResponder ResponderLearner::run() {
  learned_.mtu = learn_mtu(conversation_, parameters_, learned_.mtu_proven);
  judge_requests();
  learn_start();
  learn_rights();
  if (parameters_.psn) learned_.first_psn = Psn(*parameters_.psn);
  if (parameters_.rnr_timer) learned_.rnr_timer = *parameters_.rnr_timer;
  return std::move(learned_);
}

}  // namespace

Psn end_of(const PacketView& request, uint32_t mtu) {
  const bool read = request.info->operation == Operation::kReadRequest;
  return request.bth.psn + (read ? packets_of(request.reth().dma_length, mtu) : 1);
}

uint32_t learn_mtu(const Conversation& conversation, const Parameters& parameters, bool& proven) {
  proven = parameters.mtu || conversation.path_mtu != 0;
  if (parameters.mtu) return *parameters.mtu;
  if (conversation.path_mtu != 0) return conversation.path_mtu;
  uint32_t mtu = 1024;
  for (const Recorded& recorded : conversation.packets) {
    if (!recorded.usable()) continue;
    while (mtu < 4096 && recorded.view.payload_bytes > mtu) mtu *= 2;
  }
  return mtu;
}

const Recorded* learn_path(const Conversation& conversation, bool responses, AddressVector& av) {
  if (conversation.service == Service::kUd) return nullptr;
  for (const Recorded& recorded : conversation.packets) {
    if (!recorded.parsed || recorded.response != responses) continue;
    const PacketView& view = recorded.view;
    av.traffic_class = view.traffic_class & 0xFC;
    av.hop_limit = view.hop_limit;
    av.flow_label = view.ipv6 ? load_be32(view.l3) & 0xFFFFF : 0;
    return &recorded;
  }
  return nullptr;
}

LearnedResponder learn_responder(const Conversation& conversation, const Parameters& parameters) {
  return ResponderLearner(conversation, parameters).run();
}

}  // namespace uroce::replay
