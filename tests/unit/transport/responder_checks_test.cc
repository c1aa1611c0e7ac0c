// What a reliable responder refuses, in the specification's order, and how.
#include <gmock/gmock.h>

#include "rig.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kInvalid = "NAK 000100 invalid request msn 0";
constexpr const char* kAccess = "NAK 000100 remote access error msn 0";

/// The packet is answered with this fatal NAK, the QP enters the error state, and memory is untouched.
void expect_refused(Rig& rig, const Packet& packet, const char* nak) {
  const Bytes memory(rig.remote(), rig.remote() + Rig::kMemoryBytes);
  rig.sent();
  rig.arrive(packet);
  EXPECT_THAT(rig.sent(), ElementsAre(nak));
  EXPECT_EQ(rig.qp().state(), QpState::kErr);
  EXPECT_TRUE(std::equal(memory.begin(), memory.end(), rig.remote()));
  // From now on the QP is silent.
  rig.arrive(packet);
  EXPECT_THAT(rig.sent(), IsEmpty());
}

// Opcode sequence.

struct Step {
  uint8_t low;
  bool in_none;   // accepted when no message is under way
  bool in_send;   // accepted after SEND_FIRST
  bool in_write;  // accepted after WRITE_FIRST
};

constexpr Step kSteps[] = {
    {kOpSendFirst, true, false, false},    {kOpSendMiddle, false, true, false},  {kOpSendLast, false, true, false},
    {kOpSendLastImm, false, true, false},  {kOpSendOnly, true, false, false},    {kOpSendOnlyImm, true, false, false},
    {kOpWriteFirst, true, false, false},   {kOpWriteMiddle, false, false, true}, {kOpWriteLast, false, false, true},
    {kOpWriteLastImm, false, false, true}, {kOpWriteOnly, true, false, false},   {kOpWriteOnlyImm, true, false, false},
    {kOpReadRequest, true, false, false},  {kOpCompareSwap, true, false, false}, {kOpFetchAdd, true, false, false},
    {kOpSendOnlyInv, true, false, false},
};

Packet step_packet(const Rig& rig, uint8_t low, uint32_t psn, uint64_t va) {
  switch (low) {
    case kOpSendFirst:
    case kOpSendMiddle:
      return send(low, psn, 256);
    case kOpSendLast:
    case kOpSendOnly:
      return send(low, psn, 4);
    case kOpSendLastImm:
    case kOpSendOnlyImm:
    case kOpWriteLastImm:
      return send_imm(low, psn, 4, 1);
    case kOpWriteFirst:
      return write(low, psn, va, rig.rkey(), 516, 256);
    case kOpWriteMiddle:
      return packet(low, psn, 256);
    case kOpWriteLast:
      return packet(low, psn, 4);
    case kOpReadRequest:
      return read(psn, va, rig.rkey(), 4);
    case kOpCompareSwap:
      return compare_swap(psn, va, rig.rkey(), 0, 0);
    case kOpFetchAdd:
      return fetch_add(psn, va, rig.rkey(), 0);
    default:
      return write(low, psn, va, rig.rkey(), 4, 4);
  }
}

enum class Before { kNothing, kSendFirst, kWriteFirst };

class OpcodeSequence : public testing::TestWithParam<std::tuple<Step, Before>> {};

INSTANTIATE_TEST_SUITE_P(All, OpcodeSequence,
                         testing::Combine(testing::ValuesIn(kSteps),
                                          testing::Values(Before::kNothing, Before::kSendFirst, Before::kWriteFirst)));

TEST_P(OpcodeSequence, AcceptedOrRefused) {
  const auto [step, before] = GetParam();
  Rig rig;
  rig.receive(1);
  rig.receive(2);
  Packet p = step_packet(rig, step.low, before == Before::kNothing ? 0x100 : 0x101, rig.remote_va());
  if (step.low == kOpSendOnlyInv) {
    // It needs a window to invalidate.
    SendWr bind;
    bind.opcode = WrOpcode::kBindMw;
    const uint32_t window = rig.engine().memory().allocate_window(rig.pd(), true);
    bind.bind = {window, (window & ~0xFFu) | 0x77, rig.rkey(), rig.remote_va(), 64, kRemoteRead};
    ASSERT_EQ(rig.post(bind), PostResult::kOk);
    p = send_inv(p.bth.psn.value(), 4, bind.bind.new_rkey);
  }
  if (before == Before::kSendFirst) rig.arrive(send(kOpSendFirst, 0x100, 256));
  // Behind a first packet the total must fit: 516 = 256 + 256 + 4, or 260 when this is the last packet.
  const bool is_last = opcode_info(p.bth.opcode).is_last();
  if (before == Before::kWriteFirst) {
    rig.arrive(write(kOpWriteFirst, 0x100, rig.remote_va(), rig.rkey(), is_last ? 260 : 516, 256));
  }
  rig.sent();
  rig.arrive(p);
  const bool accepted = before == Before::kNothing     ? step.in_none
                        : before == Before::kSendFirst ? step.in_send
                                                       : step.in_write;
  EXPECT_EQ(rig.qp().state(), accepted ? QpState::kRts : QpState::kErr) << opcode_name(p.bth.opcode);
  const auto sent = rig.sent();
  if (!accepted) {
    EXPECT_EQ(rig.observer().responder_errors.at(0).cause, Cause::kRequestMalformed);
  }
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].find("invalid request") == std::string::npos, accepted) << sent[0];
}

// Enabled operations.

TEST(ResponderChecks, OperationsThatTheQpDoesNotAllow) {
  RigOptions options;
  options.attributes.access = 0;
  for (int operation = 0; operation < 4; operation++) {
    Rig rig(options);
    const uint64_t va = rig.remote_va();
    const Packet packets[] = {write(kOpWriteOnly, 0x100, va, rig.rkey(), 4, 4), read(0x100, va, rig.rkey(), 4),
                              compare_swap(0x100, va, rig.rkey(), 1, 2), fetch_add(0x100, va, rig.rkey(), 1)};
    expect_refused(rig, packets[operation], kInvalid);
    EXPECT_EQ(rig.observer().responder_errors.at(0).cause, Cause::kRequestNotEnabled);
    EXPECT_THAT(rig.events(), ElementsAre("request error"));
  }
}

TEST(ResponderChecks, SendNeedsNoAccessFlag) {
  RigOptions options;
  options.attributes.access = 0;
  Rig rig(options);
  rig.receive(1);
  rig.arrive(send(kOpSendOnly, 0x100, 4));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 1"));
}

// Length.

TEST(ResponderChecks, FirstPacketShorterThanTheMtu) {
  Rig rig;
  rig.receive(1);
  expect_refused(rig, send(kOpSendFirst, 0x100, 252), kInvalid);
}

TEST(ResponderChecks, FirstPacketWithPadding) {
  Rig rig;
  rig.receive(1);
  expect_refused(rig, send(kOpSendFirst, 0x100, 255), kInvalid);
}

TEST(ResponderChecks, FirstPacketLongerThanTheMtu) {
  Rig rig;
  rig.receive(1);
  expect_refused(rig, send(kOpSendFirst, 0x100, 260), kInvalid);
}

TEST(ResponderChecks, OnlyPacketLongerThanTheMtu) {
  Rig rig;
  rig.receive(1);
  expect_refused(rig, send(kOpSendOnly, 0x100, 257), kInvalid);
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: work request flushed"));
}

TEST(ResponderChecks, MiddlePacketShorterThanTheMtu) {
  Rig rig;
  rig.receive(1);
  rig.arrive(send(kOpSendFirst, 0x100, 256));
  expect_refused(rig, send(kOpSendMiddle, 0x101, 100), "NAK 000101 invalid request msn 0");
  // The receive in use has the reason, the others are flushed.
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: remote invalid request"));
}

TEST(ResponderChecks, LastPacketWithoutPayload) {
  Rig rig;
  rig.receive(1);
  rig.arrive(send(kOpSendFirst, 0x100, 256));
  expect_refused(rig, send(kOpSendLast, 0x101, 0), "NAK 000101 invalid request msn 0");
}

TEST(ResponderChecks, PadCountThatDoesNotFitThePayload) {
  // Payload and padding together must be a multiple of four bytes, with as little padding as that takes.
  for (uint32_t bytes = 0; bytes <= 12; bytes++) {
    for (uint8_t pad = 0; pad <= 3 && pad <= bytes; pad++) {
      Rig rig;
      rig.receive(1);
      Bth bth = send(kOpSendOnly, 0x100, 0).bth;
      bth.dest_qp = rig.qp().qpn();
      bth.pad_count = pad;
      Bytes body;
      append(body, bth);
      body.resize(body.size() + bytes);
      rig.arrive(frame_of(rig.path_from_peer(), body));
      const bool fits = bytes % 4 == 0;
      EXPECT_EQ(rig.qp().state(), fits ? QpState::kRts : QpState::kErr) << bytes << " " << int{pad};
      EXPECT_THAT(rig.sent(), ElementsAre(fits ? "ACK 000100 msn 1" : kInvalid));
    }
  }
}

TEST(ResponderChecks, SendLongerThanItsReceive) {
  Rig rig;
  rig.receive(1, 300);
  rig.receive(2, 300);
  rig.arrive(send(kOpSendFirst, 0x100, 256));
  expect_refused(rig, send(kOpSendLast, 0x101, 45), "NAK 000101 invalid request msn 0");
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: local length error", "recv 2: work request flushed"));
}

TEST(ResponderChecks, SendThatFillsItsReceive) {
  Rig rig;
  rig.receive(1, 300);
  rig.arrive({send(kOpSendFirst, 0x100, 256), send(kOpSendLast, 0x101, 44)});
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: success, 300 bytes"));
}

TEST(ResponderChecks, WriteWhoseRethDisagreesWithItsPayload) {
  for (const uint32_t dma_length : {3u, 5u, 0u, 256u, 0xFFFFFFFFu}) {
    Rig rig;
    expect_refused(rig, write(kOpWriteOnly, 0x100, rig.remote_va(), rig.rkey(), dma_length, 4), kInvalid);
  }
}

TEST(ResponderChecks, WriteFirstWithATotalOfOnePacket) {
  Rig rig;
  expect_refused(rig, write(kOpWriteFirst, 0x100, rig.remote_va(), rig.rkey(), 256, 256), kInvalid);
}

TEST(ResponderChecks, WriteEndsEarly) {
  Rig rig;
  rig.arrive(write(kOpWriteFirst, 0x100, rig.remote_va(), rig.rkey(), 600, 256));
  expect_refused(rig, packet(kOpWriteLast, 0x101, 256), "NAK 000101 invalid request msn 0");
}

TEST(ResponderChecks, WriteGoesOnBeyondItsTotal) {
  Rig rig;
  rig.arrive(write(kOpWriteFirst, 0x100, rig.remote_va(), rig.rkey(), 512, 256));
  expect_refused(rig, packet(kOpWriteMiddle, 0x101, 256), "NAK 000101 invalid request msn 0");
}

TEST(ResponderChecks, LengthsAboveTwoToThe31) {
  {
    Rig rig;
    expect_refused(rig, write(kOpWriteFirst, 0x100, rig.remote_va(), rig.rkey(), 0x80000001u, 256), kInvalid);
  }
  Rig rig;
  expect_refused(rig, read(0x100, rig.remote_va(), rig.rkey(), 0x80000001u), kInvalid);
}

// Keys.

TEST(ResponderChecks, UnknownKey) {
  for (const uint32_t difference : {1u, 0x100u, 0x80000000u}) {
    Rig rig;
    expect_refused(rig, write(kOpWriteOnly, 0x100, rig.remote_va(), rig.rkey() ^ difference, 4, 4), kAccess);
    EXPECT_EQ(rig.observer().responder_errors.at(0).cause, Cause::kRemoteKey);
    EXPECT_THAT(rig.events(), ElementsAre("access error"));
    EXPECT_EQ(rig.counted(), "resp_remote_access_errors 1, sent_naks 1, rx_drop_qp_state 1");
  }
}

/// The receive that the immediate would have consumed tells its owner what failed, wherever the packet stands in its
/// message. Before that packet there is no receive to tell it with.
TEST(ResponderChecks, AWriteWithImmediateThatIsRefusedTakesItsReceive) {
  const auto has_key = [](const Rig& rig) { return rig.rkey() ^ 0x100u; };
  {
    Rig rig;
    rig.receive(1);
    rig.receive(2);
    expect_refused(rig, write(kOpWriteOnlyImm, 0x100, rig.remote_va(), has_key(rig), 4, 4), kAccess);
    EXPECT_THAT(rig.completed(), ElementsAre("recv 1: local access error", "recv 2: work request flushed"));
    EXPECT_THAT(rig.events(), IsEmpty());
  }
  {
    Rig rig;
    rig.receive(1);
    const uint32_t key = rig.engine().memory().register_region(rig.pd(), rig.remote(), 512, rig.remote_va(), 15);
    rig.arrive(write(kOpWriteFirst, 0x100, rig.remote_va(), key, 300, 256));
    ASSERT_TRUE(rig.engine().memory().deregister(key));
    expect_refused(rig, send_imm(kOpWriteLastImm, 0x101, 44, 7), "NAK 000101 remote access error msn 0");
    EXPECT_THAT(rig.completed(), ElementsAre("recv 1: local access error"));
  }
  {
    Rig rig;
    rig.receive(1);
    expect_refused(rig, write(kOpWriteFirst, 0x100, rig.remote_va(), has_key(rig), 300, 256), kAccess);
    EXPECT_THAT(rig.completed(), ElementsAre("recv 1: work request flushed"));
    EXPECT_THAT(rig.events(), ElementsAre("access error"));
  }
  Rig rig;  // without a receive
  expect_refused(rig, write(kOpWriteOnlyImm, 0x100, rig.remote_va(), has_key(rig), 4, 4), kAccess);
  EXPECT_THAT(rig.events(), ElementsAre("access error"));
}

TEST(ResponderChecks, KeyOfAnotherProtectionDomain) {
  Rig rig;
  const PdId other = rig.engine().objects().allocate_pd();
  const uint32_t key = rig.engine().memory().register_region(other, rig.remote(), 64, rig.remote_va(), 15);
  expect_refused(rig, read(0x100, rig.remote_va(), key, 4), kAccess);
}

TEST(ResponderChecks, KeyWithoutTheRight) {
  struct Case {
    uint32_t rights;
    bool write_ok, read_ok, atomic_ok;
  };
  constexpr Case kCases[] = {{kLocalWrite, false, false, false},
                             {kLocalWrite | kRemoteWrite, true, false, false},
                             {kRemoteRead, false, true, false},
                             {kLocalWrite | kRemoteAtomic, false, false, true}};
  for (const Case& c : kCases) {
    for (int operation = 0; operation < 3; operation++) {
      Rig rig;
      const uint64_t va = rig.remote_va();
      const uint32_t key = rig.engine().memory().register_region(rig.pd(), rig.remote(), 64, va, c.rights);
      const Packet packets[] = {write(kOpWriteOnly, 0x100, va, key, 4, 4), read(0x100, va, key, 4),
                                fetch_add(0x100, va, key, 1)};
      rig.arrive(packets[operation]);
      const bool ok = operation == 0 ? c.write_ok : operation == 1 ? c.read_ok : c.atomic_ok;
      EXPECT_EQ(rig.qp().state(), ok ? QpState::kRts : QpState::kErr) << c.rights << " " << operation;
    }
  }
}

TEST(ResponderChecks, RangesThatDoNotFitTheRegion) {
  struct Range {
    uint64_t offset;  // from the region's start, modulo 2^64
    uint32_t bytes;
    bool fits;
  };
  constexpr uint64_t kSize = Rig::kMemoryBytes;
  constexpr Range kRanges[] = {{0, 1, true},
                               {kSize - 1, 1, true},
                               {kSize, 1, false},
                               {kSize - 1, 2, false},
                               {~uint64_t{0}, 1, false},
                               {~uint64_t{0}, 2, false},
                               {0, kSize, true},
                               {0, kSize + 1, false},
                               {1, kSize, false},
                               {0, 0x80000000u, false},
                               {uint64_t{1} << 63, 4, false}};
  for (const Range& range : kRanges) {
    Rig rig;
    rig.arrive(read(0x100, rig.remote_va(range.offset), rig.rkey(), range.bytes));
    EXPECT_EQ(rig.qp().state(), range.fits ? QpState::kRts : QpState::kErr) << range.offset << " " << range.bytes;
  }
}

/// CVE-2016-8636 and similar ones: an address near 2^64, so that address + length wraps to a small number.
TEST(ResponderChecks, AddressPlusLengthWraps) {
  for (const uint64_t va : {~uint64_t{0}, ~uint64_t{0} - 3, ~uint64_t{0} - 255}) {
    Rig rig;
    expect_refused(rig, write(kOpWriteOnly, 0x100, va, rig.rkey(), 256, 256), kAccess);
  }
  // And with a region that ends right at 2^64.
  Rig rig;
  const uint64_t top = ~uint64_t{0} - 63;
  const uint32_t key =
      rig.engine().memory().register_region(rig.pd(), rig.remote(), 64, top, kLocalWrite | kRemoteWrite);
  ASSERT_NE(key, 0u);
  rig.arrive(write(kOpWriteOnly, 0x100, top, key, 64, 64));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 1"));
  EXPECT_EQ(rig.remote()[63], payload_byte(0x100, 63));
  rig.arrive(write(kOpWriteOnly, 0x101, top + 1, key, 64, 64));
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000101 remote access error msn 1"));
}

TEST(ResponderChecks, NobodyLooksAtTheKeyOfNothing) {
  Rig rig;
  rig.receive(1);
  rig.arrive(write(kOpWriteOnly, 0x100, 0xdead, 0xbad, 0, 0));
  rig.arrive(read(0x101, 0xdead, 0xbad, 0));
  Packet imm = write(kOpWriteOnlyImm, 0x102, 0xdead, 0xbad, 0, 0);
  rig.arrive(imm);
  EXPECT_THAT(rig.sent(),
              ElementsAre("ACK 000100 msn 1", "READ_RESPONSE_ONLY 000101 msn 2 bytes 0", "ACK 000102 msn 3"));
  EXPECT_THAT(rig.completed(), ElementsAre("recv write-imm 1: success, 0 bytes, imm 44332211"));
}

TEST(ResponderChecks, MisalignedAtomic) {
  for (uint64_t offset = 1; offset < 8; offset++) {
    Rig rig;
    expect_refused(rig, fetch_add(0x100, rig.remote_va(offset), rig.rkey(), 1), kInvalid);
  }
}

TEST(ResponderChecks, AtomicAtTheRegionsEnd) {
  Rig rig;
  rig.arrive(fetch_add(0x100, rig.remote_va(Rig::kMemoryBytes - 8), rig.rkey(), 1));
  EXPECT_EQ(rig.qp().state(), QpState::kRts);
  expect_refused(rig, fetch_add(0x101, rig.remote_va(Rig::kMemoryBytes), rig.rkey(), 1),
                 "NAK 000101 remote access error msn 1");
}

TEST(ResponderChecks, MoreReadsThanNegotiated) {
  Rig rig;  // max_dest_rd_atomic 4
  rig.port().set_tx_room(0);
  for (uint32_t i = 0; i < 4; i++) rig.arrive(read(0x100 + i, rig.remote_va(), rig.rkey(), 4));
  EXPECT_EQ(rig.qp().state(), QpState::kRts);
  rig.arrive(fetch_add(0x104, rig.remote_va(), rig.rkey(), 1));
  EXPECT_EQ(rig.qp().state(), QpState::kErr);
  EXPECT_EQ(rig.observer().responder_errors.at(0).cause, Cause::kReadResources);
  // The four are still answered, then the NAK is sent.
  rig.port().set_tx_room(64);
  rig.turn();
  const auto sent = rig.sent();
  ASSERT_EQ(sent.size(), 5u);
  EXPECT_EQ(sent[3], "READ_RESPONSE_ONLY 000103 msn 4 bytes 4");
  EXPECT_EQ(sent[4], "NAK 000104 invalid request msn 4");
}

TEST(ResponderChecks, NoReadsNegotiated) {
  RigOptions options;
  options.attributes.max_dest_rd_atomic = 0;
  Rig rig(options);
  expect_refused(rig, read(0x100, rig.remote_va(), rig.rkey(), 4), kInvalid);
}

// Order of the checks: the first one that fails decides.

TEST(ResponderChecks, OpcodeSequenceBeforeTheKey) {
  Rig rig;
  rig.receive(1);
  rig.arrive(send(kOpSendFirst, 0x100, 256));
  expect_refused(rig, write(kOpWriteOnly, 0x101, 0, 0, 4, 4), "NAK 000101 invalid request msn 0");
}

TEST(ResponderChecks, EnabledBeforeTheReceive) {
  RigOptions options;
  options.attributes.access = 0;
  Rig rig(options);  // no receive posted
  expect_refused(rig, write(kOpWriteOnlyImm, 0x100, rig.remote_va(), rig.rkey(), 4, 4), kInvalid);
}

TEST(ResponderChecks, LengthBeforeTheKey) {
  Rig rig;
  expect_refused(rig, write(kOpWriteOnly, 0x100, rig.remote_va(), rig.rkey() ^ 1, 5, 4), kInvalid);
}

TEST(ResponderChecks, SequenceNumberBeforeEverythingElse) {
  Rig rig;
  rig.arrive(write(kOpWriteOnly, 0x105, 0, 0, 4, 4));
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000100 sequence error msn 0"));
  EXPECT_EQ(rig.qp().state(), QpState::kRts);
}

// After the error.

TEST(ResponderChecks, ReceiveInUseFailsFirstThenTheRestIsFlushed) {
  Rig rig;
  for (uint64_t i = 1; i <= 3; i++) rig.receive(i);
  rig.post(rig.send_wr(8, 11));
  rig.arrive(send(kOpSendFirst, 0x100, 256));
  rig.arrive(send(kOpSendOnly, 0x101, 4));
  EXPECT_THAT(rig.completed(), ElementsAre("send 11: work request flushed", "recv 1: remote invalid request",
                                           "recv 2: work request flushed", "recv 3: work request flushed"));
}

}  // namespace
}  // namespace uroce::test
