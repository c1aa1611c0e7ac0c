// Our side of the wire oracles: packets with their values in words, in both directions.
//
//   wire_dump encode OUT.pcap    writes packets of every opcode over every kind of path; prints the values they were
//                                made of, one JSON object a line
//   wire_dump decode IN.pcap     parses every frame; prints what was found, in the same form
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "bytes.h"
#include "packet/icrc.h"
#include "packet/packet.h"
#include "pcap.h"
#include "roce_frame.h"

namespace {

using namespace uroce;
using test::append;
using test::Bytes;

/// The fields of one packet. Both directions print this.
struct Values {
  Route path;
  Bth bth;
  std::optional<Deth> deth;
  std::optional<Reth> reth;
  std::optional<AtomicEth> atomic;
  std::optional<Aeth> aeth;
  std::optional<AtomicAckEth> atomic_ack;
  std::optional<ImmDt> imm;
  std::optional<Ieth> ieth;
  Bytes payload;
};

class JsonLine {
 public:
  void number(const char* name, uint64_t value) { raw(name, std::to_string(value)); }
  void text(const char* name, const std::string& value) { raw(name, "\"" + value + "\""); }
  void flag(const char* name, bool value) { raw(name, value ? "true" : "false"); }
  void print() const { std::printf("{%s}\n", line_.c_str()); }

 private:
  void raw(const char* name, const std::string& value) {
    line_ += (line_.empty() ? "\"" : ", \"") + std::string(name) + "\": " + value;
  }
  std::string line_;
};

void add_path(JsonLine& json, const Route& path) {
  json.number("ip_version", path.src_ip.is_v4() ? 4 : 6);
  json.text("src_mac", to_string(path.src_mac));
  json.text("dst_mac", to_string(path.dst_mac));
  json.number("vlan_id", path.vlan_id);
  json.number("pcp", path.pcp);
  json.text("src_ip", to_string(path.src_ip));
  json.text("dst_ip", to_string(path.dst_ip));
  json.number("traffic_class", path.traffic_class);
  json.number("hop_limit", path.hop_limit);
  json.number("flow_label", path.flow_label);
  json.number("udp_src_port", path.udp_src_port);
}

void add_bth(JsonLine& json, const Bth& bth) {
  json.number("opcode", bth.opcode);
  json.text("opcode_name", opcode_name(bth.opcode));
  json.flag("solicited", bth.solicited);
  json.flag("mig_req", bth.mig_req);
  json.number("pad_count", bth.pad_count);
  json.number("tver", bth.tver);
  json.number("pkey", bth.pkey);
  json.number("resv8a", bth.resv8a);
  json.number("dest_qp", bth.dest_qp);
  json.flag("ack_req", bth.ack_req);
  json.number("resv7", bth.resv7);
  json.number("psn", bth.psn.value());
}

uint32_t as_on_the_wire(const ImmDt& imm) {
  uint8_t bytes[ImmDt::kBytes];
  imm.encode(bytes);
  return load_be32(bytes);
}

void add_extensions(JsonLine& json, const Values& v) {
  if (v.deth) {
    json.number("qkey", v.deth->qkey);
    json.number("src_qp", v.deth->src_qp);
  }
  if (v.reth) {
    json.number("va", v.reth->va);
    json.number("rkey", v.reth->rkey);
    json.number("dma_length", v.reth->dma_length);
  }
  if (v.atomic) {
    json.number("va", v.atomic->va);
    json.number("rkey", v.atomic->rkey);
    json.number("swap_add", v.atomic->swap_add);
    json.number("compare", v.atomic->compare);
  }
  if (v.aeth) {
    json.number("syndrome", v.aeth->syndrome);
    json.number("msn", v.aeth->msn);
  }
  if (v.atomic_ack) json.number("original", v.atomic_ack->original);
  if (v.imm) json.number("imm", as_on_the_wire(*v.imm));
  if (v.ieth) json.number("ieth", v.ieth->rkey);
}

void print(const Values& v, const char* result, std::optional<bool> icrc_right) {
  JsonLine json;
  json.text("result", result);
  add_path(json, v.path);
  add_bth(json, v.bth);
  add_extensions(json, v);
  json.text("payload", test::to_hex(v.payload));
  if (icrc_right) json.flag("icrc_right", *icrc_right);
  json.print();
}

// Encoding.

Bytes frame_of(const Values& v) {
  Bytes extension;
  if (v.deth) append(extension, *v.deth);
  if (v.reth) append(extension, *v.reth);
  if (v.atomic) append(extension, *v.atomic);
  if (v.aeth) append(extension, *v.aeth);
  if (v.atomic_ack) append(extension, *v.atomic_ack);
  if (v.imm) append(extension, *v.imm);
  if (v.ieth) append(extension, *v.ieth);
  if (v.bth.opcode == kOpcodeCnp) extension.resize(16);
  return test::frame_of(v.path, v.bth, extension, v.payload);
}

/// A packet with this opcode and random fields.
Values random_values(RandomSource& random, uint8_t opcode, Route path, uint32_t payload_bytes) {
  const OpcodeInfo& info = opcode_info(opcode);
  const auto u8 = [&random] { return static_cast<uint8_t>(random.next_u32()); };
  const auto u24 = [&random] { return 2 + random.below(0xFFFFFC); };  // not QP 0, 1 or multicast, which are dissected
  Values v;
  path.traffic_class = u8();
  path.hop_limit = static_cast<uint8_t>(1 + random.below(255));
  path.flow_label = path.src_ip.is_v4() ? 0 : random.below(1u << 20);
  path.udp_src_port = static_cast<uint16_t>(0xC000 | random.below(0x4000));
  path.pcp = path.vlan_id != 0 ? static_cast<uint8_t>(random.below(8)) : 0;
  v.path = path;
  v.bth.opcode = opcode;
  v.bth.solicited = random.below(2) != 0;
  v.bth.mig_req = random.below(2) != 0;
  v.bth.pkey = static_cast<uint16_t>(random.next_u32());
  v.bth.resv8a = static_cast<uint8_t>(random.below(4) << 6);
  v.bth.dest_qp = u24();
  v.bth.ack_req = random.below(2) != 0;
  v.bth.psn = Psn(random.next_u32());
  if (info.has(kHasDeth)) v.deth = Deth{random.next_u32(), u24()};
  if (info.has(kHasReth)) v.reth = Reth{random.next_u64(), random.next_u32(), random.next_u32()};
  if (info.has(kHasAtomicEth)) {
    v.atomic = AtomicEth{random.next_u64(), random.next_u32(), random.next_u64(), random.next_u64()};
  }
  if (info.has(kHasAeth)) v.aeth = Aeth{u8(), u24()};
  if (info.has(kHasAtomicAckEth)) v.atomic_ack = AtomicAckEth{random.next_u64()};
  if (info.has(kHasImm)) v.imm = ImmDt{random.next_u32()};
  if (info.has(kHasIeth)) v.ieth = Ieth{random.next_u32()};
  v.payload.resize(payload_bytes);
  for (uint8_t& b : v.payload) b = u8();
  v.bth.pad_count = static_cast<uint8_t>((4 - payload_bytes % 4) % 4);
  return v;
}

class PcapWriter {
 public:
  explicit PcapWriter(const std::string& path) : file_(path, std::ios::binary) {
    for (const uint32_t word : {0xa1b2c3d4u, 0x00040002u, 0u, 0u, 65535u, 1u}) put(word);
  }
  void write(const Bytes& frame) {
    const auto bytes = static_cast<uint32_t>(frame.size());
    for (const uint32_t word : {count_ / 1000000, count_ % 1000000, bytes, bytes}) put(word);
    file_.write(static_cast<const char*>(static_cast<const void*>(frame.data())), bytes);
    count_++;
  }
  bool good() { return file_.flush().good(); }

 private:
  void put(uint32_t word) { file_.write(static_cast<const char*>(static_cast<const void*>(&word)), sizeof word); }
  std::ofstream file_;
  uint32_t count_ = 0;
};

int encode(const std::string& path) {
  PcapWriter pcap(path);
  SeededRandom random(2026);
  const Route paths[] = {test::ipv4_path(), test::ipv6_path(), test::on_vlan(test::ipv4_path(), 100),
                         test::on_vlan(test::ipv6_path(), 4094)};
  for (unsigned opcode = 0; opcode < 256; opcode++) {
    if (opcode == kOpcodeSack) continue;  // our own, which others do not know
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    // Neither Scapy nor tshark knows XRC, FLUSH or ATOMIC WRITE.
    if (info.operation == Operation::kReserved || info.service == Service::kXrc) continue;
    if (info.operation == Operation::kFlush || info.operation == Operation::kAtomicWrite) continue;
    for (const Route& spec : paths) {
      for (const uint32_t payload_bytes : {0, 1, 2, 3, 4, 61, 256, 1024, 4096}) {
        if (payload_bytes != 0 && !info.has(kHasPayload)) continue;
        const Values v = random_values(random, static_cast<uint8_t>(opcode), spec, payload_bytes);
        pcap.write(frame_of(v));
        print(v, "ok", std::nullopt);
      }
    }
  }
  return pcap.good() ? 0 : 1;
}

// Decoding.

Values values_of(const PacketView& view) {
  Values v;
  std::copy_n(view.l2, 6, v.path.dst_mac.bytes.begin());
  std::copy_n(view.l2 + 6, 6, v.path.src_mac.bytes.begin());
  v.path.vlan_id = view.vlan_id;
  v.path.pcp = load_be16(view.l2 + 12) == 0x8100 ? view.l2[14] >> 5 : 0;
  v.path.src_ip = view.src_ip;
  v.path.dst_ip = view.dst_ip;
  v.path.traffic_class = view.traffic_class;
  v.path.hop_limit = view.hop_limit;
  v.path.flow_label = view.ipv6 ? load_be32(view.l3) & 0xFFFFF : 0;
  v.path.udp_src_port = view.udp_src_port;
  v.bth = view.bth;
  if (view.info->has(kHasDeth)) v.deth = view.deth();
  if (view.info->has(kHasReth)) v.reth = view.reth();
  if (view.info->has(kHasAtomicEth)) v.atomic = view.atomic_eth();
  if (view.info->has(kHasAeth)) v.aeth = view.aeth();
  if (view.info->has(kHasAtomicAckEth)) v.atomic_ack = view.atomic_ack_eth();
  if (view.info->has(kHasImm)) v.imm = view.imm();
  if (view.info->has(kHasIeth)) v.ieth = view.ieth();
  v.payload.assign(view.payload, view.payload + view.payload_bytes);
  return v;
}

int decode(const std::string& path) {
  for (const test::CapturedFrame& frame : test::read_pcap(path)) {
    PacketView view;
    const ParseResult result = parse_frame(frame.bytes, view);
    if (result == ParseResult::kOk) {
      print(values_of(view), "ok", icrc_matches(view));
    } else {
      JsonLine json;
      json.text("result", parse_result_name(result));
      json.print();
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view what = argc == 3 ? argv[1] : "";
  if (what == "encode") return encode(argv[2]);
  if (what == "decode") return decode(argv[2]);
  std::fprintf(stderr, "usage: wire_dump encode OUT.pcap | decode IN.pcap\n");
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "wire_dump: %s\n", error.what());
  return 1;
}
