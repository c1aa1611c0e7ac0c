// Makes the bytes of a frame from a statement `< ...`.
#include <algorithm>
#include <cstring>

#include "base/big_endian.h"
#include "packet/crc32.h"
#include "packet/icrc.h"
#include "packet/sack.h"
#include "packet/signature.h"
#include "script/lexer.h"
#include "script/packets.h"
#include "script/text.h"
#include "transport/qp.h"

namespace uroce::script {

namespace {

template <typename Header>
void append(Bytes& bytes, const Header& header) {
  uint8_t encoded[Header::kBytes];
  header.encode(encoded);
  bytes.insert(bytes.end(), encoded, encoded + Header::kBytes);
}

/// The numbers of a statement in one round.
class Numbers {
 public:
  Numbers(Testbench& testbench, const Statement& statement, int64_t round)
      : testbench_(testbench), statement_(statement), round_(round) {}

  template <typename T>
  T get(std::string_view name, int64_t otherwise = 0) const {
    return static_cast<T>(statement_.number(name, otherwise, round_));
  }
  bool has(std::string_view name) const { return statement_.has(name); }
  uint64_t address(std::string_view name, uint64_t otherwise) const {
    const Option* option = statement_.find(name);
    return option == nullptr ? otherwise : address_of(testbench_, option->value, round_);
  }
  /// `rkey`, or the key of the region that `at` names.
  uint32_t rkey() const {
    const Option* option = statement_.find("rkey");
    if (option == nullptr) option = statement_.find("at");
    return option == nullptr ? 0 : key_of(testbench_, option->value, round_);
  }
  uint32_t key(std::string_view name) const {
    const Option* option = statement_.find(name);
    return option == nullptr ? 0 : key_of(testbench_, option->value, round_);
  }
  const Option* find(std::string_view name) const { return statement_.find(name); }

 private:
  Testbench& testbench_;
  const Statement& statement_;
  int64_t round_;
};

uint8_t syndrome_of(const Numbers& numbers, const PacketName& name) {
  if (numbers.has("syndrome")) return numbers.get<uint8_t>("syndrome");
  if (name.kind == PacketName::Kind::kRnrNak) return make_syndrome(AethKind::kRnrNak, numbers.get<uint8_t>("timer", 1));
  if (name.kind == PacketName::Kind::kNak) {
    const Option* code = numbers.find("code");
    return make_syndrome(AethKind::kNak, nak_code_of(code == nullptr ? "sequence" : code->value.text).value_or(0));
  }
  return make_syndrome(AethKind::kAck, numbers.get<uint8_t>("credits", kCreditsInvalid));
}

Bth bth_of(const Numbers& numbers, const ScriptQp& qp, uint8_t opcode) {
  const OpcodeInfo& info = opcode_info(opcode);
  Bth bth;
  bth.opcode = opcode;
  bth.psn = psn_base(qp, false, info) + numbers.get<uint32_t>("psn");
  bth.dest_qp = numbers.get<uint32_t>("dest_qp", qp.qp != nullptr ? qp.qp->qpn() : 0);
  bth.ack_req = numbers.has("ack_req");
  bth.solicited = numbers.has("solicited");
  bth.mig_req = numbers.has("mig");
  bth.tver = numbers.get<uint8_t>("tver");
  bth.pkey = numbers.get<uint16_t>("pkey", kDefaultPkey);
  bth.resv7 = numbers.get<uint8_t>("resv7");
  bth.resv8a = static_cast<uint8_t>((numbers.has("fecn") ? 0x80 : 0) | (numbers.has("becn") ? 0x40 : 0));
  bth.pad_count = numbers.get<uint8_t>("pad", static_cast<int64_t>(-numbers.get<uint32_t>("payload") & 3u));
  return bth;
}

void append_extensions(Bytes& body, const Numbers& numbers, const PacketName& name, const OpcodeInfo& info) {
  if (info.has(kHasXrceth)) append(body, Ieth{0});
  if (info.has(kHasDeth)) append(body, Deth{numbers.get<uint32_t>("qkey", kQkey), numbers.get<uint32_t>("src_qp", 1)});
  if (info.has(kHasFeth)) append(body, Feth::from(numbers.get<uint32_t>("feth", kFlushToGlobal)));
  if (info.has(kHasReth)) {
    append(body, Reth{numbers.address("at", 0), numbers.rkey(),
                      numbers.get<uint32_t>("len", numbers.get<int64_t>("payload"))});
  }
  if (info.has(kHasAtomicEth)) {
    const bool add = info.operation == Operation::kFetchAdd;
    append(body, AtomicEth{numbers.address("at", 0), numbers.rkey(), numbers.get<uint64_t>(add ? "add" : "swap"),
                           numbers.get<uint64_t>("compare")});
  }
  if (info.has(kHasAeth)) append(body, Aeth{syndrome_of(numbers, name), numbers.get<uint32_t>("msn")});
  if (info.has(kHasAtomicAckEth)) append(body, AtomicAckEth{numbers.get<uint64_t>("original")});
  if (info.has(kHasImm)) append(body, ImmDt{__builtin_bswap32(numbers.get<uint32_t>("imm"))});
  if (info.has(kHasIeth)) append(body, Ieth{numbers.key("inv")});
  if (info.operation == Operation::kCnp) body.insert(body.end(), 16, 0);
}

/// The payload: for a SACK the ranges that it says are held, else a pattern.
Bytes payload_of(const Numbers& numbers, const ScriptQp& qp, const OpcodeInfo& info) {
  const Option* held = numbers.find("held");
  if (held == nullptr) {
    return pattern_bytes(numbers.get<int64_t>("pattern"), numbers.get<int64_t>("offset"),
                         numbers.get<size_t>("payload"));
  }
  Bytes bytes;
  const Psn base = psn_base(qp, false, info);
  const std::vector<PsnRange> ranges = *to_ranges(held->value.text);
  for (const PsnRange& range : ranges) {
    bytes.resize(bytes.size() + SackRange::kBytes);
    SackRange{base + static_cast<uint32_t>(range.first), base + static_cast<uint32_t>(range.last + 1)}.encode(
        bytes.data() + bytes.size() - SackRange::kBytes);
  }
  return bytes;
}

/// Signs the packet as a peer that knows selective repeat does.
void sign(const ScriptQp& qp, Psn psn, uint8_t* ip, bool ipv6) {
  const Signature signature(qp.peer_qpn, qp.qp != nullptr ? qp.qp->qpn() : 0);
  if (ipv6) {
    store_be32(ip, (load_be32(ip) & 0xFFF00000u) | signature.flow_label());
  } else {
    store_be16(ip + 4, signature.identification(psn));
  }
}

void fix_ipv4_checksum(uint8_t* ip) {
  store_be16(ip + 10, 0);
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 20; i += 2) sum += load_be16(ip + i);
  while (sum > 0xFFFF) sum = (sum & 0xFFFF) + (sum >> 16);
  store_be16(ip + 10, static_cast<uint16_t>(~sum));
}

/// Makes the IP and UDP headers wrong where the statement asks for it.
void spoil_headers(const Numbers& numbers, uint8_t* ip, bool ipv6) {
  uint8_t* udp = ip + (ipv6 ? 40 : 20);
  const auto shift = [](uint8_t* field, int64_t by) {
    store_be16(field, static_cast<uint16_t>(load_be16(field) + by));
  };
  if (numbers.has("dst_port")) store_be16(udp + 2, numbers.get<uint16_t>("dst_port"));
  shift(udp + 4, numbers.get<int64_t>("udp_len"));
  shift(ip + (ipv6 ? 4 : 2), numbers.get<int64_t>("ip_len"));
  if (numbers.has("ip_version"))
    ip[0] = static_cast<uint8_t>((ip[0] & 0x0f) | (numbers.get<unsigned>("ip_version") << 4));
  if (ipv6) return;
  if (numbers.has("ip_words")) ip[0] = static_cast<uint8_t>((ip[0] & 0xf0) | numbers.get<unsigned>("ip_words"));
  if (numbers.has("fragment")) store_be16(ip + 6, numbers.get<uint16_t>("fragment"));
  fix_ipv4_checksum(ip);
  if (numbers.has("bad_checksum")) ip[10] ^= 0x55;
}

Route path_of(const Numbers& numbers, const ScriptQp& qp) {
  Route path = qp.from_peer;
  path.traffic_class = static_cast<uint8_t>((numbers.get<unsigned>("dscp") << 2) | (numbers.get<unsigned>("ecn") & 3));
  path.hop_limit = numbers.get<uint8_t>("ttl", 64);
  path.vlan_id = numbers.get<uint16_t>("vlan", path.vlan_id);
  path.udp_src_port = numbers.get<uint16_t>("src_port", path.udp_src_port);
  if (const Option* ip = numbers.find("src_ip")) path.src_ip = ip->value.ip;
  if (const Option* ip = numbers.find("dst_ip")) path.dst_ip = ip->value.ip;
  return path;
}

}  // namespace

uint64_t address_of(Testbench& testbench, const Value& value, int64_t round) {
  const uint64_t base = value.object == Object::kMr ? testbench.region(value.id).iova : 0;
  return base + static_cast<uint64_t>(value.number.at(round));
}

uint32_t key_of(Testbench& testbench, const Value& value, int64_t round) {
  if (value.object == Object::kMr) return testbench.region(value.id).key;
  if (value.object == Object::kMw) return testbench.window_key(value.id);
  return static_cast<uint32_t>(value.number.at(round));
}

Psn psn_base(const ScriptQp& qp, bool sent, const OpcodeInfo& info) {
  const bool ours = sent != info.is_response();  // requests of the engine, and the answers to them
  return ours ? qp.attributes.sq_psn : qp.attributes.rq_psn;
}

std::optional<uint8_t> nak_code_of(std::string_view name) {
  static constexpr std::string_view kNames[] = {"sequence", "invalid", "access", "operational", "invalid_rd"};
  for (size_t i = 0; i < std::size(kNames); i++) {
    if (kNames[i] == name) return static_cast<uint8_t>(i);
  }
  if (name.size() <= 2 && !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos) {
    return static_cast<uint8_t>(std::stoul(std::string(name)));
  }
  return std::nullopt;
}

Bytes build_frame(Testbench& testbench, ScriptQp& qp, const Statement& statement, int64_t round) {
  const Numbers numbers(testbench, statement, round);
  const PacketName name = *packet_name(statement.word);
  uint8_t opcode = name.opcode;
  if (name.own_service) {
    const QpType type = qp.qp != nullptr ? qp.qp->type() : QpType::kRc;
    opcode = make_opcode(type == QpType::kUc   ? Service::kUc
                         : type == QpType::kUd ? Service::kUd
                                               : Service::kRc,
                         opcode);
  }
  const OpcodeInfo& info = opcode_info(opcode);
  Bytes body;
  const Bth bth = bth_of(numbers, qp, opcode);
  append(body, bth);
  append_extensions(body, numbers, name, info);
  const Bytes data = payload_of(numbers, qp, info);
  body.insert(body.end(), data.begin(), data.end());
  body.insert(body.end(), -data.size() & 3u, 0);
  body.insert(body.end(), numbers.get<size_t>("tail"), 0);
  const auto cut = numbers.get<size_t>("cut");
  body.resize(body.size() - std::min(cut, body.size()));

  const RouteHeader path(path_of(numbers, qp));
  Bytes frame(path.bytes() + body.size() + kIcrcBytes);
  path.write(frame.data(), static_cast<uint32_t>(body.size()) + kIcrcBytes);
  std::copy(body.begin(), body.end(), frame.begin() + path.bytes());
  uint8_t* ip = frame.data() + path.l3_offset();
  if (numbers.has("signed")) sign(qp, bth.psn, ip, path.ipv6());
  spoil_headers(numbers, ip, path.ipv6());
  if (body.size() >= Bth::kBytes) {
    uint32_t state = icrc_begin(ip, path.ipv6());
    state = crc32_update(state, body.data() + Bth::kBytes, body.size() - Bth::kBytes);
    icrc_store(frame.data() + path.bytes() + body.size(), state);
  }
  if (numbers.has("bad_icrc")) frame.back() ^= 0x01;
  frame.resize(frame.size() - std::min(frame.size(), numbers.get<size_t>("truncate")));
  frame.insert(frame.end(), numbers.get<size_t>("trailer"), 0xEE);
  return frame;
}

}  // namespace uroce::script
