// Messages to a shared receive queue that matches tags, packet by packet.
#include <gmock/gmock.h>

#include <algorithm>

#include "rig.h"
#include "transport/qp_events.h"
#include "transport/rendezvous.h"
#include "transport/tag_list.h"
#include "transport/tag_matching.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kTag = 0x0102030405060708;
constexpr uint8_t kNoTag = 0;
constexpr uint8_t kRndv = 1;
constexpr uint8_t kFin = 2;
constexpr uint8_t kEager = 3;

RigOptions tag_options() {
  RigOptions options;
  options.tags = 8;
  options.cap.max_send_wr = 1;
  options.cap.max_send_sge = 1;
  options.cap.max_inline_data = 0;
  return options;
}

/// A tag matching header, byte by byte; context 0x0a0b0c0d.
Bytes header(uint8_t operation, uint64_t tag) {
  Bytes bytes = {operation, 0, 0, 0, 0x0a, 0x0b, 0x0c, 0x0d};
  for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<uint8_t>(tag >> shift));
  return bytes;
}

class TagMatchingTest : public testing::Test {
 protected:
  TagMatchingTest() : rig_(tag_options()) {}

  TagMatching& tags() { return *rig_.srq()->tags(); }
  /// Adds a receive into local memory, 2048 bytes for each wr_id. Returns its handle.
  uint32_t add(uint64_t wr_id, uint64_t tag, uint32_t bytes = 1024, uint64_t mask = ~uint64_t{0}) {
    const Sge sge = rig_.local_sge(place(wr_id), bytes);
    TagOp op{.wr_id = wr_id, .kind = TagOp::Kind::kAdd, .receive = {}};
    op.receive = {.wr_id = wr_id, .tag = tag, .mask = mask, .sges = &sge, .num_sge = 1};
    EXPECT_EQ(tags().post(op, rig_.now()), PostResult::kOk);
    return op.handle;
  }
  static uint32_t place(uint64_t wr_id) { return static_cast<uint32_t>(wr_id % 16) * 2048; }
  Packet message(uint8_t low, uint32_t psn, uint8_t operation, uint32_t data, uint64_t tag = kTag) {
    Packet packet = send(low, psn, data);
    const Bytes head = header(operation, tag);
    packet.payload.insert(packet.payload.begin(), head.begin(), head.end());
    return packet;
  }
  Packet rendezvous(uint32_t psn, uint32_t length, uint32_t more = 0) {
    Packet packet = message(kOpSendOnly, psn, kRndv, more);
    const Bytes rvh = {0,
                       0,
                       0,
                       0,
                       0x11,
                       0x22,
                       0x33,
                       0x44,
                       0xaa,
                       0xbb,
                       0xcc,
                       0xdd,
                       static_cast<uint8_t>(length >> 24),
                       static_cast<uint8_t>(length >> 16),
                       static_cast<uint8_t>(length >> 8),
                       static_cast<uint8_t>(length)};
    packet.payload.insert(packet.payload.begin() + 16, rvh.begin(), rvh.end());
    return packet;
  }
  void expect_refused(const Packet& packet) {
    rig_.arrive(packet);
    EXPECT_THAT(rig_.sent(), ElementsAre("NAK 000100 invalid request msn 0"));
    EXPECT_EQ(rig_.qp().state(), QpState::kErr);
  }
  void expect_data(uint32_t at, const Bytes& data) {
    EXPECT_TRUE(std::equal(data.begin(), data.end(), rig_.local() + at));
  }
  /// The payload of a frame, behind the BTH and without the iCRC.
  static Bytes payload_sent(const Bytes& frame) {
    constexpr size_t kHeaders = 14 + 20 + 8 + 12;
    return {frame.begin() + kHeaders, frame.end() - kIcrcBytes};
  }

  Rig rig_;
};

TEST_F(TagMatchingTest, AMessageFillsTheReceiveThatHasItsTag) {
  add(1, kTag + 1);
  add(2, kTag);
  const Packet packet = message(kOpSendOnly, 0x100, kEager, 20);
  rig_.arrive(packet);
  EXPECT_THAT(rig_.sent(), ElementsAre("ACK 000100 msn 1"));
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-recv 2: success, 20 bytes, tag 102030405060708 of a0b0c0d, data"));
  expect_data(place(2), payload_of(0x100, 20));
  EXPECT_TRUE(tags().in_step());
}

TEST_F(TagMatchingTest, AMessageOfSeveralPacketsWithoutItsHeader) {
  add(1, kTag);
  rig_.arrive({message(kOpSendFirst, 0x100, kEager, 240).no_ack_request(),
               send(kOpSendMiddle, 0x101, 256).no_ack_request(), send(kOpSendLast, 0x102, 3)});
  EXPECT_THAT(rig_.sent(), ElementsAre("ACK 000102 msn 1"));
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-recv 1: success, 499 bytes, tag 102030405060708 of a0b0c0d, data"));
  expect_data(place(1), payload_of(0x100, 240));
  expect_data(place(1) + 240, payload_of(0x101, 256));
  expect_data(place(1) + 496, payload_of(0x102, 3));
}

TEST_F(TagMatchingTest, AMessageWithoutData) {
  add(1, kTag, 0);
  rig_.arrive(message(kOpSendOnly, 0x100, kEager, 0));
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-recv 1: success, 0 bytes, tag 102030405060708 of a0b0c0d, data"));
}

TEST_F(TagMatchingTest, ItCarriesImmediateDataToo) {
  add(1, kTag);
  Packet packet = message(kOpSendOnlyImm, 0x100, kEager, 4);
  packet.extension = {1, 2, 3, 4};
  rig_.arrive(packet);
  EXPECT_THAT(rig_.completed(),
              ElementsAre("tm-recv 1: success, 4 bytes, imm 04030201, tag 102030405060708 of a0b0c0d, data"));
}

/// It is delivered whole, with its header, and nothing can be added before the program has counted it.
TEST_F(TagMatchingTest, AnUnexpectedMessageTakesAnOrdinaryReceive) {
  rig_.receive(7);
  const Packet packet = message(kOpSendOnly, 0x100, kEager, 20);
  rig_.arrive(packet);
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-recv 7: success, 36 bytes"));
  expect_data(Rig::kMemoryBytes / 2 + place(7), packet.payload);
  EXPECT_EQ(add(1, kTag), 0u);
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-add 1: tag matching error, out of step"));
  TagOp sync{.wr_id = 5, .signaled = true, .sync = true, .unexpected = 2, .receive = {}};
  EXPECT_EQ(tags().post(sync, rig_.now()), PostResult::kOk);
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-sync 5: success, out of step"));
  for (const uint32_t count : {1u, 0x10001u}) {  // cards count in 16 bits
    sync.unexpected = count;
    EXPECT_EQ(tags().post(sync, rig_.now()), PostResult::kOk);
    EXPECT_THAT(rig_.completed(), ElementsAre("tm-sync 5: success"));
  }
  EXPECT_NE(add(1, kTag), 0u);
  EXPECT_THAT(rig_.completed(), IsEmpty());  // not signalled
}

/// A program may reuse one work request: when a receive is not added, it must not keep the handle of an earlier one.
TEST_F(TagMatchingTest, WhatIsNotAddedHasNoHandle) {
  const Sge sge = rig_.local_sge(0, 4);
  TagOp op{.wr_id = 1, .kind = TagOp::Kind::kAdd, .receive = {}};
  op.receive = {.wr_id = 1, .tag = 5, .mask = ~uint64_t{0}, .sges = &sge, .num_sge = 1};
  ASSERT_EQ(tags().post(op, rig_.now()), PostResult::kOk);
  ASSERT_NE(op.handle, 0u);
  rig_.receive(7);
  rig_.arrive(message(kOpSendOnly, 0x100, kEager, 4));
  rig_.completed();
  op.receive.tag = kTag;
  EXPECT_EQ(tags().post(op, rig_.now()), PostResult::kOk);
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-add 1: tag matching error, out of step"));
  EXPECT_EQ(op.handle, 0u);
  EXPECT_TRUE(tags().has(5));
  EXPECT_FALSE(tags().has(kTag));
}

/// Receives added before the unexpected message still match: the order is not in question.
TEST_F(TagMatchingTest, OlderReceivesMatchWhileOutOfStep) {
  add(1, kTag);
  rig_.receive(7);
  rig_.arrive({message(kOpSendOnly, 0x100, kEager, 4, 5), message(kOpSendOnly, 0x101, kEager, 4)});
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-recv 7: success, 20 bytes",
                                            "tm-recv 1: success, 4 bytes, tag 102030405060708 of a0b0c0d, data"));
}

/// It counts from its first packet on, so that no receive can be added in between, and no longer once it fails.
TEST_F(TagMatchingTest, AnUnexpectedMessageUnderWay) {
  rig_.receive(7);
  rig_.arrive(message(kOpSendFirst, 0x100, kEager, 240));
  EXPECT_FALSE(tags().in_step());
  rig_.modify(QpState::kErr);
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-recv 7: work request flushed"));
  EXPECT_TRUE(tags().in_step());
}

TEST_F(TagMatchingTest, WithoutAnyReceiveTheMessageHasToWait) {
  rig_.arrive(message(kOpSendOnly, 0x100, kEager, 4));
  EXPECT_THAT(rig_.sent(), ElementsAre("RNR NAK 000100 timer 12 msn 0"));
  EXPECT_TRUE(tags().in_step());
  add(1, kTag);
  rig_.arrive(message(kOpSendOnly, 0x100, kEager, 4));
  EXPECT_THAT(rig_.sent(), ElementsAre("ACK 000100 msn 1"));
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-recv 1: success, 4 bytes, tag 102030405060708 of a0b0c0d, data"));
}

TEST_F(TagMatchingTest, MessagesWithoutTagDoNotCount) {
  add(1, kTag);
  rig_.receive(7);
  rig_.receive(8);
  rig_.arrive({message(kOpSendOnly, 0x100, kNoTag, 4), message(kOpSendOnly, 0x101, kFin, 0)});
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-no-tag 7: success, 20 bytes", "tm-no-tag 8: success, 16 bytes"));
  EXPECT_TRUE(tags().in_step());
}

TEST_F(TagMatchingTest, ADuplicateMatchesOnce) {
  add(1, kTag);
  add(2, kTag);
  const Packet packet = message(kOpSendOnly, 0x100, kEager, 4);
  rig_.arrive({packet, packet});
  EXPECT_EQ(rig_.completed().size(), 1u);
  EXPECT_TRUE(tags().has(kTag));
}

TEST_F(TagMatchingTest, TooLongForItsReceive) {
  add(1, kTag, 19);
  expect_refused(message(kOpSendOnly, 0x100, kEager, 20));
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-recv 1: local length error"));
}

TEST_F(TagMatchingTest, ARemovedReceiveMatchesNothing) {
  const uint32_t handle = add(1, kTag);
  TagOp remove{.wr_id = 3, .kind = TagOp::Kind::kRemove, .signaled = true, .handle = handle, .receive = {}};
  EXPECT_EQ(tags().post(remove, rig_.now()), PostResult::kOk);
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-del 3: success"));
  EXPECT_FALSE(tags().has(kTag));
  remove.signaled = false;
  EXPECT_EQ(tags().post(remove, rig_.now()), PostResult::kOk);
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-del 3: tag matching error"));
}

/// Receives and operations keep their slots until their completions were polled.
TEST_F(TagMatchingTest, BothKindsOfSlotsAreBounded) {
  for (uint64_t i = 0; i < 8; i++) EXPECT_NE(add(i, i), 0u);
  const Sge sge = rig_.local_sge(0, 4);
  TagOp op{.wr_id = 9, .kind = TagOp::Kind::kAdd, .receive = {}};
  op.receive = {.wr_id = 9, .tag = 9, .mask = ~uint64_t{0}, .sges = &sge, .num_sge = 1};
  EXPECT_EQ(tags().post(op, rig_.now()), PostResult::kQueueFull);
  rig_.arrive(message(kOpSendOnly, 0x100, kEager, 4, 3));
  EXPECT_EQ(tags().post(op, rig_.now()), PostResult::kQueueFull);
  EXPECT_EQ(rig_.completed().size(), 1u);
  EXPECT_EQ(tags().post(op, rig_.now()), PostResult::kOk);
  TagOp sync{.signaled = true, .receive = {}};
  for (int i = 0; i < 4; i++) EXPECT_EQ(tags().post(sync, rig_.now()), PostResult::kOk);
  EXPECT_EQ(tags().post(sync, rig_.now()), PostResult::kQueueFull);
  EXPECT_EQ(rig_.completed().size(), 4u);
  EXPECT_EQ(tags().post(sync, rig_.now()), PostResult::kOk);
  op.receive.num_sge = TagList::kSgesMax + 1;
  EXPECT_EQ(tags().post(op, rig_.now()), PostResult::kTooManySges);
}

TEST_F(TagMatchingTest, ARendezvousIsFetched) {
  add(1, kTag);
  rig_.arrive(rendezvous(0x100, 300, 5));
  const std::vector<Bytes> frames = rig_.sent_frames();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(describe(frames[0]), "ACK 000100 msn 1");
  EXPECT_EQ(payload_sent(frames[1]),
            (Bytes{0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0xaa, 0xbb, 0xcc, 0xdd, 0, 0, 0x01, 0x2c}));  // a RETH
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-recv 1: success, 0 bytes, tag 102030405060708 of a0b0c0d"));
  rig_.arrive({read_response(kOpReadResponseFirst, 0x200, 256), read_response(kOpReadResponseLast, 0x201, 44)});
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-recv 1: success, 300 bytes, data"));
  expect_data(place(1), payload_of(0x200, 256));
  expect_data(place(1) + 256, payload_of(0x201, 44));
  const std::vector<Bytes> notice = rig_.sent_frames();
  ASSERT_EQ(notice.size(), 1u);
  EXPECT_EQ(payload_sent(notice[0]), header(kFin, kTag));
  rig_.arrive(ack(0x202, 3));
  EXPECT_THAT(rig_.completed(), IsEmpty());
  EXPECT_EQ(rig_.qp().send_queue().device_room(), 2 * kRendezvousMax);
}

TEST_F(TagMatchingTest, ARendezvousOfNothing) {
  add(1, kTag, 0);
  rig_.arrive(rendezvous(0x100, 0));
  rig_.arrive(read_response(kOpReadResponseOnly, 0x200, 0));
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-recv 1: success, 0 bytes, tag 102030405060708 of a0b0c0d",
                                            "tm-recv 1: success, 0 bytes, data"));
}

TEST_F(TagMatchingTest, AnUnexpectedRendezvousComesWithItsHeaders) {
  rig_.receive(7);
  const Packet packet = rendezvous(0x100, 300, 5);
  rig_.arrive(packet);
  EXPECT_THAT(rig_.sent(), ElementsAre("ACK 000100 msn 1"));
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-recv 7: success, 37 bytes"));
  expect_data(Rig::kMemoryBytes / 2 + place(7), packet.payload);
  EXPECT_FALSE(tags().in_step());
}

/// The program's send queue has one slot, and the device's own work takes none of it.
TEST_F(TagMatchingTest, TheProgramKeepsItsSendQueue) {
  add(1, kTag);
  rig_.arrive(rendezvous(0x100, 4));
  EXPECT_EQ(rig_.post(rig_.send_wr(8, 50)), PostResult::kOk);
  EXPECT_EQ(rig_.post(rig_.send_wr(8, 51)), PostResult::kQueueFull);
  rig_.arrive({read_response(kOpReadResponseOnly, 0x200, 4)});
  rig_.arrive(ack(0x202, 2));
  EXPECT_THAT(rig_.completed(),
              ElementsAre("send 50: success", "tm-recv 1: success, 0 bytes, tag 102030405060708 of a0b0c0d",
                          "tm-recv 1: success, 4 bytes, data"));
}

TEST_F(TagMatchingTest, MoreThanCanBeFetchedAtATimeHaveToWait) {
  RigOptions options = tag_options();
  options.tags = 32;
  Rig rig(options);
  const Sge sge = rig.local_sge(0, 4);
  TagOp op{.kind = TagOp::Kind::kAdd, .receive = {}};
  op.receive = {.tag = kTag, .mask = ~uint64_t{0}, .sges = &sge, .num_sge = 1};
  uint32_t psn = 0x100;
  for (uint32_t i = 0; i <= kRendezvousMax; i++) {
    ASSERT_EQ(rig.srq()->tags()->post(op, rig.now()), PostResult::kOk);
    rig.arrive(rendezvous(psn++, 4));
    if (i < kRendezvousMax) rig.sent();
  }
  EXPECT_THAT(rig.sent(), ElementsAre("RNR NAK 000110 timer 12 msn 16"));
  EXPECT_TRUE(rig.srq()->tags()->has(kTag));
  EXPECT_EQ(rig.completed().size(), kRendezvousMax);
  rig.arrive(read_response(kOpReadResponseOnly, 0x200, 4));  // the notice waited for the READ only
  rig.sent();
  rig.arrive(ack(0x201, 1));
  rig.sent();
  rig.arrive(rendezvous(psn - 1, 4));
  EXPECT_EQ(rig.sent()[0], "ACK 000110 msn 17");
}

/// The peer is in RTS before us, so it has to send again.
TEST_F(TagMatchingTest, ARendezvousBeforeThisSideMaySend) {
  RigOptions options = tag_options();
  options.state = QpState::kRtr;
  Rig rig(options);
  const Sge sge = rig.local_sge(0, 4);
  TagOp op{.kind = TagOp::Kind::kAdd, .receive = {}};
  op.receive = {.tag = kTag, .mask = ~uint64_t{0}, .sges = &sge, .num_sge = 1};
  ASSERT_EQ(rig.srq()->tags()->post(op, rig.now()), PostResult::kOk);
  rig.arrive(rendezvous(0x100, 4));
  EXPECT_THAT(rig.sent(), ElementsAre("RNR NAK 000100 timer 12 msn 0"));
  EXPECT_TRUE(rig.srq()->tags()->has(kTag));
}

TEST_F(TagMatchingTest, ARendezvousThatDoesNotFitItsReceive) {
  add(1, kTag, 299);
  expect_refused(rendezvous(0x100, 300));
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-recv 1: local length error"));
}

TEST_F(TagMatchingTest, AKeyThatThePeerDoesNotKnow) {
  add(1, kTag);
  rig_.arrive(rendezvous(0x100, 300));
  rig_.completed();
  rig_.arrive(nak(0x200, NakCode::kRemoteAccessError));
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-recv 1: remote access error"));
  EXPECT_EQ(rig_.qp().state(), QpState::kErr);
  EXPECT_EQ(tags().tag_slots().taken(), 0u);
}

TEST_F(TagMatchingTest, WhatIsFetchedEndsWithTheQueuePair) {
  add(1, kTag);
  add(2, kTag);
  rig_.arrive({rendezvous(0x100, 300), rendezvous(0x101, 300)});
  rig_.completed();
  rig_.modify(QpState::kErr);
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-recv 1: work request flushed", "tm-recv 2: work request flushed"));
  EXPECT_EQ(tags().tag_slots().taken(), 0u);
}

TEST_F(TagMatchingTest, AResetForgetsWhatIsFetched) {
  add(1, kTag);
  rig_.arrive(rendezvous(0x100, 300));
  rig_.modify(QpState::kReset);
  // The completion of the match stays: tag matching belongs to the queue.
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-recv 1: success, 0 bytes, tag 102030405060708 of a0b0c0d"));
  EXPECT_EQ(tags().tag_slots().taken(), 0u);
  EXPECT_EQ(rig_.qp().send_queue().device_room(), 2 * kRendezvousMax);
}

TEST_F(TagMatchingTest, HeadersThatAreCutShort) {
  for (const uint32_t bytes : {0u, 1u, 15u}) {
    Rig rig(tag_options());
    rig.receive(7);
    rig.arrive(send(kOpSendOnly, 0x100, bytes));
    EXPECT_THAT(rig.sent(), ElementsAre("NAK 000100 invalid request msn 0")) << bytes;
    EXPECT_THAT(rig.events(), ElementsAre("request error", "last receive"));
    EXPECT_EQ(rig.qp().first_error()->cause, Cause::kTagHeader);
  }
  Packet packet = rendezvous(0x100, 4);
  packet.payload.resize(31);
  expect_refused(packet);
}

TEST_F(TagMatchingTest, AnUnknownOperation) { expect_refused(message(kOpSendOnly, 0x100, 4, 0)); }

TEST_F(TagMatchingTest, ARendezvousOfSeveralPackets) { expect_refused(message(kOpSendFirst, 0x100, kRndv, 240)); }

TEST_F(TagMatchingTest, ALengthBeyondAllMessages) {
  const Sge sges[2] = {rig_.local_sge(0, 0xffffffff), rig_.local_sge(0, 0xffffffff)};
  TagOp op{.kind = TagOp::Kind::kAdd, .receive = {}};
  op.receive = {.wr_id = 1, .tag = kTag, .mask = ~uint64_t{0}, .sges = sges, .num_sge = 2};
  EXPECT_EQ(tags().post(op, rig_.now()), PostResult::kOk);
  expect_refused(rendezvous(0x100, 0xffffffff));
  EXPECT_THAT(rig_.completed(), ElementsAre("tm-recv 1: remote invalid request"));
}

/// Whatever the first bytes: the queue pair goes on, or refuses and enters the error state.
TEST_F(TagMatchingTest, AnyHeader) {
  SeededRandom random(3);
  for (int i = 0; i < 300; i++) {
    Rig rig(tag_options());
    const Sge sge = rig.local_sge(0, 64);
    TagOp op{.kind = TagOp::Kind::kAdd, .receive = {}};
    op.receive = {.wr_id = 1, .tag = 0, .mask = random.next_u32() % 2, .sges = &sge, .num_sge = 1};
    ASSERT_EQ(rig.srq()->tags()->post(op, rig.now()), PostResult::kOk);
    rig.receive(7);
    Packet packet = send(kOpSendOnly, 0x100, random.next_u32() % 80);
    for (uint8_t& byte : packet.payload) byte = static_cast<uint8_t>(random.next_u32());
    if (!packet.payload.empty()) packet.payload[0] &= 7;
    rig.arrive(packet);
    const std::vector<std::string> sent = rig.sent();
    ASSERT_FALSE(sent.empty());
    ASSERT_EQ(rig.qp().state(), sent[0] == "ACK 000100 msn 1" ? QpState::kRts : QpState::kErr) << sent[0];
  }
}

}  // namespace
}  // namespace uroce::test
