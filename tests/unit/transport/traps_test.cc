// What went wrong in other RDMA software, each under its own name.
#include <gmock/gmock.h>

#include <cstring>

#include "packet/packet.h"
#include "rig.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Linux rxe, 2026: one 48-byte datagram with opcode 0xff to the multicast QPN needed no connection at all. The length
/// table had 0 for it, a subtraction wrapped, and the kernel read out of bounds.
TEST(Traps, RxeOpcodeFfToMulticastIn48Bytes) {
  Rig rig;
  Bth bth;
  bth.opcode = 0xff;
  bth.dest_qp = 0xFFFFFF;
  Bytes body;
  append(body, bth);
  const Bytes frame = frame_of(rig.path_from_peer(), body);  // 20 IPv4 + 8 UDP + 12 BTH + 4 iCRC
  ASSERT_EQ(frame.size() - 14, 44u);
  Bytes padded = frame_of(rig.path_from_peer(), [&] {
    Bytes longer = body;
    longer.resize(16);
    return longer;
  }());
  ASSERT_EQ(padded.size() - 14, 48u);
  rig.arrive(frame);
  rig.arrive(padded);
  EXPECT_EQ(rig.counted(), "rx_drop_unknown_opcode 2");
}

/// rxe, siw: payload_size() of a packet shorter than its own headers.
TEST(Traps, EveryOpcodeAtEveryLengthUpToItsHeaders) {
  Rig rig;
  uint64_t sent = 0;
  for (unsigned opcode = 0; opcode < 256; opcode++) {
    for (uint32_t bytes = 0; bytes <= 64; bytes++) {
      for (const uint8_t pad : {uint8_t{0}, uint8_t{3}}) {
        Bth bth;
        bth.opcode = static_cast<uint8_t>(opcode);
        bth.dest_qp = rig.qp().qpn() ^ 0x2;  // no such QP: only parsing matters here
        bth.pad_count = pad;
        Bytes body;
        append(body, bth);
        body.resize(Bth::kBytes + bytes);
        rig.arrive(frame_of(rig.path_from_peer(), body));
        sent++;
      }
    }
  }
  uint64_t drops = 0;
  for_each_counter(rig.engine().counters(), [&](const char* name, uint64_t value) {
    if (std::strncmp(name, "rx_drop", 7) == 0 || std::strcmp(name, "rp_cnp_ignored") == 0) drops += value;
    if (std::strcmp(name, "rx_icrc_encapsulated") == 0) drops += value;
  });
  EXPECT_EQ(drops, sent);
  EXPECT_THAT(rig.sent(), IsEmpty());
}

/// rxe: length rules never fired, because an 8-bit opcode was tested against mask bits above 8.
TEST(Traps, RxeInertLengthRules) {
  Rig rig;
  rig.receive(1);
  rig.arrive(send(kOpSendFirst, 0x100, 4));
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000100 invalid request msn 0"));
}

/// ROCm-ernic PR 107, CVE-2016-8636: addr + len > start + length, modulo 2^64.
TEST(Traps, RangeCheckThatWraps) {
  Rig rig;
  rig.arrive(read(0x100, ~uint64_t{0} - 7, rig.rkey(), 16));
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000100 remote access error msn 0"));
}

/// rdma-core 1268: READs of nothing were refused.
TEST(Traps, ReadOfNothing) {
  Rig rig;
  rig.arrive(read(0x100, 0, 0, 0));
  EXPECT_THAT(rig.sent(), ElementsAre("READ_RESPONSE_ONLY 000100 msn 1 bytes 0"));
  rig.post(rig.read_wr(0, 1));
  rig.sent();
  rig.arrive(read_response(kOpReadResponseOnly, 0x200, 0));
  EXPECT_THAT(rig.completed(), ElementsAre("read 1: success, 0 bytes"));
}

/// CVE-2026-45910 and similar ones: a timer fires for a QP that is gone, or for its successor in the same slot.
TEST(Traps, TimerOfADestroyedQp) {
  RigOptions options;
  options.engine.max_qps = 1;
  Rig rig(options);
  rig.post(rig.send_wr(4, 1));
  const uint32_t old_qpn = rig.qp().qpn();
  const QpInit init = rig.qp_init();
  rig.engine().destroy_qp(&rig.qp(), rig.now());
  Qp* next = rig.engine().create_qp(init, nullptr);
  ASSERT_NE(next, nullptr);
  EXPECT_NE(next->qpn(), old_qpn);
  rig.sent();
  rig.counted();
  rig.advance(milliseconds(50));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.counted(), "");
}

/// A late packet for a destroyed QP must not reach the QP that has its place now.
TEST(Traps, GhostPacketsReachNoSuccessor) {
  RigOptions options;
  options.engine.max_qps = 1;
  Rig rig(options);
  const Bytes late = rig.frame(send(kOpSendOnly, 0x100, 4));
  const QpInit init = rig.qp_init();
  rig.engine().destroy_qp(&rig.qp(), rig.now());
  ASSERT_NE(rig.engine().create_qp(init, nullptr), nullptr);
  rig.counted();
  rig.arrive(late);
  EXPECT_EQ(rig.counted(), "rx_drop_no_qp 1");
}

/// For Linux 6.1's rxe and a NAK in the middle of an RNR wait see rnr_test. Here: an RNR NAK for a packet acknowledged
/// long ago.
TEST(Traps, LateRnrNak) {
  Rig rig;
  rig.post(rig.send_wr(4, 1));
  rig.arrive(ack(0x200, 1));
  rig.arrive(rnr_nak(0x200, 0));
  rig.post(rig.send_wr(4, 2));
  const auto sent = rig.sent();
  EXPECT_EQ(sent.back(), "SEND_ONLY 000201 bytes 4 ack");
}

/// A single forged packet must not end a QP unless it names an outstanding packet.
TEST(Traps, ForgedNaksMustHitTheWindow) {
  Rig rig;
  rig.post(rig.send_wr(4, 1));
  uint32_t hits = 0;
  for (uint32_t psn = 0; psn < 0x1000000; psn += 0x101) {
    if (psn == 0x200) continue;
    rig.arrive(nak(psn, NakCode::kInvalidRequest));
    hits += rig.qp().state() == QpState::kErr ? 1 : 0;
  }
  EXPECT_EQ(hits, 0u);
}

/// An ACK cannot complete what was never sent.
TEST(Traps, OptimisticAck) {
  RigOptions options;
  options.engine.window_packets = 4;
  Rig rig(options);
  rig.post(rig.write_wr(256 * 10, 1));
  EXPECT_EQ(rig.sent().size(), 4u);
  rig.arrive(ack(0x209, 1));
  EXPECT_THAT(rig.completed(), IsEmpty());
  EXPECT_EQ(rig.counted(), "rx_drop_ghost_ack 1");
}

}  // namespace
}  // namespace uroce::test
