// How connections end: by DREQ, with their Id, refused, given up, forgotten by the peer; and what remains of them.

#include <algorithm>
#include <cerrno>
#include <vector>

#include "cm/connection.h"
#include "cm/last_answers.h"
#include "protocol_fixture.h"

namespace uroce::cm::test {
namespace {

class EndingTest : public ProtocolTest {};

TEST_F(EndingTest, ARequestThatIsTakenBackIsForgotten) {
  listen();
  Id* id = connecting();
  Id* child = requested();
  client.cm().destroy_id(id, network.now());
  pass();
  EXPECT_EQ(next(server), "rejected");
  EXPECT_EQ(event.id, child);
  EXPECT_EQ(event.status, 4);
  const ConnParam param = parameters(0x222);
  EXPECT_EQ(server.cm().accept(*child, &param, {}, network.now()), EINVAL);
}

/// As in Linux, a side that gives up refuses no message of the peer's: neither REQ nor REP, but "other".
TEST_F(EndingTest, WhoGivesUpRefusesNoMessage) {
  listen();
  Id* id = connecting();
  lose(Attribute::kRep);
  accept(requested());
  client.cm().destroy_id(id, network.now());
  EXPECT_EQ(decode_rej(last(Attribute::kRej).mad).reason, 4);
  EXPECT_EQ(decode_rej(last(Attribute::kRej).mad).answered, Answered::kOther);
  sent();
  lose(Attribute::kReq);
  connecting();
  network.run_for(nanoseconds(kReqTimeout.ns * 16));
  EXPECT_EQ(decode_rej(last(Attribute::kRej).mad).reason, 4);
  EXPECT_EQ(decode_rej(last(Attribute::kRej).mad).answered, Answered::kOther);
}

/// "In the case of error, a reject message is sent to the remote side", as Linux has it.
TEST_F(EndingTest, WhoFailsToAcceptRejects) {
  listen();
  Id* id = connecting();
  Id* child = requested();
  ConnParam param = parameters(0x222);
  param.private_data.length = kRepPrivateBytes + 1;
  EXPECT_EQ(server.cm().accept(*child, &param, {}, network.now()), EINVAL);
  pass();
  EXPECT_EQ(next(client), "rejected");
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(event.status, 28);
  param.private_data.length = 0;
  EXPECT_EQ(server.cm().accept(*child, &param, {}, network.now()), EINVAL);
}

TEST_F(EndingTest, NobodyAnswersARep) {
  listen();
  Id* id = connecting();
  Id* child = requested();
  lose(Attribute::kRep);
  accept(child);
  sent();
  network.run_for(nanoseconds(kRepTimeout.ns * 16));
  EXPECT_EQ(next(server), "unreachable");
  EXPECT_EQ(event.id, child);
  pass();
  EXPECT_EQ(next(client), "rejected");
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(event.status, 4);
  server.cm().destroy_id(child, network.now());
  client.cm().destroy_id(id, network.now());
  ASSERT_TRUE(network.run_until_quiet(milliseconds(20'000)));
  EXPECT_EQ(server.cm().connection_count(), 0u);
  EXPECT_EQ(client.cm().connection_count(), 0u);
}

/// The same, but the peer got the REP, and its RTUs were lost.
TEST_F(EndingTest, ATimeoutOfARepEndsWhatThePeerBelievedIn) {
  listen();
  Id* id = connecting();
  Id* child = requested();
  lose(Attribute::kRtu);
  accept(child);
  pass();
  ASSERT_EQ(next(client), "response");
  ASSERT_EQ(client.cm().accept(*id, nullptr, {}, network.now()), 0);
  network.run_for(nanoseconds(kRepTimeout.ns * 16));
  EXPECT_EQ(next(server), "unreachable");
  pass();
  EXPECT_EQ(next(client), "rejected");
  EXPECT_EQ(event.status, 4);
}

TEST_F(EndingTest, AReqOfAnEndedConnectionIsNoNewOne) {
  listen();
  const Ends ends = connected();
  const Flying req = last(Attribute::kReq);
  client.cm().disconnect(*ends.active, network.now());
  pass();
  next(server);
  server.cm().disconnect(*ends.passive, network.now());
  sent();
  network.deliver(req);
  EXPECT_EQ(next(server), "");
  EXPECT_EQ(decode_rej(last(Attribute::kRej).mad).reason, 10);
  EXPECT_EQ(server.cm().counters().refused_stale, 1u);
}

TEST_F(EndingTest, TimewaitLastsAsLongAsAPacketMayLive) {
  listen();
  const Ends ends = connected();
  client.cm().disconnect(*ends.active, network.now());
  pass();
  next(server);
  server.cm().disconnect(*ends.passive, network.now());
  const Instant from = network.now();
  EXPECT_EQ(server.cm().next_timeout(), from + nanoseconds(4096 << 17));
  server.cm().destroy_id(ends.passive, network.now());
  EXPECT_EQ(server.cm().connection_count(), 1u);  // in timewait, without its owner
  pass(milliseconds(2'000));
  EXPECT_EQ(next(server), "");
  EXPECT_EQ(server.cm().connection_count(), 0u);
}

TEST_F(EndingTest, AProgramThatEndsTellsItsPeers) {
  listen();
  const Ends ends = connected();
  Id* alone = client.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr);
  EXPECT_EQ(client.cm().hang_up(network.now(), 1), Farewells::kMoreToTell);
  EXPECT_EQ(client.cm().hang_up(network.now(), 1), Farewells::kUnanswered);
  pass();
  EXPECT_EQ(next(server), "disconnected");
  EXPECT_EQ(event.id, ends.passive);
  server.cm().disconnect(*ends.passive, network.now());
  pass();
  EXPECT_EQ(client.cm().hang_up(network.now(), 1), Farewells::kDone);
  EXPECT_EQ(client.cm().disconnect(*alone, network.now()), EINVAL) << "the others are as they were";
}

/// Such as rping, which disconnects, destroys its Id and exits: nothing else would repeat its DREQ.
TEST_F(EndingTest, AProgramThatEndsSaysAgainWhatWasLost) {
  listen();
  const Ends ends = connected();
  lose(Attribute::kDreq);
  client.cm().disconnect(*ends.active, network.now());
  client.cm().destroy_id(ends.active, network.now());
  sent();
  const auto waits = [&] { EXPECT_EQ(client.cm().hang_up(network.now(), 1), Farewells::kUnanswered); };
  waits();
  network.run_for(kFarewellRetry * 3, waits);
  EXPECT_EQ(sent(), std::vector(3, Attribute::kDreq));
  network.passes = nullptr;
  network.run_for(kFarewellRetry * 2);
  EXPECT_EQ(next(server), "disconnected");
  EXPECT_EQ(event.id, ends.passive);
  server.cm().disconnect(*ends.passive, network.now());
  pass();
  EXPECT_EQ(client.cm().hang_up(network.now(), 1), Farewells::kDone);
}

/// Nor its answer to the peer's DREQ: the program has no time to wait until that comes again.
TEST_F(EndingTest, AProgramThatEndsSaysItsLastAnswersAgain) {
  listen();
  const Ends ends = connected();
  lose(Attribute::kDrep);
  server.cm().disconnect(*ends.passive, network.now());
  pass();
  EXPECT_EQ(next(client), "disconnected");
  client.cm().disconnect(*ends.active, network.now());
  client.cm().destroy_id(ends.active, network.now());
  pass(milliseconds(1'000));
  EXPECT_EQ(client.cm().connection_count(), 0u) << "it has forgotten the connection";
  EXPECT_EQ(next(server), "");
  network.passes = nullptr;
  sent();
  EXPECT_EQ(client.cm().hang_up(network.now(), 1), Farewells::kMoreToTell);
  EXPECT_EQ(client.cm().hang_up(network.now(), 1), Farewells::kDone) << "once and for all";
  pass();
  EXPECT_EQ(sent(), std::vector(2, Attribute::kDrep));
  EXPECT_EQ(next(server), "disconnected");
  EXPECT_EQ(event.status, 0);
}

TEST_F(EndingTest, AnAnswerThatIsLongAgoIsNotRepeated) {
  listen();
  const Ends ends = connected();
  server.cm().disconnect(*ends.passive, network.now());
  pass();
  client.cm().disconnect(*ends.active, network.now());
  pass(milliseconds(10'000));
  sent();
  EXPECT_EQ(client.cm().hang_up(network.now(), 1), Farewells::kDone);
  pass();
  EXPECT_EQ(sent(), std::vector<Attribute>{});
}

TEST_F(EndingTest, NobodyAnswersADreq) {
  listen();
  const Ends ends = connected();
  lose(Attribute::kDreq);
  sent();
  client.cm().disconnect(*ends.active, network.now());
  network.run_for(kReqTimeout * 16);
  EXPECT_EQ(sent(), std::vector(16, Attribute::kDreq));
  EXPECT_EQ(next(client), "disconnected");
  EXPECT_EQ(event.status, -ETIMEDOUT);
  pass(milliseconds(2'000));
  EXPECT_EQ(next(client), "timewait-exit");
}

TEST_F(EndingTest, ADreqOfAConnectionThatIsLongGoneIsAnswered) {
  listen();
  const Ends ends = connected();
  server.restart({});  // the program died without a word to its peers
  client.cm().disconnect(*ends.active, network.now());
  pass();
  EXPECT_EQ(next(client), "disconnected");
  EXPECT_EQ(event.status, 0);
}

TEST_F(EndingTest, APeerThatUsesItsQueuePairAnewHasForgottenTheOldConnection) {
  listen();
  const Ends ends = connected();
  client.restart({});
  connecting(0x111);
  pass();
  ASSERT_EQ(next(client), "rejected");
  EXPECT_EQ(event.status, 10);
  EXPECT_EQ(next(client), "");              // timewait: the queue pair may have packets under way
  EXPECT_EQ(next(server), "disconnected");  // the server asked the client, which did not know the connection
  EXPECT_EQ(event.id, ends.passive);
  pass(milliseconds(2'000));
  EXPECT_EQ(next(client), "timewait-exit");
}

TEST_F(EndingTest, WhoOnlySaysThatAQueuePairIsUsedAnewChangesNothing) {
  listen();
  const Ends ends = connected();
  Req req = decode_req(last(Attribute::kReq).mad);
  req.local_id++;
  sent();
  for (int i = 0; i < 3; i++) network.deliver({.src = client.ip(), .dst = server.ip(), .mad = encode(1, req)});
  pass();
  EXPECT_EQ(sent(), (std::vector{Attribute::kRej, Attribute::kRep, Attribute::kRej, Attribute::kRej, Attribute::kRtu}));
  EXPECT_EQ(server.cm().next_timeout(), Instant::never());
  EXPECT_EQ(next(client), "");
  EXPECT_EQ(next(server), "");
  QpSettings settings;
  EXPECT_EQ(server.cm().init_qp_attr(*ends.passive, QpState::kRts, settings), 0);
}

/// As the kernel does, which does not answer a REP that it does not know.
TEST_F(EndingTest, APeerThatDoesNotSayThatItStillHasTheConnectionIsHungUp) {
  listen();
  connected();
  Req req = decode_req(last(Attribute::kReq).mad);
  req.local_id++;
  client.restart({});
  lose(Attribute::kRep);
  sent();
  network.deliver({.src = client.ip(), .dst = server.ip(), .mad = encode(1, req)});
  network.run_for(kRepTimeout * 3);
  EXPECT_EQ(sent(),
            (std::vector{Attribute::kRej, Attribute::kRep, Attribute::kRep, Attribute::kRep, Attribute::kDreq}));
  pass();
  EXPECT_EQ(next(server), "disconnected");
}

TEST_F(EndingTest, AnOtherQueuePairOfThePeerIsAnOtherConnection) {
  listen();
  connected();
  connecting(0x112);
  requested();
  EXPECT_EQ(server.cm().counters().refused_stale, 0u);
}

TEST_F(EndingTest, ALateAcceptOfAPeerThatGaveUpIsRefused) {
  listen();
  Id* id = connecting();
  Id* child = requested();
  lose(Attribute::kRej);
  client.cm().destroy_id(id, network.now());
  pass(milliseconds(20'000));
  network.passes = {};
  accept(child);
  pass();
  EXPECT_EQ(next(server), "rejected");
  EXPECT_EQ(event.status, 6);
  EXPECT_EQ(client.cm().counters().refused_unknown_id, 1u);
}

TEST_F(EndingTest, AListenersChildrenOutliveIt) {
  Id* listener = listen();
  connecting();
  Id* child = requested();
  server.cm().destroy_id(listener, network.now());
  accept(child);
  pass();
  EXPECT_EQ(next(client), "response");
}

TEST_F(EndingTest, WhoIsNotAcceptedIsRejectedWithItsId) {
  listen();
  connecting();
  Id* child = requested();
  server.cm().destroy_id(child, network.now());
  pass();
  EXPECT_EQ(next(client), "rejected");
  EXPECT_EQ(event.status, 28);
}

TEST_F(EndingTest, AnEstablishedConnectionEndsWithItsId) {
  listen();
  const Ends ends = connected();
  lose(Attribute::kDreq);
  client.cm().destroy_id(ends.active, network.now());
  pass(milliseconds(10'000));
  EXPECT_EQ(next(server), "");
  network.passes = {};
  pass(milliseconds(5'000));
  EXPECT_EQ(next(server), "disconnected");
  server.cm().destroy_id(ends.passive, network.now());
  ASSERT_TRUE(network.run_until_quiet(milliseconds(10'000)));
  EXPECT_EQ(client.cm().connection_count(), 0u);
  EXPECT_EQ(server.cm().connection_count(), 0u);
  EXPECT_EQ(next(client), "");
}

TEST_F(EndingTest, AFullBacklogIsAskedAgain) {
  listen();
  server.taken = [](const Event& e) { return e.type != EventType::kConnectRequest; };
  connecting();
  pass();
  EXPECT_EQ(next(client), "");
  EXPECT_EQ(server.cm().connection_count(), 0u);
  EXPECT_EQ(server.cm().counters().drop_backlog_full, 1u);
  server.taken = {};
  network.run_for(kReqTimeout);
  EXPECT_EQ(next(server), "request");
}

/// When the peer has ended the connection itself, a late copy of its request gets no answer.
TEST_F(EndingTest, ALateRequestOfWhoGaveUpGetsNoAnswer) {
  listen();
  Id* const id = connecting();
  accept(requested());
  const Flying req = last(Attribute::kReq);
  ASSERT_EQ(client.cm().reject(*id, {}, 0, network.now()), 0);
  pass();
  ASSERT_EQ(next(server), "rejected");
  sent();
  network.deliver(req);
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(server.cm().counters().duplicates, 1u);
}

TEST_F(EndingTest, AQuestionThatNobodyWaitsForIsNotAskedAgain) {
  network.passes = [](const Flying&) { return false; };
  for (uint32_t i = 0; i < 3; i++) {
    Id* const id = resolved(v4("10.0.0.2", kPort), PortSpace::kUdp, QpType::kUd);
    ASSERT_EQ(client.cm().connect(*id, parameters(0x111), {}, network.now()), 0);
    pass();
    client.cm().destroy_id(id, network.now());
    EXPECT_EQ(client.cm().connection_count(), 0u);
    sent();
    pass(milliseconds(20'000));
    EXPECT_TRUE(sent().empty());
  }
}

TEST_F(EndingTest, WhoseRestIsCutShortIsTold) {
  CmLimits few;
  few.resting_connections = 1;
  client.restart(few);
  listen();
  for (uint32_t i = 0; i < 3; i++) {
    const Ends ends = connected();
    server.cm().disconnect(*ends.passive, network.now());
    pass();
    ASSERT_EQ(next(client), "disconnected");
    client.cm().disconnect(*ends.active, network.now());
    pass();
    EXPECT_EQ(next(client), i == 0 ? "" : "timewait-exit") << "of the one before";
    next(server);
    server.cm().destroy_id(ends.passive, network.now());
  }
}

/// Below the limit, at it and beyond: the newest answers are repeated, oldest first.
TEST(LastAnswersTest, TheNewestAreSaidAgain) {
  for (const uint32_t count : {1u, LastAnswers::kMost - 1, LastAnswers::kMost, LastAnswers::kMost + 1, 100u}) {
    LastAnswers answers;
    for (uint32_t i = 0; i < count; i++) {
      AddressVector av;
      av.flow_label = i;
      answers.note(av, {}, Instant{1});
    }
    std::vector<uint32_t> said;
    const auto say = [&](const AddressVector& av, const MadBytes&) { said.push_back(av.flow_label); };
    const uint32_t kept = std::min(count, LastAnswers::kMost);
    EXPECT_EQ(answers.repeat(Instant{2}, say), kept * LastAnswers::kTimes);
    ASSERT_EQ(said.size(), kept * LastAnswers::kTimes);
    EXPECT_EQ(said.front(), count - kept);
    EXPECT_EQ(said.back(), count - 1);
    EXPECT_EQ(answers.repeat(Instant{2}, say), 0u) << "once and for all";
  }
}

/// A host has room for a few Ids: requests that the program does not take use up none, however many come.
TEST_F(EndingTest, RequestsThatNobodyTakesCostNoIds) {
  CmLimits few;
  few.ids = 3;
  Host& small = network.add_host("small", {"10.0.0.3/24"}, few);
  Id* const listener = small.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr);
  ASSERT_EQ(small.cm().bind(*listener, v4("0.0.0.0", kPort)), 0);
  ASSERT_EQ(small.cm().listen(*listener, 10), 0);
  small.taken = [](const Event& e) { return e.type != EventType::kConnectRequest; };
  for (uint32_t i = 0; i < 5; i++) {
    Id* const id = resolved(v4("10.0.0.3", kPort));
    ASSERT_EQ(client.cm().connect(*id, parameters(0x100 + i), {}, network.now()), 0);
    pass();
    client.cm().destroy_id(id, network.now());
    pass();
  }
  EXPECT_EQ(small.cm().counters().drop_backlog_full, 5u);
  EXPECT_NE(small.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr), nullptr);
  EXPECT_NE(small.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr), nullptr);
  EXPECT_EQ(small.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr), nullptr) << "three are all";
}

}  // namespace
}  // namespace uroce::cm::test
