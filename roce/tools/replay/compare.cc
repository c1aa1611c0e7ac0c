#include "replay/compare.h"

#include <algorithm>
#include <cstring>

#include "packet/icrc.h"
#include "replay/text.h"

namespace uroce::replay {

namespace {

using Ull = unsigned long long;

class Comparison {
 public:
  Comparison(const CompareContext& context, const Recorded& recorded, const PacketView& ours, ToleranceUse& used)
      : context_(context), recorded_(recorded), theirs_(recorded.view), ours_(ours), used_(used) {}
  std::vector<FieldPair> run();

 private:
  void row(const char* field, const std::string& recorded, const std::string& ours, const char* rule) {
    rows_.push_back({field, recorded, ours, recorded == ours, rule});
  }
  void number(const char* field, uint64_t recorded, uint64_t ours, const char* rule) {
    row(field, format("0x%llx", static_cast<Ull>(recorded)), format("0x%llx", static_cast<Ull>(ours)), rule);
  }
  void forgive(Tolerance tolerance) {
    if (rows_.back().same || !used_.grants(tolerance)) return;
    rows_.back().same = true;
    use(used_, tolerance);
  }
  void path();
  void link(const Recorded& first);
  void bth();
  bool has_first_shape() const;
  void aeth();
  void flush();
  void extensions();
  void payload();

  const CompareContext& context_;
  const Recorded& recorded_;
  const PacketView& theirs_;
  const PacketView& ours_;
  ToleranceUse& used_;
  std::vector<FieldPair> rows_;
};

std::string syndrome_text(uint8_t syndrome) {
  if ((syndrome & 0x80) != 0) return format("reserved bit set: 0x%02x", syndrome);
  static const char* const kNaks[] = {"PSN sequence error", "invalid request", "remote access error",
                                      "remote operational error", "invalid RD request"};
  const uint8_t value = aeth_value(syndrome);
  switch (aeth_kind(syndrome)) {
    case AethKind::kAck:
      return format("ACK credits %u", value);
    case AethKind::kRnrNak:
      return format("RNR NAK timer %u", value);
    case AethKind::kNak:
      return value < 5 ? std::string("NAK ") + kNaks[value] : format("NAK code %u", value);
    default:
      return format("reserved 0x%02x", syndrome);
  }
}

uint32_t flow_label(const PacketView& packet) { return load_be32(packet.l3) & 0xFFFFF; }

/// True when the UDP checksum is right or was left out (0).
bool udp_checksum_good(const PacketView& packet) {
  const uint32_t ip_bytes = packet.ipv6 ? 40 : 20;
  const uint8_t* const udp = packet.l3 + ip_bytes;
  if (load_be16(udp + 6) == 0) return true;
  const uint32_t bytes = packet.l3_bytes - ip_bytes;
  uint64_t sum = bytes + 17;
  const uint8_t* const addresses = packet.l3 + (packet.ipv6 ? 8 : 12);
  for (const uint8_t* at = addresses; at < udp; at += 2) sum += load_be16(at);
  for (uint32_t at = 0; at + 1 < bytes; at += 2) sum += load_be16(udp + at);
  if ((bytes & 1) != 0) sum += uint64_t{udp[bytes - 1]} << 8;
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return sum == 0xFFFF;
}

/// Our link-layer addresses are invented, so the recorded ones are compared with those of the first packet.
void Comparison::link(const Recorded& first) {
  if (!recorded_.link || !first.link) return;
  const char* const rule = "the QP's, from its first packet on";
  row("src_mac", to_string(recorded_.link->source), to_string(first.link->source), rule);
  row("dst_mac", to_string(recorded_.link->destination), to_string(first.link->destination), rule);
  number("vlan", recorded_.link->vlan_id, first.link->vlan_id, rule);
}

/// Our QP has the path of the first packet of the recorded QP.
void Comparison::path() {
  row("src_ip", to_string(theirs_.src_ip), to_string(ours_.src_ip), "the QP's own address");
  row("dst_ip", to_string(theirs_.dst_ip), to_string(ours_.dst_ip), "the peer's address");
  row("udp_checksum", udp_checksum_good(theirs_) ? "right or none" : "wrong",
      udp_checksum_good(ours_) ? "right or none" : "wrong", "a checksum that is given is right");
  if (context_.first == nullptr) return;
  link(*context_.first);
  const PacketView& first = context_.first->view;
  number("dscp", theirs_.traffic_class >> 2, ours_.traffic_class >> 2, "the QP's, from its first packet on");
  number("hop_limit", theirs_.hop_limit, ours_.hop_limit, "the QP's, from its first packet on");
  if (theirs_.ipv6) number("flow_label", flow_label(theirs_), flow_label(ours_), "the QP's, from its first packet on");
  number("udp_source_port", theirs_.udp_src_port, first.udp_src_port, "the QP's, from its first packet on");
  number("mig_req", theirs_.bth.mig_req, first.bth.mig_req, "the QP's, from its first packet on");
  if (rows_.back().same && first.bth.mig_req != ours_.bth.mig_req) {
    rows_.back() = {"mig_req", rows_.back().recorded, format("0x%x", ours_.bth.mig_req), false, ""};
    forgive(Tolerance::kMigReq);
  }
}

/// A READ that is asked for again is answered with the same opcodes as the first time, or as a READ of its own.
bool Comparison::has_first_shape() const {
  if (context_.original != nullptr) return theirs_.bth.opcode == context_.original->view.bth.opcode;
  return theirs_.bth.opcode == kOpReadResponseMiddle || theirs_.bth.opcode == kOpReadResponseLast;
}

void Comparison::bth() {
  const Bth& a = theirs_.bth;
  const Bth& b = ours_.bth;
  const bool request = context_.role == Role::kRequester;
  row("opcode", opcode_name(a.opcode), opcode_name(b.opcode), "the opcode says what the packet is and where it stands");
  const bool reads =
      theirs_.info->operation == Operation::kReadResponse && ours_.info->operation == theirs_.info->operation;
  if (context_.duplicate && reads && has_first_shape()) forgive(Tolerance::kReadAgainShape);
  number("psn", a.psn.value(), b.psn.value(),
         request ? "requests count up; a READ takes as many as its response" : "an answer has its request's PSN");
  number("dest_qp", a.dest_qp, b.dest_qp, "the peer's QP");
  number("pkey", a.pkey, b.pkey, "the partition's key");
  number("solicited", a.solicited, b.solicited, "only the last packet of a message carries it, when asked for");
  number("pad", a.pad_count, b.pad_count, "payload is padded to four bytes");
  number("tver", a.tver, b.tver, "the transport version is 0");
  number("ack_req", a.ack_req, b.ack_req,
         request ? "what nobody acknowledges does not ask for it" : "answers do not ask for answers");
  if (request && context_.reliable) forgive(Tolerance::kAckReq);
  number("resv8a", a.resv8a, b.resv8a, "reserved, FECN and BECN are 0");
  number("resv7", a.resv7, b.resv7, "reserved is 0");
}

void Comparison::aeth() {
  const Aeth a = theirs_.aeth();
  const Aeth b = ours_.aeth();
  row("syndrome", syndrome_text(a.syndrome), syndrome_text(b.syndrome), "the first check that fails names the NAK");
  const bool acks = aeth_kind(a.syndrome) == AethKind::kAck && aeth_kind(b.syndrome) == AethKind::kAck;
  const bool changes = context_.gives_credits && gives_credits(a) != *context_.gives_credits;
  if (acks && changes) {
    rows_.back() = {"credits", syndrome_text(a.syndrome), *context_.gives_credits ? "a count" : "none", false,
                    "who gives credits goes on giving them, and who does not gives none"};
  }
  if (acks && ((a.syndrome ^ b.syndrome) & 0x80) == 0 && !changes) forgive(Tolerance::kCredits);
  const bool codes =
      a.syndrome == make_syndrome(AethKind::kNak, static_cast<uint8_t>(NakCode::kRemoteOperationalError)) &&
      b.syndrome == make_syndrome(AethKind::kNak, static_cast<uint8_t>(NakCode::kInvalidRequest));
  if (codes && context_.refused_send) forgive(Tolerance::kLongSendNak);
  number("msn", a.msn, b.msn, "the MSN counts the messages that are completed");
}

void Comparison::flush() {
  const Feth a = theirs_.feth();
  const Feth b = ours_.feth();
  number("placement", a.placement, b.placement, "the work request's: global visibility, persistence");
  number("selectivity", a.selectivity, b.selectivity, "the work request's: a range, or all of the region");
  number("feth_reserved", load_be32(theirs_.ext) ^ a.word(), load_be32(ours_.ext) ^ b.word(), "reserved is 0");
}

void Comparison::extensions() {
  const OpcodeInfo& info = *theirs_.info;
  if (info.has(kHasDeth)) {
    const Deth a = theirs_.deth();
    const Deth b = ours_.deth();
    number("qkey", a.qkey, b.qkey, "the Q_Key that the work request names");
    number("src_qp", a.src_qp, b.src_qp == context_.own_qpn ? context_.recorded_qpn : b.src_qp, "the sender's QP");
    number("deth_reserved", theirs_.ext[4], ours_.ext[4], "reserved is 0");
  }
  if (info.has(kHasFeth)) flush();
  if (info.has(kHasReth)) {
    const Reth a = theirs_.reth();
    const Reth b = ours_.reth();
    number("va", a.va, b.va, "the remote address of the work request, further on when a READ goes on");
    number("rkey", a.rkey, b.rkey, "the work request's rkey");
    number("dma_length", a.dma_length, b.dma_length, "the length of the message, or of what is left of a READ");
  }
  if (info.has(kHasAtomicEth)) {
    const AtomicEth a = theirs_.atomic_eth();
    const AtomicEth b = ours_.atomic_eth();
    number("va", a.va, b.va, "the remote address of the work request");
    number("rkey", a.rkey, b.rkey, "the work request's rkey");
    number("swap_add", a.swap_add, b.swap_add, "the work request's operand");
    number("compare", a.compare, b.compare, "the work request's operand");
  }
  if (info.has(kHasAeth)) aeth();
  if (info.has(kHasAtomicAckEth)) {
    number("original", theirs_.atomic_ack_eth().original, ours_.atomic_ack_eth().original,
           "the value before the atomic; again the same when it is asked again");
  }
  if (info.has(kHasImm)) number("imm", theirs_.imm().imm, ours_.imm().imm, "immediate data pass unchanged");
  if (info.has(kHasIeth)) number("inv_rkey", theirs_.ieth().rkey, ours_.ieth().rkey, "the key to invalidate");
}

/// The up to three bytes between payload and iCRC, as one number.
uint32_t padding(const PacketView& packet) {
  uint32_t bytes = 0;
  for (uint32_t i = 0; i < packet.bth.pad_count; i++) bytes = bytes << 8 | packet.payload[packet.payload_bytes + i];
  return bytes;
}

void Comparison::payload() {
  number("payload_bytes", theirs_.payload_bytes, ours_.payload_bytes, "all but the last packet have one path MTU");
  const uint32_t bytes = std::min(theirs_.payload_bytes, ours_.payload_bytes);
  const auto [a, b] = std::mismatch(theirs_.payload, theirs_.payload + bytes, ours_.payload);
  if (a == theirs_.payload + bytes) {
    row("payload", "same", "same", "");
  } else {
    const auto at = static_cast<unsigned>(a - theirs_.payload);
    row("payload", format("byte %u is 0x%02x", at, *a), format("byte %u is 0x%02x", at, *b),
        "the bytes that lie in memory at that address");
  }
  number("padding", padding(theirs_), padding(ours_), "the bytes behind the payload are 0");
}

std::vector<FieldPair> Comparison::run() {
  path();
  bth();
  if (theirs_.bth.opcode == ours_.bth.opcode) {
    extensions();
  } else if (theirs_.info->has(kHasAeth) && ours_.info->has(kHasAeth)) {
    aeth();
  }
  if (theirs_.info->operation == ours_.info->operation) payload();
  row("icrc", recorded_.icrc_right ? "right" : "wrong", icrc_matches(ours_) ? "right" : "wrong",
      "the iCRC is that of the packet's own bytes");
  return std::move(rows_);
}

}  // namespace

std::vector<FieldPair> compare(const CompareContext& context, const Recorded& recorded, const PacketView& ours,
                               ToleranceUse& used) {
  return Comparison(context, recorded, ours, used).run();
}

bool gives_credits(const Aeth& aeth) { return aeth_value(aeth.syndrome) != kCreditsInvalid; }

bool all_same(const std::vector<FieldPair>& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const FieldPair& row) { return row.same; });
}

std::string summary(const PacketView& packet) {
  std::string text = format("%s psn 0x%x", opcode_name(packet.bth.opcode), packet.bth.psn.value());
  if (packet.info->has(kHasAeth)) {
    text += " " + syndrome_text(packet.aeth().syndrome) + format(" msn %u", packet.aeth().msn);
  }
  if (packet.info->has(kHasReth)) {
    const Reth reth = packet.reth();
    text += format(" va 0x%llx rkey 0x%x length %u", static_cast<Ull>(reth.va), reth.rkey, reth.dma_length);
  }
  if (packet.payload_bytes != 0) text += format(" %u bytes", packet.payload_bytes);
  return text;
}

}  // namespace uroce::replay
