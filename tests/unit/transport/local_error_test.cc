// A completion never lies: what fails in the middle of the send queue, and what becomes of everything around it.
#include <gmock/gmock.h>

#include <functional>

#include "rig.h"
#include "transport/qp_events.h"

namespace uroce::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// One program in many variants: a good request, one of 40 packets of which ten can be sent, and others behind it.

constexpr uint32_t kGood = 0x200;        // the first request's packet
constexpr uint32_t kBad = 0x201;         // the second's first packet
constexpr uint32_t kLastSent = 0x20a;    // the last of it that could be built
constexpr uint32_t kBehind = kBad + 40;  // the first packet of the third

struct Answer {
  const char* name;
  std::function<Packet()> packet;
  const char* verdict;  // on the second request, in the end
};

const Answer kAnswers[] = {
    {"an ACK of the good one", [] { return ack(kGood, 1); }, "local protection error"},
    {"an ACK in the middle", [] { return ack(kBad + 3, 1); }, "local protection error"},
    {"an ACK of all that was sent", [] { return ack(kLastSent, 1); }, "local protection error"},
    {"a sequence error at once", [] { return nak(kBad, NakCode::kPsnSequenceError, 1); }, "local protection error"},
    {"a sequence error", [] { return nak(kBad + 3, NakCode::kPsnSequenceError, 1); }, "local protection error"},
    {"not ready", [] { return rnr_nak(kBad, 1, 1); }, "local protection error"},
    {"not ready in the middle", [] { return rnr_nak(kBad + 3, 1, 1); }, "local protection error"},
    {"a refused key", [] { return nak(kBad + 3, NakCode::kRemoteAccessError, 1); }, "remote access error"},
    {"a refused request", [] { return nak(kLastSent, NakCode::kInvalidRequest, 1); }, "remote invalid request"},
    {"a selective ACK",
     [] {
       return sack(kGood, 1, {{kBad + 2, kBad + 5}});
     },
     "local protection error"},
    {"a selective ACK of all", [] { return sack(kLastSent, 1, {}); }, "local protection error"},
    {"a READ response from nowhere", [] { return read_response(kOpReadResponseOnly, kLastSent, 4, 1); },
     "local protection error"},
    {"an atomic response from nowhere", [] { return atomic_ack(kLastSent, 7, 1); }, "local protection error"},
    {"a READ response behind", [] { return read_response(kOpReadResponseOnly, kBehind, 4, 1); },
     "local protection error"},
};

const std::vector<std::vector<WrOpcode>> kTails = {
    {},
    {WrOpcode::kSend},
    {WrOpcode::kRdmaRead},
    {WrOpcode::kFetchAdd},
    {WrOpcode::kRdmaWrite, WrOpcode::kRdmaRead},
    {WrOpcode::kRdmaRead, WrOpcode::kSend, WrOpcode::kCompareSwap},
    {WrOpcode::kSend, WrOpcode::kSend, WrOpcode::kSend, WrOpcode::kSend},
};

enum class Signals : bool { kNone, kAll };

struct Shape {
  LossRecovery recovery;
  WrOpcode good;
  Signals signals;
};

class BadElement {
 public:
  explicit BadElement(const Shape& shape) : shape_(shape), rig_(options(shape)) {}

  /// Posts all requests; ten packets of the bad one leave.
  void post(const std::vector<WrOpcode>& tail) {
    SendWr good = rig_.write_wr(4, 1);
    good.opcode = shape_.good;
    post(good);
    const Sge sges[2] = {rig_.local_sge(0, 2560), {rig_.local_sge(0, 0).addr, 7680, rig_.lkey() ^ 0x100}};
    SendWr bad = rig_.write_wr(0, 2);
    bad.sges = sges;
    bad.num_sge = 2;
    post(bad);
    for (const WrOpcode opcode : tail) {
      SendWr wr = rig_.write_wr(8, ++posted_);
      wr.opcode = opcode;
      post(wr);
    }
    EXPECT_EQ(rig_.sent().size(), 11u);
  }

  /// Missing answers arrive, or time runs out.
  std::vector<std::string> finish() {
    std::vector<std::string> lines = rig_.completed();
    for (int i = 0; i < 100 && rig_.qp().state() != QpState::kErr; i++) {
      rig_.arrive(nak(kBad, NakCode::kPsnSequenceError, 1));
      rig_.advance(milliseconds(1));
      for (std::string& line : rig_.completed()) lines.push_back(std::move(line));
    }
    return lines;
  }

  Rig& rig() { return rig_; }
  uint64_t posted() const { return posted_; }

 private:
  static RigOptions options(const Shape& shape) {
    RigOptions options;
    options.engine.loss_recovery = shape.recovery;
    options.sq_sig_all = shape.signals == Signals::kAll;
    return options;
  }
  void post(SendWr wr) {
    wr.flags = 0;
    EXPECT_EQ(rig_.post(wr), PostResult::kOk);
  }

  Shape shape_;
  Rig rig_;
  uint64_t posted_ = 2;
};

class LocalError : public testing::TestWithParam<Shape> {};

TEST_P(LocalError, EndsTheQueueWhateverIsAnswered) {
  for (const Answer& answer : kAnswers) {
    for (size_t tail = 0; tail < kTails.size(); tail++) {
      SCOPED_TRACE(std::string(answer.name) + ", tail " + std::to_string(tail));
      BadElement program(GetParam());
      program.post(kTails[tail]);
      program.rig().arrive(answer.packet());
      const std::vector<std::string> lines = program.finish();
      ASSERT_EQ(program.rig().qp().state(), QpState::kErr);
      EXPECT_EQ(program.rig().qp().send_queue().ring().size(), 0u);
      const bool signalled = GetParam().signals == Signals::kAll;
      ASSERT_EQ(lines.size(), (signalled ? 1 : 0) + program.posted() - 1);
      size_t at = 0;
      if (signalled) {
        EXPECT_THAT(lines[at++], HasSubstr(" 1: success"));
      }
      EXPECT_EQ(lines[at++], std::string("write 2: ") + answer.verdict);
      for (uint64_t id = 3; id <= program.posted(); id++) {
        EXPECT_THAT(lines[at++], HasSubstr(" " + std::to_string(id) + ": work request flushed"));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LocalError,
                         testing::Values(Shape{LossRecovery::kGoBackN, WrOpcode::kRdmaWrite, Signals::kAll},
                                         Shape{LossRecovery::kGoBackN, WrOpcode::kSend, Signals::kNone},
                                         Shape{LossRecovery::kSelective, WrOpcode::kRdmaWrite, Signals::kAll},
                                         Shape{LossRecovery::kSelective, WrOpcode::kSend, Signals::kNone}));

// Requests before the error that need answers of their own.

TEST(LocalErrors, WaitForTheResponsesBeforeThem) {
  for (const LossRecovery recovery : {LossRecovery::kGoBackN, LossRecovery::kSelective}) {
    RigOptions options;
    options.engine.loss_recovery = recovery;
    Rig rig(options);
    rig.post(rig.read_wr(4, 1));
    rig.post(rig.atomic_wr(WrOpcode::kFetchAdd, 2));
    SendWr bad = rig.send_wr(4, 3);
    const Sge sge{bad.sges->addr, 4, rig.lkey() ^ 0x100};
    bad.sges = &sge;
    rig.post(bad);
    rig.post(rig.read_wr(4, 4));
    EXPECT_EQ(rig.sent().size(), 2u);
    rig.arrive(read_response(kOpReadResponseOnly, 0x200, 4, 1));
    EXPECT_THAT(rig.completed(), ElementsAre("read 1: success, 4 bytes"));
    rig.arrive(atomic_ack(0x201, 7, 2));
    EXPECT_THAT(rig.completed(),
                ElementsAre("fadd 2: success", "send 3: local protection error", "read 4: work request flushed"));
  }
}

/// The responses arrived out of order and are taken from the buffer in turn: the first one finds memory that may no
/// longer be written.
TEST(LocalErrors, HeldResponsesEndWithTheFirstThatFails) {
  RigOptions options;
  options.engine.loss_recovery = LossRecovery::kSelective;
  Rig rig(options);
  const Sge sges[] = {rig.local_sge(0, 4), {rig.local_sge(0, 0).addr, 4, rig.lkey() ^ 0x100}, rig.local_sge(8, 4)};
  for (uint64_t id = 1; id <= 3; id++) {
    SendWr wr = rig.read_wr(4, id);
    wr.sges = &sges[id - 1];
    rig.post(wr);
  }
  rig.arrive(read_response(kOpReadResponseOnly, 0x202, 4, 3));
  rig.arrive(read_response(kOpReadResponseOnly, 0x201, 4, 2));
  EXPECT_THAT(rig.completed(), IsEmpty());
  rig.arrive(read_response(kOpReadResponseOnly, 0x200, 4, 1));
  EXPECT_THAT(rig.completed(), ElementsAre("read 1: success, 4 bytes", "read 2: local protection error",
                                           "read 3: work request flushed"));
}

TEST(LocalErrors, OfALocalOperationBetweenOthers) {
  Rig rig;
  rig.post(rig.write_wr(4, 1));
  SendWr invalidate;
  invalidate.wr_id = 2;
  invalidate.opcode = WrOpcode::kLocalInv;
  invalidate.imm_or_rkey = 0xdead;
  rig.post(invalidate);
  rig.post(rig.send_wr(4, 3));
  EXPECT_EQ(rig.sent().size(), 1u);
  rig.arrive(ack(0x200, 1));
  EXPECT_THAT(rig.completed(),
              ElementsAre("write 1: success", "inv 2: memory management error", "send 3: work request flushed"));
  EXPECT_THAT(rig.sent(), IsEmpty());
}

// Nothing is sent behind a failure, although the QP enters the error state only at the end of the call.

TEST(LocalErrors, NothingIsSentBehindThemInTheSameTurn) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    RigOptions options;
    options.type = type;
    Rig rig(options);
    SendWr bad;
    bad.wr_id = 1;
    bad.opcode = WrOpcode::kLocalInv;
    bad.imm_or_rkey = 0xdead;
    const SendWr good = rig.send_wr(4, 2);
    rig.engine().post_send(rig.qp(), bad, rig.now());
    rig.engine().post_send(rig.qp(), good, rig.now());
    rig.turn();
    EXPECT_THAT(rig.sent(), IsEmpty()) << qp_type_name(type);
    EXPECT_THAT(rig.completed(), ElementsAre("inv 1: memory management error", "send 2: work request flushed"));
  }
}

/// The responder sends its pending answer between two attempts of the requester.
TEST(LocalErrors, NothingIsSentBehindThemBetweenAnswers) {
  Rig rig;
  SendWr bad = rig.send_wr(4, 1);
  const Sge sge{bad.sges->addr, 4, rig.lkey() ^ 0x100};
  bad.sges = &sge;
  rig.engine().post_send(rig.qp(), bad, rig.now());
  rig.engine().post_send(rig.qp(), rig.send_wr(4, 2), rig.now());
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), 4));
  EXPECT_THAT(rig.sent(), ElementsAre("READ_RESPONSE_ONLY 000100 msn 1 bytes 4"));
  EXPECT_THAT(rig.completed(), ElementsAre("send 1: local protection error", "send 2: work request flushed"));
}

// A completion queue overflows in the middle of an ACK.

TEST(Overflow, NothingCompletesBehindALostCompletion) {
  for (const LossRecovery recovery : {LossRecovery::kGoBackN, LossRecovery::kSelective}) {
    RigOptions options;
    options.engine.loss_recovery = recovery;
    options.cq_capacity = 2;
    Rig rig(options);
    for (uint64_t id = 1; id <= 5; id++) rig.post(rig.write_wr(4, id));
    rig.post(rig.read_wr(4, 6));
    rig.arrive(nak(0x204, NakCode::kRemoteAccessError, 4));
    EXPECT_THAT(rig.completed(), ElementsAre("write 1: success", "write 2: success"));
    EXPECT_EQ(rig.qp().state(), QpState::kErr);
    EXPECT_THAT(rig.events(), Contains("fatal"));
    EXPECT_EQ(rig.qp().send_queue().ring().size(), 0u);
    EXPECT_EQ(rig.observer().cq_errors.size(), 1u);
  }
}

/// The peer must not believe a message delivered whose completion the program will never see.
TEST(Overflow, AMessageWithoutACompletionIsNotAcknowledged) {
  RigOptions options;
  options.cq_capacity = 1;
  Rig rig(options);
  for (uint64_t id = 1; id <= 3; id++) rig.receive(id);
  rig.arrive(send(kOpSendOnly, 0x100, 4));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 1"));
  rig.arrive(send(kOpSendOnly, 0x101, 4));
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000101 remote operational error msn 1"));
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: success, 4 bytes"));
  EXPECT_EQ(rig.qp().state(), QpState::kErr);
  EXPECT_THAT(rig.events(), ElementsAre("fatal"));
}

/// A NAK was sent, so the program is told its cause, although the peer did nothing wrong.
TEST(Overflow, TheFullQueueIsTheCauseOfTheNak) {
  RigOptions options;
  options.cq_capacity = 1;
  Rig rig(options);
  for (uint64_t id = 1; id <= 2; id++) rig.receive(id);
  rig.arrive(send(kOpSendOnly, 0x100, 4));
  EXPECT_TRUE(rig.observer().responder_errors.empty());
  rig.arrive(send(kOpSendOnly, 0x101, 4));
  ASSERT_EQ(rig.observer().responder_errors.size(), 1u);
  EXPECT_EQ(rig.observer().responder_errors[0].cause, Cause::kCqOverrun);
  ASSERT_TRUE(rig.qp().first_error());
  EXPECT_EQ(rig.qp().first_error()->cause, Cause::kCqOverrun);
}

TEST(Overflow, EveryQpThatLosesACompletionSaysSo) {
  RigOptions options;
  options.type = QpType::kUc;
  options.cq_capacity = 1;
  Rig rig(options);
  rig.post(rig.write_wr(4, 1));
  rig.post(rig.write_wr(4, 2));
  EXPECT_EQ(rig.qp().state(), QpState::kErr);
  EXPECT_THAT(rig.events(), ElementsAre("fatal"));
  rig.post(rig.write_wr(4, 3));  // flushed, and lost, too: the queue has reported that already
  EXPECT_THAT(rig.events(), IsEmpty());
}

}  // namespace
}  // namespace uroce::test
