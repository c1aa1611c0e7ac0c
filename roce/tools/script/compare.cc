// Compares a sent frame with a statement `> ...`, and describes frames as text.
#include <algorithm>
#include <cstring>

#include "base/big_endian.h"
#include "base/check.h"
#include "packet/icrc.h"
#include "packet/sack.h"
#include "script/lexer.h"
#include "script/mads.h"
#include "script/packets.h"
#include "script/text.h"
#include "transport/qp.h"

namespace uroce::script {

namespace {

std::string hex(uint64_t value) { return format("0x%llx", static_cast<unsigned long long>(value)); }
std::string decimal(int64_t value) { return format("%lld", static_cast<long long>(value)); }

std::string nak_code_name(uint8_t code) {
  static constexpr const char* kNames[] = {"sequence", "invalid", "access", "operational", "invalid_rd"};
  return code < 5 ? kNames[code] : decimal(code);
}

std::string kind_name(uint8_t syndrome) {
  static constexpr const char* kKinds[] = {"ACK", "RNR_NAK", "ACKNOWLEDGE", "NAK"};
  return kKinds[static_cast<uint8_t>(aeth_kind(syndrome))];
}

/// An opcode's name as scripts write it; without the service when it is `service`.
std::string opcode_text(uint8_t opcode, std::optional<Service> service) {
  const OpcodeInfo& info = opcode_info(opcode);
  if (info.operation == Operation::kReserved) return hex(opcode);
  std::string name = opcode_name(opcode);
  const size_t at = name.find("ATOMIC_ACKNOWLEDGE");
  if (at != std::string::npos) name = name.substr(0, at) + "ATOMIC_ACK";
  if (service && info.service == *service) name = name.substr(name.find('_') + 1);
  return name;
}

std::string packet_text(const PacketView& view, std::optional<Service> service) {
  if (view.info->operation == Operation::kAcknowledge && (!service || view.info->service == *service)) {
    return kind_name(view.aeth().syndrome);
  }
  return opcode_text(view.bth.opcode, service);
}

Service service_of(const ScriptQp& qp) {
  if (qp.qp == nullptr) return Service::kRc;
  return qp.qp->type() == QpType::kUc ? Service::kUc : qp.qp->type() == QpType::kUd ? Service::kUd : Service::kRc;
}

int32_t relative_psn(const ScriptQp& qp, bool sent, const PacketView& view) {
  return distance(psn_base(qp, sent, *view.info), view.bth.psn);
}

std::string bytes_text(std::span<const uint8_t> bytes) {
  std::string text = format("%zu bytes:", bytes.size());
  for (size_t i = 0; i < std::min<size_t>(bytes.size(), 12); i++) text += format(" %02x", bytes[i]);
  return text + (bytes.size() > 12 ? " ..." : "");
}

/// The ranges of a SACK, as scripts write them: PSNs counted from `base`.
std::string held_text(const PacketView& view, Psn base) {
  std::string text;
  for (uint32_t at = 0; at + SackRange::kBytes <= view.payload_bytes; at += SackRange::kBytes) {
    const SackRange range = SackRange::decode(view.payload + at);
    const int32_t first = distance(base, range.first);
    const int32_t last = distance(base, range.end) - 1;
    text += (text.empty() ? "" : ",") + decimal(first) + (first == last ? "" : ".." + decimal(last));
  }
  return text;
}

/// Collects the rows of one comparison.
class Comparison {
 public:
  Comparison(Testbench& testbench, ScriptQp& qp, const Statement& statement, int64_t round, const PacketView& view)
      : testbench_(testbench), qp_(qp), statement_(statement), round_(round), view_(view) {}

  std::vector<FieldCheck> rows() {
    name();
    bth();
    extensions();
    view_.info->operation == Operation::kSelectiveAck ? held() : payload();
    path();
    constants();
    signature();
    return std::move(rows_);
  }

 private:
  void add(const std::string& field, const std::string& expected, const std::string& actual) {
    rows_.push_back({field, expected, actual, expected == actual});
  }
  /// Fields that must be `otherwise` unless the statement says something else.
  void number(const char* field, int64_t actual, int64_t otherwise, bool in_hex = false) {
    const int64_t expected = statement_.number(field, otherwise, round_);
    const auto text = [in_hex](int64_t v) { return in_hex ? hex(static_cast<uint64_t>(v)) : decimal(v); };
    if (expected != actual || statement_.has(field)) add(field, text(expected), text(actual));
  }
  /// Fields that only matter when they are mentioned.
  void if_mentioned(const char* field, int64_t actual) {
    if (statement_.has(field)) number(field, actual, 0);
  }
  void flag(const char* field, bool actual) {
    const bool expected = statement_.has(field);
    if (expected || actual) add(field, expected ? "yes" : "no", actual ? "yes" : "no");
  }

  void name() {
    const auto named = packet_name(statement_.word);
    ensure(named.has_value(), "a packet that was read has a name");
    const PacketName& expected = *named;
    const std::string actual = packet_text(view_, service_of(qp_));
    std::string text = statement_.word;
    if (!expected.own_service) text = opcode_text(expected.opcode, service_of(qp_));
    if (statement_.word == "ACKNOWLEDGE" && view_.info->operation == Operation::kAcknowledge) text = actual;
    add("packet", text, actual);
  }

  void bth() {
    const int64_t psn = statement_.number("psn", 0, round_);
    const int32_t actual = relative_psn(qp_, true, view_);
    const bool same = Psn(static_cast<uint32_t>(psn)) == Psn(static_cast<uint32_t>(actual));
    rows_.push_back({"psn", decimal(psn), decimal(actual), same});
    flag("ack_req", view_.bth.ack_req);
    flag("solicited", view_.bth.solicited);
    flag("mig", view_.bth.mig_req);
    flag("fecn", (view_.bth.resv8a & 0x80) != 0);
    flag("becn", (view_.bth.resv8a & 0x40) != 0);
    number("resv7", view_.bth.resv7, 0);
    number("tver", view_.bth.tver, 0);
    number("pkey", view_.bth.pkey, kDefaultPkey, true);
    number("dest_qp", view_.bth.dest_qp, qp_.peer_qpn, true);
    number("pad", view_.bth.pad_count, static_cast<int64_t>(-view_.payload_bytes & 3u));
  }

  void extensions() {
    const OpcodeInfo& info = *view_.info;
    if (info.has(kHasDeth)) {
      number("qkey", view_.deth().qkey, kQkey, true);
      number("src_qp", view_.deth().src_qp, qp_.qp != nullptr ? qp_.qp->qpn() : 0, true);
    }
    if (info.has(kHasFeth)) number("feth", view_.feth().word(), kFlushToGlobal);
    if (info.has(kHasReth)) {
      const Reth reth = view_.reth();
      address("at", reth.va);
      if_mentioned("len", reth.dma_length);
      key("rkey", reth.rkey, kRemoteKey);
    }
    if (info.has(kHasAtomicEth)) {
      const AtomicEth eth = view_.atomic_eth();
      address("at", eth.va);
      key("rkey", eth.rkey, kRemoteKey);
      number(info.operation == Operation::kFetchAdd ? "add" : "swap", static_cast<int64_t>(eth.swap_add), 0);
      number("compare", static_cast<int64_t>(eth.compare), 0);
    }
    if (info.has(kHasAeth)) aeth(view_.aeth());
    if (info.has(kHasAtomicAckEth)) number("original", static_cast<int64_t>(view_.atomic_ack_eth().original), 0);
    if (info.has(kHasImm)) number("imm", __builtin_bswap32(view_.imm().imm), 0, true);
    if (info.has(kHasIeth)) key("inv", view_.ieth().rkey, 0);
  }

  void aeth(const Aeth& aeth) {
    if_mentioned("msn", aeth.msn);
    if (statement_.has("syndrome")) number("syndrome", aeth.syndrome, 0, true);
    const AethKind kind = aeth_kind(aeth.syndrome);
    const std::string value = decimal(aeth_value(aeth.syndrome));
    if (kind == AethKind::kNak) {
      const Option* code = statement_.find("code");
      add("code", code == nullptr ? "sequence" : code->value.text, nak_code_name(aeth_value(aeth.syndrome)));
    } else if (kind == AethKind::kRnrNak) {
      if (statement_.has("timer")) add("timer", decimal(statement_.number("timer", 0, round_)), value);
    } else if (statement_.has("credits")) {
      add("credits", decimal(statement_.number("credits", 0, round_)), value);
    }
  }

  void address(const char* field, uint64_t actual) {
    const Option* option = statement_.find(field);
    if (option != nullptr) add(field, hex(address_of(testbench_, option->value, round_)), hex(actual));
  }
  void key(const char* field, uint32_t actual, uint32_t otherwise) {
    const Option* option = statement_.find(field);
    const uint32_t expected = option == nullptr ? otherwise : key_of(testbench_, option->value, round_);
    if (option != nullptr || expected != actual) add(field, hex(expected), hex(actual));
  }

  void held() {
    const Option* held = statement_.find("held");
    add("held", held == nullptr ? "" : held->value.text, held_text(view_, psn_base(qp_, true, *view_.info)));
  }

  /// Every RC packet of an engine that may use selective repeat must be signed, and no other packet.
  void signature() {
    if (qp_.qp == nullptr) return;
    const bool expected =
        testbench_.config().loss_recovery != LossRecovery::kGoBackN && view_.info->service == Service::kRc;
    const bool actual = expected ? view_.signed_with(Signature(qp_.qp->qpn(), qp_.peer_qpn))
                                 : !view_.ipv6 && view_.flow_id != 0;  // all others have DF and identification 0
    if (expected || actual) add("signed", expected ? "yes" : "no", actual ? "yes" : "no");
  }

  void payload() {
    number("payload", view_.payload_bytes, 0);
    const std::span<const uint8_t> actual(view_.payload, view_.payload_bytes);
    Bytes expected;
    if (const Option* data = statement_.find("data")) {
      const Region& region = testbench_.region(data->value.id);
      const auto offset = static_cast<uint64_t>(data->value.number.at(round_));
      if (data->value.object != Object::kMr || offset > region.length || actual.size() > region.length - offset) {
        throw ScriptError(data->where, "that is not inside the region");
      }
      expected.assign(region.memory + offset, region.memory + offset + actual.size());
    } else if (statement_.has("pattern")) {
      expected =
          pattern_bytes(statement_.number("pattern", 0, round_), statement_.number("offset", 0, round_), actual.size());
    } else {
      return;
    }
    FieldCheck row{"data", bytes_text(expected), bytes_text(actual), std::ranges::equal(expected, actual)};
    if (!row.same && row.expected == row.actual) row.actual += " (differs later)";
    rows_.push_back(std::move(row));
  }

  void path() {
    const AddressVector& av = qp_.attributes.av;
    number("ttl", view_.hop_limit, av.hop_limit);
    number("dscp", view_.traffic_class >> 2, av.traffic_class >> 2);
    number("ecn", view_.traffic_class & 3, av.traffic_class & 3);
    number("vlan", view_.vlan_id, qp_.from_peer.vlan_id);
    if_mentioned("src_port", view_.udp_src_port);
    ip("src_ip", view_.src_ip, qp_.from_peer.dst_ip);
    ip("dst_ip", view_.dst_ip, qp_.from_peer.src_ip);
    if (!icrc_matches(view_)) add("icrc", "right", "wrong");
    mac("to", kPeerMac, view_.l2);
    mac("from", kOurMac, view_.l2 + 6);
  }

  void mac(const char* field, const MacAddress& expected, const uint8_t* bytes) {
    MacAddress actual;
    std::memcpy(actual.bytes.data(), bytes, actual.bytes.size());
    if (actual != expected) add(field, to_string(expected), to_string(actual));
  }

  /// What has one value only in all that the engine sends: DF and no fragment, no UDP checksum, reserved bits, padding.
  void constants() {
    const OpcodeInfo& info = *view_.info;
    if (!view_.ipv6) number("ip_flags", load_be16(view_.l3 + 6), 0x4000, true);
    number("udp_checksum", load_be16(view_.bth_bytes - 2), 0, true);
    number("resv6", view_.bth.resv8a & 0x3f, 0);
    if (info.has(kHasDeth)) number("deth_reserved", view_.ext[4], 0);
    if (info.has(kHasFeth)) number("feth_reserved", load_be32(view_.ext) ^ view_.feth().word(), 0, true);
    for (uint32_t i = 0; i < view_.bth.pad_count; i++) number("padding", view_.payload[view_.payload_bytes + i], 0);
  }

  void ip(const char* field, const IpAddress& actual, const IpAddress& otherwise) {
    const Option* option = statement_.find(field);
    const IpAddress& expected = option == nullptr ? otherwise : option->value.ip;
    if (expected != actual) add(field, to_string(expected), to_string(actual));
  }

  Testbench& testbench_;
  ScriptQp& qp_;
  const Statement& statement_;
  const int64_t round_;
  const PacketView& view_;
  std::vector<FieldCheck> rows_;
};

/// An address and its key as text: as a place in a region of the script when both fit.
std::string place_text(Testbench& testbench, uint64_t va, uint32_t rkey) {
  for (const auto& [id, region] : testbench.regions()) {
    if (rkey != region.key || va < region.iova || va - region.iova > region.length) continue;
    return format(" at mr%u+%llu", id, static_cast<unsigned long long>(va - region.iova));
  }
  return " at " + hex(va) + " rkey " + hex(rkey);
}

std::string describe_extensions(Testbench& testbench, const PacketView& view) {
  const OpcodeInfo& info = *view.info;
  std::string text;
  if (info.has(kHasDeth)) text += " qkey " + hex(view.deth().qkey) + " src_qp " + hex(view.deth().src_qp);
  if (info.has(kHasFeth)) text += " feth " + hex(view.feth().word());
  if (info.has(kHasReth)) {
    const Reth reth = view.reth();
    text += place_text(testbench, reth.va, reth.rkey) + " len " + decimal(reth.dma_length);
  }
  if (info.has(kHasAtomicEth)) {
    const AtomicEth eth = view.atomic_eth();
    text += place_text(testbench, eth.va, eth.rkey);
    text += info.operation == Operation::kFetchAdd ? " add " + decimal(static_cast<int64_t>(eth.swap_add))
                                                   : " compare " + decimal(static_cast<int64_t>(eth.compare)) +
                                                         " swap " + decimal(static_cast<int64_t>(eth.swap_add));
  }
  if (info.has(kHasAeth)) {
    const Aeth aeth = view.aeth();
    const uint8_t value = aeth_value(aeth.syndrome);
    text += " msn " + decimal(aeth.msn);
    if (aeth_kind(aeth.syndrome) == AethKind::kNak) text += " code " + nak_code_name(value);
    if (aeth_kind(aeth.syndrome) == AethKind::kRnrNak) text += " timer " + decimal(value);
    if (aeth_kind(aeth.syndrome) == AethKind::kReserved) text += " syndrome " + hex(aeth.syndrome);
    if (aeth_kind(aeth.syndrome) == AethKind::kAck && value != kCreditsInvalid) text += " credits " + decimal(value);
  }
  if (info.has(kHasAtomicAckEth)) text += " original " + decimal(static_cast<int64_t>(view.atomic_ack_eth().original));
  if (info.has(kHasImm)) text += " imm " + hex(__builtin_bswap32(view.imm().imm));
  if (info.has(kHasIeth)) text += " inv " + hex(view.ieth().rkey);
  return text;
}

}  // namespace

std::vector<FieldCheck> compare(Testbench& testbench, ScriptQp& qp, const Statement& statement, int64_t round,
                                std::span<const uint8_t> frame) {
  PacketView view;
  const ParseResult result = parse_frame(frame, view);
  if (result != ParseResult::kOk) {
    return {{"packet", statement.word, std::string("no RoCE packet: ") + parse_result_name(result), false}};
  }
  return Comparison(testbench, qp, statement, round, view).rows();
}

std::string describe(Testbench& testbench, std::span<const uint8_t> frame, bool sent) {
  PacketView view;
  const ParseResult result = parse_frame(frame, view);
  if (result != ParseResult::kOk) return std::string("(") + parse_result_name(result) + ")";
  if (is_mad(view)) return describe_mad(view);
  const ScriptQp* qp = nullptr;
  for (const auto& [id, known] : testbench.qps()) {
    const bool meant =
        sent ? known->peer_qpn == view.bth.dest_qp : known->qp != nullptr && known->qp->qpn() == view.bth.dest_qp;
    if (meant && qp == nullptr) qp = known.get();
  }
  std::string text = packet_text(view, qp != nullptr ? std::optional(service_of(*qp)) : std::nullopt);
  if (qp != nullptr && qp->id != 1) text += format(" qp %u", qp->id);
  if (qp == nullptr && view.info->operation != Operation::kCnp) text += " dest_qp " + hex(view.bth.dest_qp);
  text += " psn " + (qp != nullptr ? decimal(relative_psn(*qp, sent, view)) : hex(view.bth.psn.value()));
  if (view.bth.ack_req) text += " ack_req";
  if (view.bth.solicited) text += " solicited";
  if (view.bth.mig_req) text += " mig";
  text += describe_extensions(testbench, view);
  if (view.info->operation == Operation::kSelectiveAck && qp != nullptr) {
    text += " held " + held_text(view, psn_base(*qp, sent, *view.info));
  } else if (view.payload_bytes != 0) {
    text += " payload " + decimal(view.payload_bytes);
  }
  if (!icrc_matches(view)) text += " bad_icrc";
  return text;
}

}  // namespace uroce::script
