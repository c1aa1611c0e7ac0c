// Headers that came before are known again, and no others: each bit in them counts, but those of the BTH's tail.
#include "engine/known_headers.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/random.h"
#include "roce_frame.h"

namespace uroce::test {
namespace {

constexpr uint32_t kSlot = 5;
constexpr uint32_t kVersion = 7;

/// A frame in memory that ends where the frame ends, so that a sanitizer sees any read beyond.
struct Arrived {
  explicit Arrived(const Bytes& bytes, bool apart = false) : data(new uint8_t[bytes.size()]) {
    std::copy(bytes.begin(), bytes.end(), data.get());
    frame = {data.get(), static_cast<uint32_t>(bytes.size()), nullptr, nullptr};
    if (!apart) return;
    const size_t head = std::min<size_t>(bytes.size(), RxFrame::kHeaderBytes);
    headers.reset(new uint8_t[head]);
    std::copy_n(bytes.begin(), head, headers.get());
    std::fill_n(data.get(), std::min<size_t>(bytes.size(), 48), uint8_t{0xEE});  // as a peer may change it
    frame.headers = headers.get();
  }
  ParseResult parse(PacketView& view) const { return parse_frame({frame.data, frame.bytes}, view, frame.headers); }

  std::unique_ptr<uint8_t[]> data;
  std::unique_ptr<uint8_t[]> headers;
  RxFrame frame;
};

Bth bth(uint8_t low, uint32_t psn = 0x123456, Service service = Service::kRc) {
  return {.opcode = make_opcode(service, low), .dest_qp = 0x4711, .psn = Psn(psn)};
}

Bytes message(const Route& path, uint32_t psn = 0x123456, size_t bytes = 8) {
  return frame_of(path, bth(kOpSendOnly, psn), {}, Bytes(bytes, 0x55));
}

bool note_once(KnownHeaders& known, const Bytes& bytes) {
  const Arrived arrived(bytes);
  PacketView view;
  EXPECT_EQ(arrived.parse(view), ParseResult::kOk);
  return known.note(view, kSlot, kVersion);
}

void note(KnownHeaders& known, const Bytes& bytes) {
  EXPECT_FALSE(note_once(known, bytes));
  EXPECT_TRUE(note_once(known, bytes));
}

void expect_alike(const PacketView& a, const PacketView& b) {
  EXPECT_EQ(a.l2, b.l2);
  EXPECT_EQ(a.l3, b.l3);
  EXPECT_EQ(a.bth_bytes, b.bth_bytes);
  EXPECT_EQ(a.ext, b.ext);
  EXPECT_EQ(a.payload, b.payload);
  EXPECT_EQ(a.payload_bytes, b.payload_bytes);
  EXPECT_EQ(a.l3_bytes, b.l3_bytes);
  EXPECT_EQ(a.info, b.info);
  EXPECT_EQ(a.src_ip, b.src_ip);
  EXPECT_EQ(a.dst_ip, b.dst_ip);
  EXPECT_EQ(a.vlan_id, b.vlan_id);
  EXPECT_EQ(a.udp_src_port, b.udp_src_port);
  EXPECT_EQ(a.flow_id, b.flow_id);
  EXPECT_EQ(a.traffic_class, b.traffic_class);
  EXPECT_EQ(a.hop_limit, b.hop_limit);
  EXPECT_EQ(a.ipv6, b.ipv6);
  EXPECT_EQ(a.bth.head(), b.bth.head());
  EXPECT_EQ(a.bth.tail(), b.bth.tail());
  EXPECT_EQ(a.apart(), b.apart());
}

/// Whether the headers are known; if so, the view must be that of parse_frame.
bool found(KnownHeaders& known, const Bytes& bytes, bool apart = false) {
  const Arrived arrived(bytes, apart);
  KnownHeaders::Known* const hit = known.find(arrived.frame);
  if (hit == nullptr) return false;
  EXPECT_EQ(hit->slot, kSlot);
  EXPECT_EQ(hit->own, kVersion);
  const PacketView& view = KnownHeaders::view_of(arrived.frame, *hit);
  PacketView parsed;
  EXPECT_EQ(arrived.parse(parsed), ParseResult::kOk);
  expect_alike(view, parsed);
  EXPECT_EQ(icrc_matches(view, hit->crc), icrc_matches(parsed));
  return true;
}

TEST(KnownHeaders, AreThoseThatCameTwiceInARow) {
  for (const Route& path : {ipv4_path(), ipv6_path()}) {
    KnownHeaders known;
    EXPECT_FALSE(found(known, message(path)));
    EXPECT_FALSE(note_once(known, message(path, 1)));
    EXPECT_FALSE(found(known, message(path, 2)));
    EXPECT_FALSE(note_once(known, message(path, 3, 12))) << "another length";
    EXPECT_FALSE(note_once(known, message(path, 4)));
    EXPECT_FALSE(found(known, message(path, 5)));
    EXPECT_TRUE(note_once(known, message(path, 6)));
    EXPECT_TRUE(found(known, message(path, 7)));
    EXPECT_FALSE(found(known, message(path, 8, 12)));
  }
}

TEST(KnownHeaders, OfEveryKindAreReadAsTheParserReadsThem) {
  for (const Route& path : {ipv4_path(), ipv6_path()}) {
    for (const uint8_t low : {kOpSendOnly, kOpWriteOnly, kOpReadRequest, kOpAcknowledge, kOpFetchAdd, kOpSendOnlyImm}) {
      const OpcodeInfo& info = opcode_info(make_opcode(Service::kRc, low));
      for (const size_t bytes : {0, 1, 8, 63, 64, 1024}) {
        if (bytes != 0 && !info.has(kHasPayload)) continue;
        KnownHeaders known;
        note(known, frame_of(path, bth(low), Bytes(info.header_bytes, 0x11), Bytes(bytes, 0x22)));
        Bth other = bth(low, 0xFEDCBA);
        other.ack_req = true;
        other.resv7 = 0x55;
        const Bytes next = frame_of(path, other, Bytes(info.header_bytes, 0x33), Bytes(bytes, 0x44));
        EXPECT_TRUE(found(known, next)) << int{low} << ", " << bytes;
        EXPECT_TRUE(found(known, next, true)) << "headers apart: " << int{low} << ", " << bytes;
        Bytes trailed = next;
        trailed.resize(next.size() + 6);  // as Ethernet pads short frames
        EXPECT_TRUE(found(known, trailed));
      }
    }
  }
}

TEST(KnownHeaders, AnyOtherBitMakesAStranger) {
  for (const Route& path : {ipv4_path(), ipv6_path()}) {
    KnownHeaders known;
    const Bytes good = message(path);
    note(known, good);
    ASSERT_TRUE(found(known, good));
    const size_t tail = RouteHeader(path).bytes() + Bth::kHeadBytes;
    for (size_t at = 0; at < good.size(); at++) {
      for (int bit = 0; bit < 8; bit++) {
        Bytes changed = good;
        changed[at] ^= static_cast<uint8_t>(1 << bit);
        ASSERT_EQ(found(known, changed), at >= tail) << "bit " << bit << " of byte " << at;
      }
    }
  }
}

TEST(KnownHeaders, AFrameThatEndsEarlyIsAStranger) {
  for (const Route& path : {ipv4_path(), ipv6_path()}) {
    for (const bool apart : {false, true}) {
      KnownHeaders known;
      const Bytes good = message(path);
      note(known, good);
      for (size_t bytes = 0; bytes < good.size(); bytes++)
        ASSERT_FALSE(found(known, Bytes(good.begin(), good.begin() + static_cast<ptrdiff_t>(bytes)), apart)) << bytes;
      ASSERT_TRUE(found(known, good, apart));
    }
  }
}

TEST(KnownHeaders, ThoseThatCountAreNeverNoted) {
  KnownHeaders known;
  RouteHeader path(ipv4_path());
  path.sign(Signature(1, 2));
  for (uint32_t psn = 0; psn < 20; psn++) {
    Bytes frame = message(ipv4_path(), psn);
    path.write(frame.data(), static_cast<uint32_t>(frame.size()) - path.bytes(), Psn(psn));
    EXPECT_FALSE(note_once(known, frame)) << psn;
  }
}

TEST(KnownHeaders, AVlanIsNeverKnown) {
  KnownHeaders known;
  const Arrived arrived(message(on_vlan(ipv4_path(), 3)));
  PacketView view;
  ASSERT_EQ(arrived.parse(view), ParseResult::kOk);
  for (int i = 0; i < 3; i++) EXPECT_FALSE(known.note(view, kSlot, kVersion));
  EXPECT_EQ(known.find(arrived.frame), nullptr);
}

TEST(KnownHeaders, ManyFlowsDisplaceEachOtherAndAreNeverConfused) {
  KnownHeaders known;
  SeededRandom random(1);
  uint32_t hits = 0;
  for (int i = 0; i < 20'000; i++) {
    Route path = random.below(2) == 0 ? ipv4_path() : ipv6_path();
    path.udp_src_port = static_cast<uint16_t>(0xC000 + random.below(4));
    Bth head = bth(random.below(2) == 0 ? kOpSendOnly : kOpWriteOnly, random.next_u32());
    head.dest_qp = random.below(40);
    const Bytes extension(opcode_info(head.opcode).header_bytes, 0x11);
    const Bytes frame = frame_of(path, head, extension, Bytes(random.below(3) * 4, 0x22));
    const Arrived arrived(frame);
    if (found(known, frame)) {
      hits++;
      continue;
    }
    PacketView view;
    ASSERT_EQ(arrived.parse(view), ParseResult::kOk);
    known.note(view, kSlot, kVersion);
  }
  EXPECT_GT(hits, 100u);
}

}  // namespace
}  // namespace uroce::test
