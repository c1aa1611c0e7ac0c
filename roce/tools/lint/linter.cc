#include "lint/linter.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace uroce::lint {
namespace {

constexpr size_t kMaxPkeys = 8;
constexpr unsigned kMixedIsANewQp = 3;
constexpr uint64_t kSearchStepsPerFrame = 256;
constexpr uint32_t kEagerSearches = 64;  // for a partner; later ones are rare, so that they cost little

size_t mix(const IpAddress& src, const IpAddress& dst, uint64_t number) {
  uint64_t a[2];
  uint64_t b[2];
  std::memcpy(a, src.bytes.data(), 16);
  std::memcpy(b, dst.bytes.data(), 16);
  uint64_t h = number * 0x9E3779B97F4A7C15u;
  for (const uint64_t word : {a[0], a[1], b[0], b[1]}) {
    h = (h ^ word) * 0xBF58476D1CE4E5B9u;
    h ^= h >> 29;
  }
  return h;
}

bool is_acknowledged(Service service) { return service == Service::kRc || service == Service::kXrc; }
bool is_connected(Service service) { return is_acknowledged(service) || service == Service::kUc; }

}  // namespace

size_t FlowEndsHash::operator()(const FlowEnds& key) const { return mix(key.src, key.dst, key.dest_qp); }
size_t PairKeyHash::operator()(const PairKey& key) const { return mix(key.src, key.dst, 1); }

Linter::Linter(const LintOptions& options) : options_(options), findings_(options.findings_per_rule) {
  if (!options.lossy_capture) return;
  // These findings can also be explained by a frame that was not captured.
  for (const Rule rule : {Rule::kPsnGap,
                          Rule::kCmUnasked,
                          Rule::kCmOrder,
                          Rule::kCmStartPsn,
                          Rule::kCmEarlyData,
                          Rule::kAckUnsent,
                          Rule::kRetransmitStart,
                          Rule::kNakRepeated,
                          Rule::kNakPsn,
                          Rule::kNakUnanswered,
                          Rule::kReadResponseMissing,
                          Rule::kAtomicMissing,
                          Rule::kReadResponseUnasked,
                          Rule::kAtomicResponseUnasked,
                          Rule::kAckForRead,
                          Rule::kMsn,
                          Rule::kRequestOrder,
                          Rule::kUcLoss,
                          Rule::kResponseQp,
                          Rule::kReadResponseOrder,
                          Rule::kSackUnsent,
                          Rule::kSackUnseen,
                          Rule::kSackOrder,
                          Rule::kSackStranger,
                          Rule::kRetransmitHeld}) {
    findings_.soften(rule);
  }
}

uint32_t Linter::find_flow(const Packet& packet) const {
  if (!packet.has_addresses || !packet.has_bth) return kNoFlow;
  const auto found = current_.find({packet.view.src_ip, packet.view.dst_ip, packet.view.bth.dest_qp});
  return found == current_.end() ? kNoFlow : found->second;
}

uint32_t Linter::make_flow(const FlowEnds& key) {
  if (flows_.size() >= options_.max_flows) return kNoFlow;
  const auto index = static_cast<uint32_t>(flows_.size());
  flows_.emplace_back();
  flows_.back().key = key;
  if (const auto old = current_.find(key); old != current_.end()) {
    Flow& earlier = flows_[old->second];
    if (earlier.partner != kNoFlow) flows_[earlier.partner].partner = kNoFlow;
    std::erase(unpaired_[{key.src, key.dst}], old->second);
  }
  current_[key] = index;
  return index;
}

uint32_t Linter::flow_of(const Packet& packet) {
  const uint32_t found = find_flow(packet);
  return found != kNoFlow ? found : make_flow({packet.view.src_ip, packet.view.dst_ip, packet.view.bth.dest_qp});
}

void Linter::report_issues(uint32_t flow) {
  for (Issue& issue : issues_) findings_.add(issue.rule, packet_.frame, flow, std::move(issue.text));
  issues_.clear();
}

void Linter::count(Flow& flow, const Packet& packet) {
  FlowStatistics& s = flow.statistics;
  if (s.packets++ == 0) {
    s.first_frame = packet.frame;
    s.first_psn = packet.psn();
    s.first_time = packet.time;
  }
  s.last_frame = packet.frame;
  s.last_time = packet.time;
  s.payload_bytes += packet.view.payload_bytes;
  const auto at = std::lower_bound(s.opcodes.begin(), s.opcodes.end(), packet.opcode(),
                                   [](const auto& entry, uint8_t opcode) { return entry.first < opcode; });
  if (at != s.opcodes.end() && at->first == packet.opcode()) {
    at->second++;
  } else {
    s.opcodes.insert(at, {packet.opcode(), 1});
  }
  if ((packet.view.traffic_class & 3) != 0) s.ecn_capable++;
  if (packet.view.ecn_marked() && packet.opcode() != kOpcodeCnp) {
    s.ecn_marked++;
    flow.marks_since_cnp++;
  }
}

void Linter::on_frame(const pcap::Frame& frame) {
  totals_.frames++;
  search_credit_ += kSearchStepsPerFrame;
  newest_ = dissect(frame, packet_, issues_);
  switch (newest_) {
    case Dissection::kOther:
      totals_.other++;
      return;
    case Dissection::kCut:
      totals_.cut++;
      break;
    case Dissection::kFaulty: {
      totals_.faulty++;
      const uint32_t flow = find_flow(packet_);
      if (flow != kNoFlow) flows_[flow].statistics.faulty++;
      report_issues(flow);
      return;
    }
    case Dissection::kPacket: {
      totals_.packets++;
      totals_.opcodes[packet_.opcode()]++;
      check_headers(packet_, issues_);
      const uint32_t flow = flow_of(packet_);
      report_issues(flow);
      if (flow == kNoFlow) {
        totals_.without_flow++;
      } else {
        on_packet(flow, packet_);
      }
      break;
    }
  }
  report_issues(kNoFlow);
}

/// A QP has one service. Several packets of another service in a row mean a new QP with an old number.
bool Linter::check_service(uint32_t& index, const Packet& packet) {
  Flow& flow = flows_[index];
  const Service service = packet.info().service;
  if (service == Service::kCnp) return true;
  if (!flow.service) flow.service = service;
  if (*flow.service == service) {
    flow.mixed_in_a_row = 0;
    return true;
  }
  if (++flow.mixed_in_a_row >= kMixedIsANewQp) {
    const uint32_t fresh = make_flow(flow.key);
    if (fresh == kNoFlow) return false;
    index = fresh;
    flows_[index].service = service;
    return true;
  }
  findings_.add(
      Rule::kServiceMixed, packet.frame, index,
      sentence("%s to a QP that received another service; expected that service", opcode_name(packet.opcode())));
  return false;
}

void Linter::check_identity(uint32_t index, const Packet& packet) {
  Flow& flow = flows_[index];
  const uint16_t pkey = packet.view.bth.pkey;
  const auto vote =
      std::find_if(flow.pkeys.begin(), flow.pkeys.end(), [pkey](const auto& v) { return v.pkey == pkey; });
  if (vote != flow.pkeys.end()) {
    vote->packets++;
  } else if (flow.pkeys.size() < kMaxPkeys) {
    flow.pkeys.push_back({pkey, 1, packet.frame});
  }
  if (packet.info().service == Service::kCnp || packet.info().service == Service::kUd) return;
  const uint16_t port = packet.view.udp_src_port;
  if (flow.statistics.packets > 0 && flow.udp_src_port != 0 && flow.udp_src_port != port && !flow.port_changed) {
    flow.port_changed = true;
    findings_.add(
        Rule::kUdpSourcePort, packet.frame, index,
        sentence("UDP source port %u after %u; expected one for the life of the QP", port, flow.udp_src_port));
  }
  flow.udp_src_port = port;
}

void Linter::on_packet(uint32_t index, const Packet& packet) {
  if (!check_service(index, packet)) {
    count(flows_[index], packet);
    return;
  }
  check_identity(index, packet);
  const OpcodeInfo& info = packet.info();
  if (info.service == Service::kRc) flows_[index].signature.on_packet(packet.view);
  if (info.operation == Operation::kCnp) {
    on_cnp(index, packet);
  } else if (info.service == Service::kUd) {
    if (packet.view.bth.dest_qp == kGsiQpn && packet.view.payload_bytes == kMadBytes && packet.whole) {
      on_cm(index, packet);
    }
  } else if (is_connected(info.service)) {
    cm_judge_.on_packet(index, packet);
    if (info.is_response()) {
      on_response(index, packet);
    } else {
      index = on_request(index, packet);
    }
  }
  count(flows_[index], packet);
}

void Linter::begin_channel(uint32_t index) {
  Flow& flow = flows_[index];
  flow.channel = std::make_unique<Channel>(findings_, index, flow.service.value_or(Service::kRc));
  if (options_.lossy_capture) flow.channel->set_lossy_capture();
  if (flow.partner != kNoFlow) {
    flow.channel->set_response_flow(flow.partner);
    flow.channel->set_signatures(&flow.signature, &flows_[flow.partner].signature);
  } else if (flow.service && is_acknowledged(*flow.service)) {
    unpaired_[{flow.key.src, flow.key.dst}].push_back(index);
  }
}

/// Returns the flow to which the packet belongs, which is a new one when the QP number begins another life.
uint32_t Linter::on_request(uint32_t index, const Packet& packet) {
  if (flows_[index].channel == nullptr) begin_channel(index);
  if (flows_[index].channel->on_request(packet) == Channel::Verdict::kTaken) return index;
  const uint32_t fresh = make_flow(flows_[index].key);
  if (fresh == kNoFlow) return index;
  flows_[fresh].service = packet.info().service;
  flows_[fresh].udp_src_port = packet.view.udp_src_port;
  flows_[fresh].signature.on_packet(packet.view);
  begin_channel(fresh);
  flows_[fresh].channel->on_request(packet);
  return fresh;
}

void Linter::join_channel(Flow& flow, uint32_t partner) {
  if (flow.channel == nullptr) return;
  flow.channel->set_response_flow(partner);
  flow.channel->set_signatures(&flow.signature, &flows_[partner].signature);
}

void Linter::pair(uint32_t request_flow, uint32_t response_flow) {
  Flow& requests = flows_[request_flow];
  Flow& responses = flows_[response_flow];
  requests.partner = response_flow;
  responses.partner = request_flow;
  requests.signature.set_ends(responses.key.dest_qp, requests.key.dest_qp);
  responses.signature.set_ends(requests.key.dest_qp, responses.key.dest_qp);
  join_channel(requests, response_flow);
  join_channel(responses, request_flow);
  std::erase(unpaired_[{requests.key.src, requests.key.dst}], request_flow);
  std::erase(unpaired_[{responses.key.src, responses.key.dst}], response_flow);
  paired_[{requests.key.src, requests.key.dst}].push_back(request_flow);
}

/// Finds the flow of requests that this packet answers, if exactly one flow waits for such an answer.
uint32_t Linter::find_partner(const Flow& responses, const Packet& packet) {
  const auto candidates = unpaired_.find({responses.key.dst, responses.key.src});
  if (candidates == unpaired_.end() || candidates->second.size() > search_credit_) return kNoFlow;
  search_credit_ -= candidates->second.size();
  uint32_t found = kNoFlow;
  for (const uint32_t index : candidates->second) {
    const Flow& candidate = flows_[index];
    // The signature of a selective ACK names its sender.
    const bool fits = packet.info().operation == Operation::kSelectiveAck
                          ? packet.view.signed_with(Signature(candidate.key.dest_qp, responses.key.dest_qp)) &&
                                candidate.channel->is_near(packet.psn())
                          : candidate.channel->could_answer(packet);
    if (!fits) continue;
    if (found != kNoFlow) return kNoFlow;
    found = index;
  }
  return found;
}

void Linter::on_response(uint32_t index, const Packet& packet) {
  if (flows_[index].partner == kNoFlow) {
    const uint32_t searches = flows_[index].partner_searches++;
    if (searches >= kEagerSearches && !std::has_single_bit(searches)) return;
    const uint32_t partner = find_partner(flows_[index], packet);
    if (partner == kNoFlow) return note_stray(flows_[index], packet);
    pair(partner, index);
  }
  Flow& requests = flows_[flows_[index].partner];
  if (requests.channel != nullptr) requests.channel->on_response(packet);
}

/// Notes a response to a QP that is not known to have sent requests: it may answer the requests of another QP.
void Linter::note_stray(Flow& responses, const Packet& packet) {
  const auto candidates = paired_.find({responses.key.dst, responses.key.src});
  if (candidates == paired_.end() || candidates->second.size() > search_credit_) return;
  search_credit_ -= candidates->second.size();
  uint32_t found = kNoFlow;
  for (const uint32_t index : candidates->second) {
    const Flow& candidate = flows_[index];
    if (candidate.partner == kNoFlow || candidate.channel == nullptr || !candidate.channel->could_answer(packet))
      continue;
    if (found != kNoFlow) return;
    found = index;
  }
  if (found == kNoFlow || (responses.stray_of != kNoFlow && responses.stray_of != found)) return;
  responses.stray_of = found;
  responses.strays++;
}

/// All responses to a QP whose requests were not seen fit the requests of another QP, which is no coincidence. Of the
/// two QPs that were answered, the one with fewer answers is the wrong one.
void Linter::judge_stray(uint32_t index) {
  const Flow& flow = flows_[index];
  if (flow.strays == 0 || flow.strays != flow.partner_searches || flow.partner != kNoFlow || flow.channel != nullptr)
    return;
  const Flow& asked = flows_[flow.stray_of];
  if (asked.partner == kNoFlow) return;
  const Flow& other = flows_[asked.partner];
  const bool fewer = flow.statistics.packets <= other.statistics.packets;
  const Flow& wrong = fewer ? flow : other;
  const Flow& right = fewer ? other : flow;
  findings_.add(Rule::kResponseQp, wrong.statistics.first_frame, fewer ? index : asked.partner,
                sentence("%llu responses to QP 0x%06x answer what was asked of QP 0x%06x; expected them at QP 0x%06x, "
                         "which asked",
                         static_cast<unsigned long long>(wrong.statistics.packets), wrong.key.dest_qp,
                         asked.key.dest_qp, right.key.dest_qp));
}

void Linter::on_cnp(uint32_t index, const Packet& packet) {
  Flow& flow = flows_[index];
  flow.statistics.cnps++;
  if (flow.partner == kNoFlow) return;  // it is not known whose marks it answers
  Flow& marked = flows_[flow.partner];
  if (marked.statistics.ecn_marked == 0) {
    findings_.add(Rule::kCnpWithoutEcn, packet.frame, index, "CNP for a flow without an ECN mark in this capture");
  } else if (marked.marks_since_cnp == 0) {
    findings_.add(Rule::kCnpPacing, packet.frame, index,
                  "CNP without a marked packet since the CNP before; expected one");
  }
  marked.marks_since_cnp = 0;
}

void Linter::on_cm(uint32_t index, const Packet& packet) {
  const auto message = decode_cm(packet.view.payload);
  if (!message) return;
  const CmTracker::Seen seen{packet.view.src_ip, packet.view.dst_ip, packet.frame, index, packet.time};
  const CmTracker::Progress progress = cm_.on_message(seen, *message, issues_);
  report_issues(index);
  switch (progress.step) {
    case CmTracker::Step::kConnected:
      return connect(*progress.connection);
    case CmTracker::Step::kConfirmed:
      return cm_judge_.confirm(*progress.connection);
    case CmTracker::Step::kEnding:
      return cm_judge_.end(*progress.connection);
    case CmTracker::Step::kNothing:
      break;
  }
}

/// Joins two flows that belong together from their first packet on.
void Linter::connect(const CmTracker::Connection& connection) {
  const CmTracker::End& a = connection.active;
  const CmTracker::End& b = connection.passive;
  const bool extended = connection.service == kCmServiceExtended;
  if (!extended && connection.service != kCmServiceRc && connection.service != kCmServiceUc) return;
  cm_judge_.check_early(connection);
  const uint32_t to_b = make_flow({a.ip, b.ip, b.qpn});
  const uint32_t to_a = make_flow({b.ip, a.ip, a.qpn});
  if (to_b == kNoFlow || to_a == kNoFlow) return;
  const Service service = extended ? Service::kXrc : connection.service == kCmServiceRc ? Service::kRc : Service::kUc;
  flows_[to_b].service = flows_[to_a].service = service;
  begin_channel(to_b);
  begin_channel(to_a);
  // Each side names the PSN with which the other side is to begin, and how often it may try again.
  flows_[to_b].channel->set_start(b.starting_psn, b.responder_resources);
  flows_[to_a].channel->set_start(a.starting_psn, a.responder_resources);
  cm_judge_.agree(connection, to_a, to_b);
  pair(to_b, to_a);
}

/// The P_Key that most packets have is taken to be that of the flow.
void Linter::judge_pkeys(uint32_t index) {
  const Flow& flow = flows_[index];
  if (flow.pkeys.size() < 2 || flow.service == Service::kUd) return;
  const auto own = std::max_element(flow.pkeys.begin(), flow.pkeys.end(),
                                    [](const auto& a, const auto& b) { return a.packets < b.packets; });
  for (const Flow::PkeyVote& vote : flow.pkeys) {
    if (vote.pkey == own->pkey || ((vote.pkey ^ own->pkey) & 0x7fff) == 0) continue;
    findings_.add(Rule::kPkeyChanged, vote.first_frame, index,
                  sentence("P_Key 0x%04x in %llu packets; expected 0x%04x as in %llu others", vote.pkey,
                           static_cast<unsigned long long>(vote.packets), own->pkey,
                           static_cast<unsigned long long>(own->packets)));
  }
}

void Linter::finish() {
  for (uint32_t i = 0; i < flows_.size(); i++) {
    if (flows_[i].channel != nullptr) flows_[i].channel->finish();
    judge_pkeys(i);
    judge_stray(i);
  }
  cm_judge_.finish(cm_.doubts());
  findings_.sort();
}

}  // namespace uroce::lint
