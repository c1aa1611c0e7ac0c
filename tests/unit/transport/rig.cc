#include "rig.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "packet/host_frames.h"
#include "packet/packet.h"
#include "sim/testbed.h"

namespace uroce::test {

namespace {

std::string format [[gnu::format(printf, 1, 2)]] (const char* text, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, text);
  std::vsnprintf(line, sizeof line, text, arguments);
  va_end(arguments);
  return line;
}

template <typename... Headers>
Bytes extension_of(const Headers&... headers) {
  Bytes bytes;
  (append(bytes, headers), ...);
  return bytes;
}

constexpr MacAddress kPeerMac{{0x02, 0, 0, 0, 0, 2}};

}  // namespace

uint8_t payload_byte(uint32_t psn, uint32_t i) { return static_cast<uint8_t>(psn * 31 + i * 7 + 1); }

Bytes payload_of(uint32_t psn, uint32_t bytes) {
  Bytes payload(bytes);
  for (uint32_t i = 0; i < bytes; i++) payload[i] = payload_byte(psn, i);
  return payload;
}

Packet packet(uint8_t low, uint32_t psn, uint32_t bytes, Service service) {
  Packet p;
  p.bth.opcode = make_opcode(service, low);
  p.bth.psn = Psn(psn);
  p.bth.ack_req = !opcode_info(p.bth.opcode).is_response();
  p.payload = payload_of(psn, bytes);
  return p;
}

Packet send(uint8_t low, uint32_t psn, uint32_t bytes, Service service) { return packet(low, psn, bytes, service); }

Packet send_imm(uint8_t low, uint32_t psn, uint32_t bytes, uint32_t imm, Service service) {
  Packet p = packet(low, psn, bytes, service);
  p.extension = extension_of(ImmDt{imm});
  return p;
}

Packet send_inv(uint32_t psn, uint32_t bytes, uint32_t rkey) {
  Packet p = packet(kOpSendOnlyInv, psn, bytes);
  p.extension = extension_of(Ieth{rkey});
  return p;
}

Packet write(uint8_t low, uint32_t psn, uint64_t va, uint32_t rkey, uint32_t dma_length, uint32_t bytes,
             Service service) {
  Packet p = packet(low, psn, bytes, service);
  p.extension = extension_of(Reth{va, rkey, dma_length});
  if (low == kOpWriteOnlyImm) append(p.extension, ImmDt{0x44332211});
  return p;
}

Packet read(uint32_t psn, uint64_t va, uint32_t rkey, uint32_t dma_length) {
  Packet p = packet(kOpReadRequest, psn);
  p.extension = extension_of(Reth{va, rkey, dma_length});
  return p;
}

Packet compare_swap(uint32_t psn, uint64_t va, uint32_t rkey, uint64_t compare, uint64_t swap) {
  Packet p = packet(kOpCompareSwap, psn);
  p.extension = extension_of(AtomicEth{va, rkey, swap, compare});
  return p;
}

Packet fetch_add(uint32_t psn, uint64_t va, uint32_t rkey, uint64_t add) {
  Packet p = packet(kOpFetchAdd, psn);
  p.extension = extension_of(AtomicEth{va, rkey, add, 0});
  return p;
}

Packet datagram(uint32_t psn, uint32_t bytes, uint32_t qkey, uint32_t src_qp) {
  Packet p = packet(kOpSendOnly, psn, bytes, Service::kUd);
  p.extension = extension_of(Deth{qkey, src_qp});
  return p;
}

Packet response(uint32_t psn, AethKind kind, uint8_t value, uint32_t msn) {
  Packet p = packet(kOpAcknowledge, psn);
  p.extension = extension_of(Aeth{make_syndrome(kind, value), msn});
  return p;
}

Packet ack(uint32_t psn, uint32_t msn, uint8_t credits) { return response(psn, AethKind::kAck, credits, msn); }

Packet sack(uint32_t psn, uint32_t msn, const std::vector<std::pair<uint32_t, uint32_t>>& ranges) {
  Packet p = response(psn, AethKind::kAck, kCreditsInvalid, msn);
  p.bth.opcode = kOpcodeSack;
  p.payload.resize(ranges.size() * SackRange::kBytes);
  for (size_t i = 0; i < ranges.size(); i++) {
    SackRange{Psn(ranges[i].first), Psn(ranges[i].second) + 1}.encode(p.payload.data() + i * SackRange::kBytes);
  }
  return p;
}

Packet nak(uint32_t psn, NakCode code, uint32_t msn) {
  return response(psn, AethKind::kNak, static_cast<uint8_t>(code), msn);
}

Packet rnr_nak(uint32_t psn, uint8_t timer, uint32_t msn) { return response(psn, AethKind::kRnrNak, timer, msn); }

Packet read_response(uint8_t low, uint32_t psn, uint32_t bytes, uint32_t msn) {
  Packet p = packet(low, psn, bytes);
  if (low != kOpReadResponseMiddle) p.extension = extension_of(Aeth{make_syndrome(AethKind::kAck, 31), msn});
  return p;
}

Packet atomic_ack(uint32_t psn, uint64_t original, uint32_t msn) {
  Packet p = packet(kOpAtomicAcknowledge, psn);
  p.extension = extension_of(Aeth{make_syndrome(AethKind::kAck, 31), msn}, AtomicAckEth{original});
  return p;
}

RigOptions::RigOptions() {
  attributes.access = kRemoteWrite | kRemoteRead | kRemoteAtomic;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 4;
  attributes.timeout = 8;  // 1.048576 ms
  attributes.retry_cnt = 3;
  attributes.rnr_retry = 2;
  attributes.min_rnr_timer = 12;  // 0.64 ms
  engine = sim::simple_config(1);
  engine.ack_delay = Duration{0};
  engine.grant_credits = false;
}

Rig::Rig(const RigOptions& options)
    : options_(options),
      random_(options.seed),
      port_(options.engine.max_frame_bytes, waker_),
      scribbled_(std::getenv("UROCE_SCRIBBLE") != nullptr ? std::make_unique<ScribbledPort>(port_) : nullptr),
      engine_(std::make_unique<Engine>(options.engine, scribbled_ ? static_cast<Port&>(*scribbled_) : port_, random_,
                                       observer_)),
      remote_(new uint8_t[kMemoryBytes]),
      local_(new uint8_t[kMemoryBytes]) {
  port_.connect(collector_);
  from_peer_.src_mac = kPeerMac;
  from_peer_.dst_mac = options.engine.mac;
  from_peer_.src_ip = sim::simple_config(2).addresses[options.ipv6 ? 1 : 0].ip;
  from_peer_.dst_ip = options.engine.addresses[options.ipv6 ? 1 : 0].ip;
  from_peer_.vlan_id = options.engine.addresses[options.ipv6 ? 1 : 0].vlan_id;
  for (uint32_t i = 0; i < kMemoryBytes; i++) remote_[i] = static_cast<uint8_t>(i * 3 + 5);
  for (uint32_t i = 0; i < kMemoryBytes; i++) local_[i] = static_cast<uint8_t>(i * 5 + 9);
  pd_ = engine_->objects().allocate_pd();
  rkey_ = engine_->memory().register_region(pd_, remote(), kMemoryBytes, remote_va(), sim::kAllAccess);
  lkey_ = engine_->memory().register_region(pd_, local(), kMemoryBytes, local_sge(0, 0).addr, kLocalWrite);
  send_cq_ = engine_->objects().create_cq(options.cq_capacity, nullptr);
  recv_cq_ = engine_->objects().create_cq(options.cq_capacity, nullptr);
  const bool target = options.type == QpType::kXrcRecv;
  if (options.use_srq || options.tags != 0 || target) srq_ = engine_->objects().create_srq(pd_, 16, 4, nullptr);
  if (options.tags != 0) engine_->objects().attach_tags(*srq_, *recv_cq_, options.tags, options.tags / 2);
  if (target) {
    xrcd_ = engine_->objects().xrc_domains().open();
    engine_->objects().attach_xrc(*srq_, xrcd_, *recv_cq_);
  }
  qp_ = engine_->create_qp(qp_init(), nullptr);
  bring_up();
  turn();
  if (options.resolved) resolve_peer();
  sent();
  counted();
}

QpInit Rig::qp_init() const {
  QpInit init;
  init.type = options_.type;
  init.pd = pd_;
  init.send_cq = send_cq_;
  init.recv_cq = recv_cq_;
  init.srq = srq_;
  init.cap = options_.cap;
  init.sq_sig_all = options_.sq_sig_all;
  if (options_.type == QpType::kXrcSend) init.recv_cq = nullptr;
  if (options_.type == QpType::kXrcRecv) {
    init.pd = 0;
    init.send_cq = init.recv_cq = nullptr;
    init.srq = nullptr;
    init.xrcd = xrcd_;
    init.cap = {};
  }
  return init;
}

void Rig::bring_up() {
  QpAttributes attributes = options_.attributes;
  attributes.path_mtu_bytes = options_.mtu;
  attributes.dest_qpn = kPeerQpn;
  attributes.rq_psn = Psn(kTheirPsn);
  attributes.sq_psn = Psn(kOurPsn);
  if (options_.attributes.rq_psn.value() != 0) attributes.rq_psn = options_.attributes.rq_psn;
  if (options_.attributes.sq_psn.value() != 0) attributes.sq_psn = options_.attributes.sq_psn;
  attributes.qkey = kQkey;
  attributes.av.sgid_index = options_.ipv6 ? 2 : 1;
  attributes.av.dgid = from_peer_.src_ip;
  constexpr QpState kSteps[] = {QpState::kInit, QpState::kRtr, QpState::kRts};
  for (const QpState step : kSteps) {
    if (static_cast<int>(step) > static_cast<int>(options_.state)) return;
    attributes.state = step;
    const ModifyResult result = modify(attributes, required_attributes(options_.type, qp().state(), step));
    if (result != ModifyResult::kOk) std::fprintf(stderr, "rig: %s\n", modify_result_text(result));
  }
}

void Rig::resolve_peer() {
  uint8_t frame_bytes[256];
  const uint32_t bytes = encode_neighbour_answer(frame_bytes, {options_.engine.mac, kPeerMac, from_peer_.vlan_id},
                                                 from_peer_.src_ip, from_peer_.dst_ip);
  arrive(Bytes(frame_bytes, frame_bytes + bytes));
}

Bytes Rig::frame(const Packet& packet) const {
  Bth bth = packet.bth;
  if (bth.dest_qp == 0) bth.dest_qp = qp_->qpn();
  return frame_of(from_peer_, bth, packet.extension, packet.payload);
}

void Rig::arrive(const Bytes& frame) {
  port_.deliver(sim::Frame(frame));
  turn();
}

void Rig::arrive(const std::vector<Packet>& packets) {
  for (const Packet& p : packets) port_.deliver(sim::Frame(frame(p)));
  turn();
}

void Rig::turn() {
  engine_->turn(now_);
  while (engine_->wants_transmit() || port_.has_received()) {
    if (engine_->turn(now_) == 0) break;
  }
}

void Rig::advance(Duration d) {
  now_ = now_ + d;
  turn();
}

PostResult Rig::post(SendWr wr) {
  const PostResult result = engine_->post_send(*qp_, wr, now_);
  turn();
  return result;
}

/// Receives are in the second half of local memory, each at a place of its own.
PostResult Rig::receive(uint64_t wr_id, uint32_t bytes) {
  const Sge sge = local_sge(kMemoryBytes / 2 + static_cast<uint32_t>(wr_id % 16) * 2048, bytes);
  const RecvWr wr{wr_id, &sge, 1};
  const PostResult result = srq_ != nullptr ? srq_->post(wr) : engine_->post_recv(*qp_, wr, now_);
  turn();
  return result;
}

SendWr Rig::send_wr(uint32_t bytes, uint64_t wr_id) {
  if (sges_.capacity() == 0) sges_.reserve(256);
  sges_.push_back(local_sge(0, bytes));
  SendWr wr;
  wr.wr_id = wr_id;
  wr.opcode = WrOpcode::kSend;
  wr.flags = kSendSignaled;
  wr.sges = &sges_.back();
  wr.num_sge = 1;
  return wr;
}

SendWr Rig::write_wr(uint32_t bytes, uint64_t wr_id) {
  SendWr wr = send_wr(bytes, wr_id);
  wr.opcode = WrOpcode::kRdmaWrite;
  wr.remote_addr = 0x1000;
  wr.rkey = 0xabcd;
  return wr;
}

SendWr Rig::read_wr(uint32_t bytes, uint64_t wr_id) {
  SendWr wr = write_wr(bytes, wr_id);
  wr.opcode = WrOpcode::kRdmaRead;
  return wr;
}

SendWr Rig::atomic_wr(WrOpcode opcode, uint64_t wr_id) {
  SendWr wr = write_wr(8, wr_id);
  wr.opcode = opcode;
  wr.compare_add = 5;
  wr.swap = 6;
  return wr;
}

ModifyResult Rig::modify(QpState to) {
  QpAttributes attributes;
  attributes.state = to;
  const ModifyResult result = modify(attributes, kAttrState);
  turn();
  return result;
}

ModifyResult Rig::modify(const QpAttributes& attributes, uint32_t mask) {
  return engine_->modify_qp(*qp_, attributes, mask, now_);
}

std::vector<Bytes> Rig::sent_frames() {
  std::vector<Bytes> roce;
  for (Bytes& frame : collector_.frames) {
    PacketView view;
    if (parse_frame(frame, view) != ParseResult::kNotRoce) roce.push_back(std::move(frame));
  }
  collector_.frames.clear();
  return roce;
}

std::vector<std::string> Rig::sent() {
  std::vector<std::string> lines;
  for (const Bytes& frame : sent_frames()) lines.push_back(describe(frame));
  return lines;
}

void Rig::drain(CompletionQueue& cq, std::vector<std::string>& lines) {
  Completion c;
  while (cq.poll(std::span(&c, 1)) == 1) {
    static constexpr const char* kNames[] = {"send", "write", "read", "cas",   "fadd",
                                             "bind", "inv",   "tso",  "flush", "atomic write"};
    const bool receive = c.opcode >= WcOpcode::kRecv;
    static constexpr const char* kReceives[] = {"recv",    "recv write-imm", "tm-add",   "tm-del",
                                                "tm-sync", "tm-recv",        "tm-no-tag"};
    const char* name =
        receive ? kReceives[static_cast<uint8_t>(c.opcode) - 128] : kNames[static_cast<uint8_t>(c.opcode)];
    std::string line = format("%s %llu: %s", name, static_cast<unsigned long long>(c.wr_id), wc_status_name(c.status));
    const bool ok = c.status == WcStatus::kSuccess;
    const bool carries = receive && (c.opcode < WcOpcode::kTmAdd || c.opcode > WcOpcode::kTmSync);
    if (ok && (carries || c.opcode == WcOpcode::kRdmaRead)) line += format(", %u bytes", c.byte_len);
    if ((c.flags & kWcWithImm) != 0) line += format(", imm %08x", c.imm_or_rkey);
    if ((c.flags & kWcWithInv) != 0) line += ", invalidated";
    if ((c.flags & kWcTmSyncReq) != 0) line += ", out of step";
    if ((c.flags & kWcTmMatch) != 0)
      line += format(", tag %llx of %x", static_cast<unsigned long long>(c.tag), c.src_qp);
    if ((c.flags & kWcTmDataValid) != 0) line += ", data";
    lines.push_back(line);
  }
}

std::vector<std::string> Rig::completed() {
  std::vector<std::string> lines;
  drain(*send_cq_, lines);
  drain(*recv_cq_, lines);
  return lines;
}

std::vector<std::string> Rig::events() {
  std::vector<std::string> lines;
  for (; events_seen_ < observer_.qp_events.size(); events_seen_++) {
    switch (observer_.qp_events[events_seen_].event) {
      case AsyncEvent::kQpFatal:
        lines.push_back("fatal");
        break;
      case AsyncEvent::kQpReqErr:
        lines.push_back("request error");
        break;
      case AsyncEvent::kQpAccessErr:
        lines.push_back("access error");
        break;
      case AsyncEvent::kCommEst:
        lines.push_back("established");
        break;
      case AsyncEvent::kSqDrained:
        lines.push_back("drained");
        break;
      case AsyncEvent::kQpLastWqeReached:
        lines.push_back("last receive");
        break;
      default:
        lines.push_back("?");
        break;
    }
  }
  return lines;
}

std::string Rig::counted() {
  static constexpr const char* kUninteresting[] = {"tx_packets", "tx_bytes", "rx_packets", "rx_bytes",
                                                   "arp_rx",     "arp_tx",   "nd_rx",      "nd_tx"};
  std::vector<uint64_t> before;
  for_each_counter(seen_, [&](const char*, uint64_t value) { before.push_back(value); });
  std::string text;
  size_t i = 0;
  for_each_counter(engine_->counters(), [&](const char* name, uint64_t value) {
    const uint64_t difference = value - before[i++];
    const bool known = std::any_of(std::begin(kUninteresting), std::end(kUninteresting),
                                   [name](const char* other) { return std::strcmp(name, other) == 0; });
    if (difference == 0 || known) return;
    text += (text.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(difference);
  });
  seen_ = engine_->counters();
  return text;
}

namespace {

std::string describe_aeth(const PacketView& view) {
  const Aeth aeth = view.aeth();
  const uint8_t value = aeth_value(aeth.syndrome);
  switch (aeth_kind(aeth.syndrome)) {
    case AethKind::kAck:
      return value == kCreditsInvalid ? "" : format(" credits %u", value);
    case AethKind::kRnrNak:
      return format(" timer %u", value);
    default: {
      static constexpr const char* kCodes[] = {"sequence error", "invalid request", "remote access error",
                                               "remote operational error"};
      return value < 4 ? format(" %s", kCodes[value]) : format(" code %u", value);
    }
  }
}

}  // namespace

std::string describe(const Bytes& frame) {
  PacketView view;
  const ParseResult result = parse_frame(frame, view);
  if (result != ParseResult::kOk) return std::string("not sent by us: ") + parse_result_name(result);
  if (!icrc_matches(view)) return "bad iCRC";
  const OpcodeInfo& info = *view.info;
  const uint32_t psn = view.bth.psn.value();
  std::string line;
  if (info.operation == Operation::kAcknowledge) {
    static constexpr const char* kKinds[] = {"ACK", "RNR NAK", "?", "NAK"};
    const Aeth aeth = view.aeth();
    return format("%s %06x%s msn %u", kKinds[static_cast<uint8_t>(aeth_kind(aeth.syndrome))], psn,
                  describe_aeth(view).c_str(), aeth.msn);
  }
  if (info.operation == Operation::kSelectiveAck) {
    line = format("SACK %06x%s msn %u", psn, describe_aeth(view).c_str(), view.aeth().msn);
    for (uint32_t at = 0; at < view.payload_bytes; at += SackRange::kBytes) {
      const SackRange range = SackRange::decode(view.payload + at);
      line += format(" %06x..%06x", range.first.value(), (range.end - 1).value());
    }
    return line;
  }
  line = format("%s %06x", opcode_name(view.bth.opcode) + (info.service == Service::kRc ? 3 : 0), psn);
  if (info.has(kHasReth)) {
    line += format(" va %llx len %u", static_cast<unsigned long long>(view.reth().va), view.reth().dma_length);
  }
  if (info.operation == Operation::kAtomicAcknowledge) {
    line += format(" original %llu msn %u", static_cast<unsigned long long>(view.atomic_ack_eth().original),
                   view.aeth().msn);
  } else if (info.has(kHasAeth)) {
    line += describe_aeth(view) + format(" msn %u", view.aeth().msn);
  }
  if (info.has(kHasPayload)) line += format(" bytes %u", view.payload_bytes);
  if (view.bth.ack_req) line += " ack";
  if (view.bth.solicited) line += " solicited";
  return line;
}

}  // namespace uroce::test
