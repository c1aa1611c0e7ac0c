#include "any_bytes.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "engine/address_table.h"
#include "engine/bring_up.h"
#include "packet/host_frames.h"
#include "packet/icrc.h"
#include "rig.h"
#include "sim/testbed.h"
#include "transport/address_handle.h"
#include "transport/counters.h"
#include "transport/requester.h"
#include "transport/responder.h"

namespace uroce::test {

namespace {

constexpr uint32_t kArenaBytes = 16384;
constexpr uint32_t kRegionAt = 4096;  // the region lies in the middle of the arena
constexpr uint32_t kRegionBytes = 8192;
constexpr uint8_t kGuard = 0x6D;

class AnyBytes {
 public:
  AnyBytes(QpType type, uint64_t seed);
  AnyBytesReport run(uint64_t frames);

 private:
  static RigOptions options(QpType type, uint64_t seed);
  Service service() const {
    return type_ == QpType::kRc ? Service::kRc : type_ == QpType::kUc ? Service::kUc : Service::kUd;
  }
  bool one_in(uint32_t n) { return random_.below(n) == 0; }

  // What arrives.
  Bytes draw_frame();
  Bytes noise();
  Bytes plausible();
  Bytes damaged();
  Bytes neighbour();
  Psn draw_psn();
  Bytes draw_extension(const OpcodeInfo& info);
  uint32_t draw_length();

  // What the program does meanwhile.
  void live();
  void post();
  void recover();
  void change_region();

  // What must hold.
  void check_frame(const Bytes& frame);
  void check_sent();
  void check_guards();
  uint64_t drops() const;
  uint64_t host_frames() const;
  void fail(const char* what, const Bytes& frame);

  QpType type_;
  uint64_t seed_;
  SeededRandom random_;
  Rig rig_;
  std::unique_ptr<uint8_t[]> arena_;
  uint32_t key_ = 0;
  std::unique_ptr<AddressHandle> ah_;
  Bytes last_;
  AnyBytesReport report_;
};

RigOptions AnyBytes::options(QpType type, uint64_t seed) {
  RigOptions o;
  o.type = type;
  o.ipv6 = seed % 2 != 0;
  o.mtu = 256u << (seed % 3);
  o.use_srq = seed % 5 == 0;
  o.engine.grant_credits = seed % 3 == 0;
  o.engine.ack_delay = microseconds(static_cast<int64_t>(seed % 2) * 20);
  o.cq_capacity = 4096;
  o.seed = seed;
  return o;
}

AnyBytes::AnyBytes(QpType type, uint64_t seed)
    : type_(type), seed_(seed), random_(seed), rig_(options(type, seed)), arena_(new uint8_t[kArenaBytes]) {
  std::memset(arena_.get(), kGuard, kArenaBytes);
  change_region();
  if (type == QpType::kUd) {
    AddressVector av;
    av.sgid_index = seed % 2 != 0 ? 2 : 1;
    av.dgid = rig_.path_from_peer().src_ip;
    ah_ = rig_.engine().create_ah(rig_.pd(), av, rig_.now());
    rig_.resolve_peer();
  }
}

void AnyBytes::change_region() {
  if (key_ != 0) rig_.engine().memory().deregister(key_);
  key_ = rig_.engine().memory().register_region(rig_.pd(), arena_.get() + kRegionAt, kRegionBytes,
                                                reinterpret_cast<uint64_t>(arena_.get()) + kRegionAt, sim::kAllAccess);
}

Psn AnyBytes::draw_psn() {
  const bool receives = one_in(2);
  Psn near;
  if (rig_.qp().requester() != nullptr)
    near = receives ? rig_.qp().responder()->epsn() : rig_.qp().requester()->window().una();
  switch (random_.below(4)) {
    case 0:
      return near;
    case 1:
      return near + random_.below(6);
    case 2:
      return near - random_.below(6);
    default:
      return one_in(4) ? Psn(random_.next_u32()) : near;
  }
}

uint32_t AnyBytes::draw_length() {
  const uint32_t mtu = rig_.qp().attributes().path_mtu_bytes;
  switch (random_.below(6)) {
    case 0:
      return 0;
    case 1:
      return random_.below(20);
    case 2:
      return mtu + random_.below(9) - 4;
    case 3:
      return random_.below(2 * mtu);
    default:
      return mtu;
  }
}

Bytes AnyBytes::draw_extension(const OpcodeInfo& info) {
  Bytes bytes(info.header_bytes);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(random_.next_u32());
  const uint64_t base = reinterpret_cast<uint64_t>(arena_.get()) + kRegionAt;
  const uint64_t offset = one_in(2) ? random_.below(kRegionBytes) : kRegionBytes - random_.below(600);
  const uint64_t va = one_in(8) ? random_.next_u64() : one_in(8) ? base - random_.below(100) : base + offset;
  const uint32_t key = one_in(10) ? random_.next_u32() : key_;
  if (info.has(kHasReth) && bytes.size() >= Reth::kBytes)
    Reth{va, key, draw_length() * (1 + random_.below(3))}.encode(bytes.data());
  if (info.has(kHasAtomicEth)) AtomicEth{one_in(4) ? va : va & ~uint64_t{7}, key, 1, 0}.encode(bytes.data());
  if (info.has(kHasDeth) && !one_in(8)) Deth{Rig::kQkey, random_.below(1 << 24)}.encode(bytes.data());
  if (info.has(kHasAeth) && !one_in(8)) {
    const uint8_t syndrome = one_in(3) ? static_cast<uint8_t>(random_.next_u32()) : uint8_t{0x1f};
    Aeth{syndrome, random_.below(1 << 24)}.encode(bytes.data());
  }
  return bytes;
}

/// A packet with a good iCRC; its fields may be wrong.
Bytes AnyBytes::plausible() {
  Bth bth;
  bth.opcode = one_in(10) ? static_cast<uint8_t>(random_.next_u32())
                          : make_opcode(service(), static_cast<uint8_t>(random_.below(0x18)));
  const OpcodeInfo& info = opcode_info(bth.opcode);
  bth.psn = draw_psn();
  bth.dest_qp = one_in(30) ? random_.below(1 << 24) : rig_.qp().qpn();
  bth.ack_req = one_in(2);
  bth.solicited = one_in(2);
  if (one_in(40)) bth.pkey = static_cast<uint16_t>(random_.next_u32());
  if (one_in(100)) bth.tver = 1;
  const uint32_t length = info.has(kHasPayload) || one_in(10) ? std::min(draw_length(), 4096u) : 0;
  Route path = rig_.path_from_peer();
  if (one_in(50)) path.src_ip.bytes[15] ^= 1;
  if (one_in(50)) path.vlan_id = 5;
  if (one_in(20)) path.traffic_class = 3;
  return frame_of(path, bth, draw_extension(info), payload_of(bth.psn.value(), length));
}

Bytes AnyBytes::damaged() {
  Bytes frame = one_in(3) && !last_.empty() ? last_ : plausible();
  switch (random_.below(4)) {
    case 0:
      frame.resize(random_.below(static_cast<uint32_t>(frame.size()) + 1));
      break;
    case 1:
      frame.resize(frame.size() + 1 + random_.below(64), 0xAA);
      break;
    default:
      break;
  }
  const uint32_t flips = random_.below(4);
  for (uint32_t i = 0; i < flips && !frame.empty(); i++) {
    // Mostly in the headers: that is where the arithmetic is.
    const auto most = static_cast<uint32_t>(frame.size());
    const uint32_t byte = random_.below(one_in(4) ? most : std::min(most, 96u));
    frame[byte] = static_cast<uint8_t>(frame[byte] ^ (1u << random_.below(8)));
  }
  return frame;
}

Bytes AnyBytes::noise() {
  Bytes frame(random_.below(one_in(10) ? 5000 : 160));
  for (uint8_t& b : frame) b = static_cast<uint8_t>(random_.next_u32());
  if (frame.size() > 42 && one_in(2)) {
    // Valid Ethernet and IP headers in front, so that more of the frame is parsed.
    const Bytes headers = plausible();
    std::copy_n(headers.begin(), 42, frame.begin());
  }
  return frame;
}

/// ARP, neighbour discovery, ping: whole or damaged.
Bytes AnyBytes::neighbour() {
  uint8_t bytes[256];
  const MacAddress mac{{2, 0, 0, 0, 0, static_cast<uint8_t>(2 + random_.below(3))}};
  const LinkAddress link{rig_.engine().addresses().mac(), mac, 0};
  IpAddress ip = rig_.engine().addresses().gids()[1 + random_.below(2)].ip;
  IpAddress other = ip;
  other.bytes[15] = static_cast<uint8_t>(2 + random_.below(250));
  uint32_t length;
  if (ip.is_v4()) {
    length = encode_arp(bytes, link,
                        {static_cast<uint16_t>(1 + random_.below(2)), mac, other, rig_.engine().addresses().mac(), ip});
  } else {
    NeighbourMessage message;
    message.advertisement = one_in(2);
    message.solicited = message.advertisement && one_in(2);
    message.src_ip = other;
    message.dst_ip = ip;
    message.target = message.advertisement ? other : ip;
    message.link_layer = mac;
    length = encode_neighbour_message(bytes, link, message);
  }
  Bytes frame(bytes, bytes + length);
  if (one_in(2)) frame[random_.below(length)] ^= static_cast<uint8_t>(1u << random_.below(8));
  if (one_in(4)) frame.resize(random_.below(length + 1));
  return frame;
}

Bytes AnyBytes::draw_frame() {
  const uint32_t kind = random_.below(100);
  if (kind < 60) return plausible();
  if (kind < 85) return damaged();
  if (kind < 95) return noise();
  return neighbour();
}

void AnyBytes::post() {
  SendWr wr;
  const Sge sge = rig_.local_sge(random_.below(1000), std::min(draw_length() * (1 + random_.below(4)), 8192u));
  const Sge eight = rig_.local_sge(0, 8);
  wr.opcode = static_cast<WrOpcode>(random_.below(10));
  wr.sges = wr.opcode == WrOpcode::kCompareSwap || wr.opcode == WrOpcode::kFetchAdd ? &eight : &sge;
  wr.num_sge = 1;
  wr.flags = static_cast<uint8_t>(random_.below(8));
  wr.remote_addr = 0x1000;
  wr.rkey = wr.imm_or_rkey = random_.next_u32();
  wr.ah = ah_.get();
  if (wr.opcode == WrOpcode::kLocalInv || wr.opcode == WrOpcode::kBindMw) return;  // fail at once: no use
  rig_.engine().post_send(rig_.qp(), wr, rig_.now());
}

/// Brings a QP in error back to work, as a program would.
void AnyBytes::recover() {
  report_.recoveries++;
  rig_.modify(QpState::kReset);
  QpAttributes attributes = options(type_, seed_).attributes;
  attributes.path_mtu_bytes = options(type_, seed_).mtu;
  attributes.dest_qpn = Rig::kPeerQpn;
  attributes.rq_psn = one_in(2) ? Psn(0xFFFFFF - random_.below(20)) : Psn(random_.next_u32());
  attributes.sq_psn = one_in(2) ? Psn(0xFFFFFF - random_.below(20)) : Psn(random_.next_u32());
  attributes.qkey = Rig::kQkey;
  attributes.max_dest_rd_atomic = static_cast<uint8_t>(random_.below(6));
  attributes.max_rd_atomic = static_cast<uint8_t>(random_.below(6));
  attributes.av.sgid_index = seed_ % 2 != 0 ? 2 : 1;
  attributes.av.dgid = rig_.path_from_peer().src_ip;
  const ModifyResult result =
      bring_up(rig_.engine(), rig_.qp(), attributes, one_in(10) ? QpState::kRtr : QpState::kRts, rig_.now());
  if (result != ModifyResult::kOk) report_.failure = std::string("recovery: ") + modify_result_text(result);
}

void AnyBytes::live() {
  if (one_in(8)) post();
  if (one_in(4)) rig_.receive(random_.below(16), random_.below(2000));
  if (one_in(20)) rig_.advance(microseconds(random_.below(3000)));
  if (one_in(500)) change_region();
  if (one_in(1000)) rig_.modify(one_in(2) ? QpState::kErr : QpState::kSqd);
  const QpState state = rig_.qp().state();
  const bool stuck = state == QpState::kErr || state == QpState::kReset || state == QpState::kSqe;
  if (stuck || (state != QpState::kRts && one_in(50))) recover();
  Completion ignored[64];
  while (rig_.send_cq().poll(ignored) != 0) continue;
  while (rig_.recv_cq().poll(ignored) != 0) continue;
}

uint64_t AnyBytes::drops() const {
  uint64_t sum = 0;
  for_each_counter(const_cast<Rig&>(rig_).engine().counters(), [&](const char* name, uint64_t value) {
    if (std::strncmp(name, "rx_drop", 7) == 0 || std::strcmp(name, "rx_icrc_encapsulated") == 0) sum += value;
  });
  return sum;
}

void AnyBytes::fail(const char* what, const Bytes& frame) {
  if (!report_.failure.empty()) return;
  report_.failure = what;
  report_.failure += "; the frame:";
  for (const uint8_t b : frame) {
    char text[4];
    std::snprintf(text, sizeof text, " %02x", b);
    report_.failure += text;
  }
}

/// Each frame is dropped under one counter or handled; only a good packet for a live QP may be handled without a
/// counter.
void AnyBytes::check_frame(const Bytes& frame) {
  PacketView view;
  // A copy of exactly its size, so that a sanitizer sees a read beyond its end.
  const Bytes exact(frame.begin(), frame.end());
  const ParseResult parsed = parse_frame(exact, view);
  const bool good = parsed == ParseResult::kOk && icrc_matches(view);
  const uint64_t before = drops();
  const Counters counters = rig_.engine().counters();
  rig_.arrive(exact);
  const Counters& now = rig_.engine().counters();
  const uint64_t dropped = drops() - before;
  report_.dropped += dropped;
  report_.handled += dropped == 0 ? 1 : 0;
  if (now.rx_packets != counters.rx_packets + 1) fail("not received once", frame);
  if (dropped > 1) fail("dropped under more than one name", frame);
  if (parsed == ParseResult::kNotRoce) {
    const bool host =
        now.arp_rx + now.nd_rx + now.echo_replies != counters.arp_rx + counters.nd_rx + counters.echo_replies;
    if (dropped == 0 && !host) fail("neither dropped nor host traffic", frame);
  } else if (!good && dropped != 1) {
    fail("a damaged packet was not dropped", frame);
  }
}

/// Whatever comes in, all that goes out is valid.
void AnyBytes::check_sent() {
  for (const Bytes& frame : rig_.sent_frames()) {
    PacketView view;
    report_.sent++;
    if (parse_frame(frame, view) != ParseResult::kOk || !icrc_matches(view)) fail("sent a bad packet", frame);
    const uint32_t most = rig_.qp().attributes().path_mtu_bytes;
    if (view.payload_bytes > most) fail("sent more than the MTU", frame);
  }
}

void AnyBytes::check_guards() {
  const uint8_t* start = arena_.get();
  const auto guard = [](uint8_t b) { return b == kGuard; };
  if (!std::all_of(start, start + kRegionAt, guard) ||
      !std::all_of(start + kRegionAt + kRegionBytes, start + kArenaBytes, guard)) {
    fail("memory beside the region was written", {});
  }
}

AnyBytesReport AnyBytes::run(uint64_t frames) {
  for (uint64_t i = 0; i < frames && report_.failure.empty(); i++) {
    const Bytes frame = draw_frame();
    check_frame(frame);
    check_sent();
    if (one_in(4)) last_ = frame;
    live();
    report_.frames++;
    if (i % 4096 == 0) check_guards();
  }
  check_guards();
  if (ah_) rig_.engine().destroy_ah(ah_.get());
  if (!report_.failure.empty()) {
    char text[96];
    std::snprintf(text, sizeof text, "\nUROCE_SEED=%" PRIu64 ", frame %" PRIu64, seed_, report_.frames);
    report_.failure += text;
  }
  return report_;
}

}  // namespace

AnyBytesReport feed_any_bytes(QpType type, uint64_t seed, uint64_t frames) { return AnyBytes(type, seed).run(frames); }

uint64_t seed_or(uint64_t otherwise) {
  const char* text = std::getenv("UROCE_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : otherwise;
}

}  // namespace uroce::test
