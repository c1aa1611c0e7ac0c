#include "replay/recording.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "lint/linter.h"
#include "lint/mad.h"
#include "packet/icrc.h"
#include "pcap/reader.h"
#include "replay/text.h"

namespace uroce::replay {

namespace {

constexpr uint32_t kLinkBytes = 14;

const char* service_name(Service service) {
  switch (service) {
    case Service::kRc:
      return "RC";
    case Service::kUc:
      return "UC";
    case Service::kUd:
      return "UD";
    default:
      return "other";
  }
}

/// Puts an Ethernet header of our own before the IP packet.
Recorded make_recorded(const pcap::Frame& frame, const pcap::NetworkLayer& network) {
  Recorded recorded;
  recorded.frame = frame.number;
  recorded.time = frame.time;
  if (frame.link == pcap::LinkType::kEthernet) {
    recorded.link.emplace().vlan_id = network.vlan_id;
    std::copy_n(frame.bytes.begin(), 6, recorded.link->destination.bytes.begin());
    std::copy_n(frame.bytes.begin() + 6, 6, recorded.link->source.bytes.begin());
  }
  recorded.bytes.assign(kLinkBytes, 0);
  recorded.bytes[0] = recorded.bytes[6] = 0x02;
  store_be16(&recorded.bytes[12], network.ethertype);
  recorded.bytes.insert(recorded.bytes.end(), network.bytes.begin(), network.bytes.end());
  recorded.parsed = parse_frame(recorded.bytes, recorded.view) == ParseResult::kOk;
  recorded.icrc_right = recorded.parsed && icrc_matches(recorded.view);
  recorded.response = recorded.parsed && recorded.view.info->is_response();
  return recorded;
}

class Sorter {
 public:
  Sorter(std::span<const uint8_t> file, Recording& recording) : file_(file), recording_(recording) {}
  void run();

 private:
  void judge();
  void pair_the_rest();
  void sort(const pcap::Frame& frame);
  void add(uint32_t flow, Recorded recorded, bool cut);
  uint32_t flow_of(const lint::FlowEnds& key, uint64_t frame) const;
  uint32_t partner_of(uint32_t flow, uint64_t frame) const;
  size_t conversation_of(uint32_t flow, const Recorded& recorded);
  std::optional<size_t> goes_on(uint32_t flow, const Recorded& recorded) const;
  void learn_mtu();
  void join_directions();
  void note_end(const lint::Packet& packet);
  void close();

  std::span<const uint8_t> file_;
  Recording& recording_;
  lint::Linter linter_;
  CmSorter cm_;
  struct End {  // the end of a connection, by a DREQ
    IpAddress from;
    IpAddress to;
    uint32_t qpn = 0;  // of its receiver
    uint64_t frame = 0;
    Instant time{};
  };
  std::vector<End> ends_;
  std::unordered_map<lint::FlowEnds, std::vector<uint32_t>, lint::FlowEndsHash> flows_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> asked_by_;  // for a flow of answers, the flows that it answers
  std::unordered_map<uint32_t, uint32_t> adopted_;                // requests, and the flow that answers them
  std::map<std::tuple<uint32_t, uint32_t>, size_t> index_;        // request flow and UD source QP
};

/// Lets roce/tools/lint read the whole capture first, because it finds out which flows belong together.
void Sorter::judge() {
  pcap::CaptureReader reader(file_);
  for (pcap::Frame frame; reader.next(frame);) linter_.on_frame(frame);
  linter_.finish();
  if (reader.error()) {
    recording_.error =
        format("byte %llu: ", static_cast<unsigned long long>(reader.error()->offset)) + reader.error()->text;
  }
  for (uint32_t i = 0; i < linter_.flows().size(); i++) {
    const lint::Flow& flow = linter_.flows()[i];
    flows_[flow.key].push_back(i);
    if (flow.partner != lint::kNoFlow) asked_by_[flow.partner].push_back(i);
  }
  pair_the_rest();
}

/// Answers that fit no request belong to the requests between the two hosts that came before and that nothing else
/// answers, if there is just one such flow.
void Sorter::pair_the_rest() {
  const auto& flows = linter_.flows();
  for (uint32_t i = 0; i < flows.size(); i++) {
    if (flows[i].service != Service::kRc || flows[i].partner != lint::kNoFlow || asked_by_.contains(i)) continue;
    if (flows[i].channel != nullptr) continue;
    uint32_t only = lint::kNoFlow;
    unsigned candidates = 0;
    for (uint32_t k = 0; k < flows.size(); k++) {
      const bool requests = flows[k].channel != nullptr && flows[k].service == Service::kRc;
      if (!requests || flows[k].partner != lint::kNoFlow || adopted_.contains(k)) continue;
      if (flows[k].key.src != flows[i].key.dst || flows[k].key.dst != flows[i].key.src) continue;
      if (flows[k].statistics.first_frame > flows[i].statistics.first_frame) continue;
      only = k;
      candidates++;
    }
    if (candidates != 1) continue;
    asked_by_[i].push_back(only);
    adopted_[only] = i;
  }
}

/// The flow that this one answers. When a QP number was used for another QP, its earlier partner may remain.
uint32_t Sorter::partner_of(uint32_t flow, uint64_t frame) const {
  const auto found = asked_by_.find(flow);
  if (found == asked_by_.end()) return linter_.flows()[flow].partner;
  uint32_t last = found->second.front();
  for (const uint32_t asker : found->second) {
    if (linter_.flows()[asker].statistics.first_frame <= frame) last = asker;
  }
  return last;
}

/// The flow, among those of successive QPs with this number, to which the frame belongs. A frame before all of them
/// belongs to the first.
uint32_t Sorter::flow_of(const lint::FlowEnds& key, uint64_t frame) const {
  const auto found = flows_.find(key);
  if (found == flows_.end()) return lint::kNoFlow;
  uint32_t last = found->second.front();
  for (const uint32_t flow : found->second) {
    if (linter_.flows()[flow].statistics.first_frame <= frame) last = flow;
  }
  return last;
}

/// A new QP does not begin inside a message: such a packet is a repetition that differs from its original.
std::optional<size_t> Sorter::goes_on(uint32_t index, const Recorded& recorded) const {
  const lint::Flow& flow = linter_.flows()[index];
  if (flow.service != Service::kRc || !recorded.usable() || recorded.info().is_first()) return std::nullopt;
  const std::vector<uint32_t>& lives = flows_.at(flow.key);
  const auto life = std::find(lives.begin(), lives.end(), index);
  if (life == lives.begin()) return std::nullopt;
  const auto earlier = index_.find({*std::prev(life), 0});
  if (earlier == index_.end()) return std::nullopt;
  return earlier->second;
}

size_t Sorter::conversation_of(uint32_t index, const Recorded& recorded) {
  const lint::Flow& flow = linter_.flows()[index];
  const bool datagram = flow.service == Service::kUd;
  const uint32_t source_qp =
      datagram && recorded.parsed && recorded.info().has(kHasDeth) ? recorded.view.deth().src_qp : 0;
  const auto [at, fresh] = index_.try_emplace({index, source_qp}, recording_.conversations.size());
  if (!fresh) return at->second;
  if (const auto earlier = goes_on(index, recorded)) return at->second = *earlier;
  Conversation conversation;
  conversation.service = *flow.service;
  conversation.requester = flow.key.src;
  conversation.responder = flow.key.dst;
  conversation.responder_qpn = flow.key.dest_qp;
  if (datagram) {
    conversation.requester_qpn = source_qp;
  } else if (flow.partner != lint::kNoFlow) {
    conversation.requester_qpn = linter_.flows()[flow.partner].key.dest_qp;
  } else if (const auto adopted = adopted_.find(index); adopted != adopted_.end()) {
    conversation.requester_qpn = linter_.flows()[adopted->second].key.dest_qp;
  }
  recording_.conversations.push_back(std::move(conversation));
  return at->second;
}

void Sorter::add(uint32_t flow, Recorded recorded, bool cut) {
  if (recorded.response) {
    const uint32_t partner = partner_of(flow, recorded.frame);
    // Without a request the answer belongs to no conversation.
    if (partner == lint::kNoFlow || !index_.contains({partner, 0})) {
      recording_.homeless++;
      return;
    }
    flow = partner;
  }
  if (!linter_.flows()[flow].service) {
    recording_.homeless++;
    return;
  }
  Conversation& conversation = recording_.conversations[conversation_of(flow, recorded)];
  conversation.cut |= cut;
  conversation.packets.push_back(std::move(recorded));
}

void Sorter::sort(const pcap::Frame& frame) {
  recording_.frames++;
  lint::Packet packet;
  std::vector<lint::Issue> issues;
  const lint::Dissection dissection = lint::dissect(frame, packet, issues);
  if (dissection == lint::Dissection::kOther) return;
  const auto network = pcap::network_layer(frame);
  if (!network) return;
  recording_.roce_packets++;
  if (!packet.has_bth || !packet.has_addresses) {
    recording_.homeless++;
    return;
  }
  if (packet.view.bth.opcode == kOpcodeCnp) {
    recording_.cnps++;
    return;
  }
  if (packet.view.bth.dest_qp == lint::kGsiQpn) {
    if (!cm_.add(packet)) recording_.cm_packets++;
    note_end(packet);
    return;
  }
  const uint32_t flow = flow_of({packet.view.src_ip, packet.view.dst_ip, packet.view.bth.dest_qp}, frame.number);
  if (flow == lint::kNoFlow) {
    recording_.homeless++;
    return;
  }
  add(flow, make_recorded(frame, *network), dissection == lint::Dissection::kCut || !packet.whole);
}

/// A packet that others of its message follow is exactly one MTU long.
void Sorter::learn_mtu() {
  for (Conversation& conversation : recording_.conversations) {
    for (const Recorded& recorded : conversation.packets) {
      if (!recorded.usable() || !recorded.info().has(kHasPayload) || recorded.info().is_last()) continue;
      const uint32_t bytes = recorded.view.payload_bytes;
      const bool legal = bytes >= 256 && bytes <= 4096 && (bytes & (bytes - 1)) == 0;
      if (legal) conversation.path_mtu = std::max(conversation.path_mtu, bytes);
    }
  }
}

void Sorter::join_directions() {
  auto& all = recording_.conversations;
  for (const auto& [key, at] : index_) {
    const uint32_t partner = linter_.flows()[std::get<0>(key)].partner;
    if (all[at].service == Service::kUd || partner == lint::kNoFlow) continue;
    const auto found = index_.find({partner, 0});
    if (found == index_.end()) continue;
    all[at].reverse = found->second;
    all[at].path_mtu = std::max(all[at].path_mtu, all[found->second].path_mtu);
  }
}

void Sorter::note_end(const lint::Packet& packet) {
  if (!packet.whole || packet.view.payload_bytes != lint::kMadBytes) return;
  const auto message = lint::decode_cm(packet.view.payload);
  if (!message || message->attribute != lint::CmAttribute::kDreq) return;
  ends_.push_back({packet.view.src_ip, packet.view.dst_ip, message->qpn, packet.frame, packet.time});
}

/// The first DREQ after the beginning of a conversation ends it. A DREQ names the QP of its receiver.
void Sorter::close() {
  for (Conversation& conversation : recording_.conversations) {
    if (conversation.service == Service::kUd) continue;
    for (const End& end : ends_) {
      if (end.frame < conversation.packets.front().frame) continue;
      const bool at_responder = end.from == conversation.requester && end.to == conversation.responder &&
                                end.qpn == conversation.responder_qpn;
      const bool at_requester = end.from == conversation.responder && end.to == conversation.requester &&
                                end.qpn == conversation.requester_qpn;
      if (!at_responder && !at_requester) continue;
      conversation.closed = end.time;
      break;
    }
  }
}

void Sorter::run() {
  judge();
  pcap::CaptureReader reader(file_);
  for (pcap::Frame frame; reader.next(frame);) sort(frame);
  learn_mtu();
  join_directions();
  close();
  recording_.exchanges = cm_.take();
}

}  // namespace

Recording read_recording(std::span<const uint8_t> file) {
  Recording recording;
  Sorter(file, recording).run();
  return recording;
}

std::string describe(const Conversation& conversation) {
  std::string text = to_string(conversation.requester) + " -> " + to_string(conversation.responder);
  text += conversation.requester_qpn ? format(" qp 0x%x", *conversation.requester_qpn) : std::string(" qp ?");
  return text + format(" -> 0x%x ", conversation.responder_qpn) + service_name(conversation.service);
}

}  // namespace uroce::replay
