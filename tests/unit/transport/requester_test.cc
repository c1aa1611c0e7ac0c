// Answers, as a reliable requester takes them.
#include <gmock/gmock.h>

#include <cstring>

#include "rig.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Requester, AnAckAcknowledgesEverythingBeforeIt) {
  Rig rig;
  for (uint64_t i = 1; i <= 3; i++) rig.post(rig.send_wr(16, i));
  EXPECT_EQ(rig.sent().size(), 3u);
  rig.arrive(ack(0x202, 3));
  EXPECT_THAT(rig.completed(), ElementsAre("send 1: success", "send 2: success", "send 3: success"));
  EXPECT_EQ(rig.counted(), "");
}

TEST(Requester, AnAckInTheMiddleOfAMessage) {
  Rig rig;
  rig.post(rig.send_wr(600, 1));
  rig.sent();
  rig.arrive(ack(0x201, 0));
  EXPECT_THAT(rig.completed(), IsEmpty());
  EXPECT_EQ(rig.qp().requester()->window().una(), Psn(0x202));
  rig.arrive(ack(0x202, 1));
  EXPECT_THAT(rig.completed(), ElementsAre("send 1: success"));
}

TEST(Requester, UnsignalledWorkCompletesInSilence) {
  Rig rig;
  SendWr quiet = rig.send_wr(16, 1);
  quiet.flags = 0;
  rig.post(quiet);
  rig.post(rig.send_wr(16, 2));
  rig.arrive(ack(0x201, 2));
  EXPECT_THAT(rig.completed(), ElementsAre("send 2: success"));
}

TEST(Requester, EverythingIsSignalledIfTheQpSaysSo) {
  RigOptions options;
  options.sq_sig_all = true;
  Rig rig(options);
  SendWr quiet = rig.send_wr(16, 1);
  quiet.flags = 0;
  rig.post(quiet);
  rig.arrive(ack(0x200, 1));
  EXPECT_THAT(rig.completed(), ElementsAre("send 1: success"));
}

TEST(Requester, AnUnsignalledErrorIsReported) {
  Rig rig;
  SendWr quiet = rig.write_wr(16, 1);
  quiet.flags = 0;
  rig.post(quiet);
  rig.arrive(nak(0x200, NakCode::kRemoteAccessError));
  EXPECT_THAT(rig.completed(), ElementsAre("write 1: remote access error"));
}

TEST(Requester, GhostAcksAreIgnored) {
  Rig rig;
  rig.arrive(ack(0x1f0, 1));  // a PSN that was never used
  rig.arrive(ack(0x200, 1));
  rig.post(rig.send_wr(16, 1));
  rig.arrive(ack(0x1fe, 1));  // older than all
  rig.arrive(ack(0x201, 1));  // not sent yet
  EXPECT_THAT(rig.completed(), IsEmpty());
  EXPECT_EQ(rig.counted(), "rx_drop_ghost_ack 4");
  rig.arrive(nak(0x201, NakCode::kRemoteAccessError));
  rig.arrive(nak(0x1ff, NakCode::kInvalidRequest));
  rig.arrive(rnr_nak(0x1ff, 3));
  EXPECT_EQ(rig.counted(), "rx_drop_ghost_ack 3");
  EXPECT_EQ(rig.qp().state(), QpState::kRts);
}

TEST(Requester, WhatIsDroppedForItsSyndromeAcknowledgesNothing) {
  Rig rig;
  rig.post(rig.send_wr(16, 1));
  rig.post(rig.send_wr(16, 2));
  rig.arrive(response(0x201, AethKind::kNak, 4, 2));
  rig.arrive(response(0x201, AethKind::kReserved, 0, 2));
  EXPECT_EQ(rig.counted(), "rx_drop_reserved_syndrome 2");
  EXPECT_THAT(rig.completed(), IsEmpty());
}

TEST(Requester, ReservedSyndromesAreDropped) {
  Rig rig;
  rig.post(rig.send_wr(16, 1));
  for (uint8_t value = 0; value < 32; value++) rig.arrive(response(0x200, AethKind::kReserved, value, 1));
  EXPECT_EQ(rig.counted(), "rx_drop_reserved_syndrome 32");
  for (uint8_t code = 4; code < 32; code++) rig.arrive(response(0x200, AethKind::kNak, code, 1));
  EXPECT_EQ(rig.counted(), "rx_drop_reserved_syndrome 28");
  EXPECT_THAT(rig.completed(), IsEmpty());
  EXPECT_EQ(rig.qp().state(), QpState::kRts);
}

TEST(Requester, NakCodesAsStatuses) {
  struct Case {
    NakCode code;
    const char* line;
    const char* counters;
  };
  constexpr Case kCases[] = {
      {NakCode::kInvalidRequest, "send 2: remote invalid request", "req_cqe_error 1, req_remote_invalid_request 1, "},
      {NakCode::kRemoteAccessError, "send 2: remote access error", "req_cqe_error 1, req_remote_access_errors 1, "},
      {NakCode::kRemoteOperationalError, "send 2: remote operation error", "req_cqe_error 1, "}};
  for (const Case& c : kCases) {
    Rig rig;
    for (uint64_t i = 1; i <= 3; i++) rig.post(rig.send_wr(16, i));
    rig.receive(9);
    rig.arrive(nak(0x201, c.code, 1));
    EXPECT_THAT(rig.completed(),
                ElementsAre("send 1: success", c.line, "send 3: work request flushed", "recv 9: work request flushed"));
    EXPECT_EQ(rig.counted(), std::string(c.counters) + "resp_cqe_flush_error 1, req_cqe_flush_error 1");
    EXPECT_EQ(rig.qp().state(), QpState::kErr);
  }
}

TEST(Requester, SequenceNakGoesBackToTheMissingPacket) {
  Rig rig;
  for (uint64_t i = 1; i <= 3; i++) rig.post(rig.send_wr(16, i));
  rig.sent();
  rig.arrive(nak(0x201, NakCode::kPsnSequenceError, 1));
  EXPECT_THAT(rig.completed(), ElementsAre("send 1: success"));
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000201 bytes 16 ack", "SEND_ONLY 000202 bytes 16 ack"));
  EXPECT_EQ(rig.counted(), "packet_seq_err 1, retransmits 2");
}

TEST(Requester, GoesBackIntoTheMiddleOfAMessage) {
  Rig rig;
  rig.post(rig.write_wr(1000, 1));
  rig.sent();
  rig.arrive(nak(0x202, NakCode::kPsnSequenceError, 0));
  EXPECT_THAT(rig.sent(), ElementsAre("WRITE_MIDDLE 000202 bytes 256", "WRITE_LAST 000203 bytes 232 ack"));
}

TEST(Requester, SequenceNaksWithoutProgressUseUpTheBudget) {
  Rig rig;  // retry_cnt 3
  rig.post(rig.send_wr(16, 1));
  for (int i = 0; i < 3; i++) {
    rig.sent();
    rig.arrive(nak(0x200, NakCode::kPsnSequenceError));
    EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000200 bytes 16 ack"));
  }
  rig.arrive(nak(0x200, NakCode::kPsnSequenceError));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_THAT(rig.completed(), ElementsAre("send 1: transport retry counter exceeded"));
}

// READ.

TEST(Requester, ReadInSeveralResponses) {
  Rig rig;
  rig.post(rig.read_wr(600, 1));
  EXPECT_THAT(rig.sent(), ElementsAre("READ_REQUEST 000200 va 1000 len 600 ack"));
  rig.arrive({read_response(kOpReadResponseFirst, 0x200, 256), read_response(kOpReadResponseMiddle, 0x201, 256)});
  EXPECT_THAT(rig.completed(), IsEmpty());
  rig.arrive(read_response(kOpReadResponseLast, 0x202, 88, 1));
  EXPECT_THAT(rig.completed(), ElementsAre("read 1: success, 600 bytes"));
  for (uint32_t i = 0; i < 600; i++) ASSERT_EQ(rig.local()[i], payload_byte(0x200 + i / 256, i % 256)) << i;
  EXPECT_EQ(rig.local()[600], static_cast<uint8_t>(600 * 5 + 9));
}

TEST(Requester, ReadTakesAsManyPsnsAsItHasResponses) {
  Rig rig;
  rig.post(rig.read_wr(600, 1));
  rig.post(rig.send_wr(4, 2));
  EXPECT_THAT(rig.sent(), ElementsAre("READ_REQUEST 000200 va 1000 len 600 ack", "SEND_ONLY 000203 bytes 4 ack"));
}

TEST(Requester, EverySingleResponseLostInTurn) {
  for (uint32_t lost = 0; lost < 4; lost++) {
    Rig rig;
    rig.post(rig.read_wr(1000, 1));
    rig.post(rig.send_wr(4, 2));
    rig.sent();
    constexpr uint8_t kKinds[] = {kOpReadResponseFirst, kOpReadResponseMiddle, kOpReadResponseMiddle,
                                  kOpReadResponseLast};
    for (uint32_t i = 0; i < 4; i++) {
      if (i != lost) rig.arrive(read_response(kKinds[i], 0x200 + i, i == 3 ? 232 : 256));
    }
    rig.arrive(ack(0x204, 2));
    // Requested once, from the first missing response on; and what was posted behind it is sent again.
    EXPECT_THAT(rig.sent(), ElementsAre("READ_REQUEST 00020" + std::to_string(lost) + " va 1" +
                                            (lost == 0 ? "000" : std::to_string(lost) + "00") + " len " +
                                            std::to_string(1000 - 256 * lost) + " ack",
                                        "SEND_ONLY 000204 bytes 4 ack"));
    // Responses behind the gap are useless, and counted.
    const uint32_t behind = 3 - lost;
    EXPECT_EQ(rig.counted(), "implied_nak_seq_err 1, retransmits 2" +
                                 (behind == 0 ? "" : ", rx_drop_early_response " + std::to_string(behind)));
    for (uint32_t i = lost; i < 4; i++) {
      const uint8_t kind = i == 3 ? (lost == 3 ? kOpReadResponseOnly : kOpReadResponseLast)
                                  : (i == lost ? kOpReadResponseFirst : kOpReadResponseMiddle);
      rig.arrive(read_response(kind, 0x200 + i, i == 3 ? 232 : 256));
    }
    rig.arrive(ack(0x204, 2));
    EXPECT_THAT(rig.completed(), ElementsAre("read 1: success, 1000 bytes", "send 2: success"));
    for (uint32_t i = 0; i < 1000; i++) ASSERT_EQ(rig.local()[i], payload_byte(0x200 + i / 256, i % 256)) << i;
  }
}

TEST(Requester, AnAckBeyondAReadDoesNotCompleteIt) {
  Rig rig;
  rig.post(rig.read_wr(16, 1));
  rig.post(rig.send_wr(16, 2));
  rig.sent();
  rig.arrive(ack(0x201, 2));
  EXPECT_THAT(rig.completed(), IsEmpty());
  EXPECT_THAT(rig.sent(), ElementsAre("READ_REQUEST 000200 va 1000 len 16 ack", "SEND_ONLY 000201 bytes 16 ack"));
  EXPECT_EQ(rig.counted(), "implied_nak_seq_err 1, retransmits 2");
}

TEST(Requester, ImpliedNakOncePerGap) {
  Rig rig;
  rig.post(rig.read_wr(16, 1));
  for (uint64_t i = 2; i <= 4; i++) rig.post(rig.send_wr(16, i));
  rig.sent();
  for (uint32_t psn = 0x201; psn <= 0x203; psn++) rig.arrive(ack(psn, psn - 0x1ff));
  EXPECT_EQ(rig.counted(), "implied_nak_seq_err 1, retransmits 4");
  EXPECT_EQ(rig.sent().size(), 4u);
  rig.arrive(read_response(kOpReadResponseOnly, 0x200, 16));
  rig.arrive(ack(0x203, 4));
  EXPECT_EQ(rig.completed().size(), 4u);
  // A new gap has a new one.
  rig.post(rig.read_wr(16, 5));
  rig.post(rig.send_wr(16, 6));
  rig.arrive(ack(0x205, 6));
  EXPECT_EQ(rig.counted(), "implied_nak_seq_err 1, retransmits 2");
}

TEST(Requester, AnAtomicWaitsForItsOwnAnswer) {
  Rig rig;
  rig.post(rig.atomic_wr(WrOpcode::kFetchAdd, 1));
  rig.post(rig.send_wr(16, 2));
  rig.sent();
  rig.arrive(ack(0x201, 2));
  EXPECT_THAT(rig.completed(), IsEmpty());
  rig.arrive(atomic_ack(0x200, 77, 1));
  EXPECT_THAT(rig.completed(), ElementsAre("fadd 1: success"));
  uint64_t original = 0;
  std::memcpy(&original, rig.local(), 8);
  EXPECT_EQ(original, 77u);
}

TEST(Requester, AtomicRequestsOnTheWire) {
  Rig rig;
  rig.post(rig.atomic_wr(WrOpcode::kCompareSwap, 1));
  rig.post(rig.atomic_wr(WrOpcode::kFetchAdd, 2));
  const auto frames = rig.sent_frames();
  ASSERT_EQ(frames.size(), 2u);
  PacketView view;
  ASSERT_EQ(parse_frame(frames[0], view), ParseResult::kOk);
  EXPECT_EQ(view.bth.opcode, 0x13);
  EXPECT_EQ(view.atomic_eth().va, 0x1000u);
  EXPECT_EQ(view.atomic_eth().rkey, 0xabcdu);
  EXPECT_EQ(view.atomic_eth().compare, 5u);
  EXPECT_EQ(view.atomic_eth().swap_add, 6u);
  ASSERT_EQ(parse_frame(frames[1], view), ParseResult::kOk);
  EXPECT_EQ(view.bth.opcode, 0x14);
  EXPECT_EQ(view.atomic_eth().swap_add, 5u);
}

// Responses that are wrong.

TEST(Requester, ReadResponseOfTheWrongLength) {
  struct Case {
    uint8_t low;
    uint32_t bytes;
  };
  for (const Case& c : {Case{kOpReadResponseOnly, 15},
                        {kOpReadResponseOnly, 17},
                        {kOpReadResponseOnly, 0},
                        {kOpReadResponseFirst, 256},
                        {kOpReadResponseMiddle, 16}}) {
    Rig rig;
    rig.post(rig.read_wr(16, 1));
    rig.arrive(read_response(c.low, 0x200, c.bytes));
    EXPECT_THAT(rig.completed(), ElementsAre("read 1: bad response"));
    EXPECT_EQ(rig.local()[0], 9);
    EXPECT_EQ(rig.qp().state(), QpState::kErr);
  }
}

TEST(Requester, AResponseToSomethingElse) {
  Rig rig;
  rig.post(rig.send_wr(16, 1));
  rig.arrive(read_response(kOpReadResponseOnly, 0x200, 16));
  rig.arrive(atomic_ack(0x200, 1));
  EXPECT_EQ(rig.counted(), "rx_drop_unexpected_response 2");
  rig.arrive(ack(0x200, 1));
  EXPECT_THAT(rig.completed(), ElementsAre("send 1: success"));
}

TEST(Requester, AnAtomicAnswerToARead) {
  Rig rig;
  rig.post(rig.read_wr(8, 1));
  rig.arrive(atomic_ack(0x200, 1));
  EXPECT_EQ(rig.counted(), "rx_drop_unexpected_response 1");
  EXPECT_EQ(rig.local()[0], 9);
}

TEST(Requester, ResponseThatComesTwice) {
  Rig rig;
  rig.post(rig.read_wr(300, 1));
  rig.arrive({read_response(kOpReadResponseFirst, 0x200, 256), read_response(kOpReadResponseFirst, 0x200, 256),
              read_response(kOpReadResponseLast, 0x201, 44)});
  EXPECT_THAT(rig.completed(), ElementsAre("read 1: success, 300 bytes"));
  EXPECT_EQ(rig.counted(), "rx_drop_ghost_ack 1");
}

// Order and limits.

TEST(Requester, FenceWaitsForReadsAndAtomics) {
  Rig rig;
  rig.post(rig.read_wr(16, 1));
  SendWr fenced = rig.send_wr(16, 2);
  fenced.flags |= kSendFence;
  rig.post(fenced);
  EXPECT_THAT(rig.sent(), ElementsAre("READ_REQUEST 000200 va 1000 len 16 ack"));
  rig.arrive(read_response(kOpReadResponseOnly, 0x200, 16));
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000201 bytes 16 ack"));
}

TEST(Requester, FenceDoesNotWaitForWrites) {
  Rig rig;
  rig.post(rig.write_wr(16, 1));
  SendWr fenced = rig.send_wr(16, 2);
  fenced.flags |= kSendFence;
  rig.post(fenced);
  EXPECT_EQ(rig.sent().size(), 2u);
}

TEST(Requester, FenceHoldsAcrossARetransmission) {
  Rig rig;
  rig.post(rig.read_wr(16, 1));
  SendWr fenced = rig.send_wr(16, 2);
  fenced.flags |= kSendFence;
  rig.post(fenced);
  rig.sent();
  rig.advance(milliseconds(2));
  EXPECT_THAT(rig.sent(), ElementsAre("READ_REQUEST 000200 va 1000 len 16 ack"));
}

TEST(Requester, NoMoreReadsAndAtomicsThanNegotiated) {
  RigOptions options;
  options.attributes.max_rd_atomic = 2;
  Rig rig(options);
  for (uint64_t i = 1; i <= 3; i++) rig.post(rig.read_wr(16, i));
  rig.post(rig.atomic_wr(WrOpcode::kFetchAdd, 4));
  EXPECT_EQ(rig.sent().size(), 2u);
  rig.arrive(read_response(kOpReadResponseOnly, 0x200, 16));
  EXPECT_THAT(rig.sent(), ElementsAre("READ_REQUEST 000202 va 1000 len 16 ack"));
  rig.arrive(read_response(kOpReadResponseOnly, 0x201, 16));
  EXPECT_THAT(rig.sent(), ElementsAre("FETCH_ADD 000203 ack"));
}

/// A READ takes as many sequence numbers as it has responses, and only half of all numbers can be in flight.
TEST(Requester, TheLongestReads) {
  constexpr uint32_t kMax = (1u << 31) - 256;  // at 256 bytes a packet
  for (const uint32_t bytes : {1u << 30, kMax}) {
    Rig rig;
    rig.post(rig.send_wr(4, 1));
    const Sge sge{rig.local_sge(0, 0).addr, bytes, rig.lkey()};
    SendWr wr = rig.read_wr(0, 2);
    wr.sges = &sge;
    ASSERT_EQ(rig.post(wr), PostResult::kOk);
    rig.sent();
    rig.arrive(ack(0x200, 1));
    EXPECT_THAT(rig.sent(), ElementsAre("READ_REQUEST 000201 va 1000 len " + std::to_string(bytes) + " ack"));
    rig.advance(milliseconds(2));
    EXPECT_THAT(rig.sent(), ElementsAre("READ_REQUEST 000201 va 1000 len " + std::to_string(bytes) + " ack"));
  }
  Rig rig;
  const Sge sge{rig.local_sge(0, 0).addr, kMax + 1, rig.lkey()};
  SendWr wr = rig.read_wr(0, 2);
  wr.sges = &sge;
  EXPECT_EQ(rig.post(wr), PostResult::kTooLong);
}

TEST(Requester, WithNoReadsNegotiatedAReadFails) {
  RigOptions options;
  options.attributes.max_rd_atomic = 0;
  Rig rig(options);
  rig.post(rig.send_wr(16, 1));
  rig.post(rig.read_wr(16, 2));
  rig.arrive(ack(0x200, 1));
  const auto done = rig.completed();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0], "send 1: success");
  EXPECT_NE(done[1], "read 2: success, 16 bytes");
  EXPECT_EQ(rig.qp().state(), QpState::kErr);
}

TEST(Requester, PacketsInFlightAreLimited) {
  RigOptions options;
  options.engine.window_packets = 8;
  options.mtu = 256;
  Rig rig(options);
  rig.post(rig.write_wr(256 * 20, 1));
  const auto first = rig.sent();
  ASSERT_EQ(first.size(), 8u);
  // Some packet in the window asked for an ACK, or nothing would go on.
  const auto asks = [](const std::string& line) { return line.find(" ack") != std::string::npos; };
  EXPECT_GE(std::count_if(first.begin(), first.end(), asks), 1);
  rig.arrive(ack(0x203, 0));
  EXPECT_EQ(rig.sent().size(), 4u);
}

TEST(Requester, HowOftenAcksAreAskedForIsAChoice) {
  for (const uint32_t every : {1u, 3u, 32u}) {
    RigOptions options;
    options.engine.ack_every = every;
    options.mtu = 256;
    Rig rig(options);
    rig.post(rig.write_wr(256 * 10, 1));
    const auto sent = rig.sent();
    ASSERT_EQ(sent.size(), 10u);
    for (uint32_t i = 0; i < 10; i++) {
      const bool asks = sent[i].find(" ack") != std::string::npos;
      EXPECT_EQ(asks, (i + 1) % every == 0 || i == 9) << every << ", packet " << i;
    }
  }
}

TEST(Requester, LocalErrorsWaitForTheirTurn) {
  Rig rig;
  rig.post(rig.send_wr(16, 1));
  SendWr bad = rig.send_wr(16, 2);
  Sge sge = *bad.sges;
  sge.lkey ^= 0x100;
  bad.sges = &sge;
  rig.post(bad);
  rig.post(rig.send_wr(16, 3));
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000200 bytes 16 ack"));
  EXPECT_THAT(rig.completed(), IsEmpty());
  EXPECT_EQ(rig.qp().state(), QpState::kRts);
  rig.arrive(ack(0x200, 1));
  EXPECT_THAT(rig.completed(),
              ElementsAre("send 1: success", "send 2: local protection error", "send 3: work request flushed"));
}

TEST(Requester, ALocalErrorInTheMiddleOfAMessage) {
  Rig rig;
  Sge sges[2] = {rig.local_sge(0, 300), rig.local_sge(Rig::kMemoryBytes - 10, 20)};  // the second leaves the region
  SendWr wr = rig.send_wr(0, 1);
  wr.sges = sges;
  wr.num_sge = 2;
  rig.post(wr);
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_FIRST 000200 bytes 256"));
  rig.arrive(ack(0x200, 0));
  EXPECT_THAT(rig.completed(), ElementsAre("send 1: local protection error"));
}

TEST(Requester, AReadIntoMemoryWithoutLocalWrite) {
  Rig rig;
  const uint32_t key = rig.engine().memory().register_region(rig.pd(), rig.local(), 64, rig.local_sge(0, 0).addr, 0);
  const Sge sge{rig.local_sge(0, 0).addr, 16, key};
  SendWr wr = rig.read_wr(16, 1);
  wr.sges = &sge;
  rig.post(wr);
  rig.arrive(read_response(kOpReadResponseOnly, 0x200, 16));
  EXPECT_THAT(rig.completed(), ElementsAre("read 1: local protection error"));
  EXPECT_EQ(rig.local()[0], 9);
}

/// The refusal is not about the READ, whose response is lost; the peer that refused will not send it again.
TEST(Requester, AFatalNakBehindALostResponseIsNotTheHeads) {
  for (const NakCode code : {NakCode::kInvalidRequest, NakCode::kRemoteAccessError, NakCode::kRemoteOperationalError}) {
    Rig rig;
    rig.post(rig.read_wr(16, 1));
    rig.post(rig.write_wr(16, 2));
    rig.sent();
    rig.arrive(nak(0x201, code));
    EXPECT_THAT(rig.completed(), IsEmpty());
    EXPECT_EQ(rig.sent().size(), 2u);
    for (int i = 0; i < 4; i++) rig.advance(milliseconds(10));
    EXPECT_THAT(rig.completed(),
                ElementsAre("read 1: transport retry counter exceeded", "write 2: work request flushed"));
  }
}

TEST(Requester, SequenceNumbersWrap) {
  RigOptions options;
  options.attributes.sq_psn = Psn(0xFFFFFE);
  Rig rig(options);
  rig.post(rig.write_wr(1000, 1));
  EXPECT_THAT(rig.sent(), ElementsAre("WRITE_FIRST fffffe va 1000 len 1000 bytes 256", "WRITE_MIDDLE ffffff bytes 256",
                                      "WRITE_MIDDLE 000000 bytes 256", "WRITE_LAST 000001 bytes 232 ack"));
  rig.arrive(nak(0xFFFFFF, NakCode::kPsnSequenceError));
  EXPECT_EQ(rig.sent().size(), 3u);
  rig.arrive(ack(0xFFFFFE, 0));  // late
  rig.arrive(ack(0x000001, 1));
  EXPECT_THAT(rig.completed(), ElementsAre("write 1: success"));
}

}  // namespace
}  // namespace uroce::test
