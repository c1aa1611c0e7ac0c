// Timelines of the protocol: what is repeated when, and what a datagram changes in which state.

#include <array>
#include <cerrno>

#include "captured_mads.h"
#include "protocol_fixture.h"

namespace uroce::cm::test {
namespace {

TEST_F(ProtocolTest, AReqIsRepeatedFifteenTimes) {
  listen();
  lose(Attribute::kReq);
  Id* id = connecting();
  EXPECT_EQ(client.cm().next_timeout(), network.now() + kReqTimeout);
  network.run_for(nanoseconds(kReqTimeout.ns * 16 - 1));
  EXPECT_EQ(sent(), std::vector(16, Attribute::kReq));
  EXPECT_EQ(next(client), "");
  network.run_for(nanoseconds(1));
  EXPECT_EQ(next(client), "unreachable");
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(event.status, -ETIMEDOUT);
  EXPECT_EQ(client.cm().counters().retries, 15u);
  EXPECT_EQ(client.cm().counters().timeouts, 1u);
  // A peer that did get one of them finds the connection by our GUID, since it has told us no ID.
  const Rej rej = decode_rej(last(Attribute::kRej).mad);
  EXPECT_EQ(rej.reason, 4);
  EXPECT_EQ(rej.ari_length, 8);
  EXPECT_EQ(rej.remote_id, 0u);
}

TEST_F(ProtocolTest, AnIdThatIsInUseIsNotDrawnAgain) {
  listen();
  client.next_ids = {0, 77, 77, 0, 78};
  connecting(0x111);
  EXPECT_EQ(decode_req(network.sent.back().mad).local_id, 77u);
  connecting(0x112);
  EXPECT_EQ(decode_req(network.sent.back().mad).local_id, 78u);
}

TEST_F(ProtocolTest, ARepIsRepeatedAsThePeerAskedAndTheRtuIsRepeatedForIt) {
  listen();
  Id* id = connecting();
  Id* child = requested();
  lose(Attribute::kRtu);
  accept(child);
  pass();
  ASSERT_EQ(next(client), "response");
  ASSERT_EQ(client.cm().accept(*id, nullptr, {}, network.now()), 0);
  sent();
  network.run_for(kRepTimeout * 2);
  EXPECT_EQ(sent(), (std::vector{Attribute::kRep, Attribute::kRtu, Attribute::kRep, Attribute::kRtu}));
  EXPECT_EQ(next(server), "");
  network.passes = {};
  network.run_for(kRepTimeout);
  EXPECT_EQ(next(server), "established");
  EXPECT_EQ(next(client), "");
  EXPECT_EQ(client.cm().counters().duplicates, 3u);
}

/// As in Linux, an accept that is refused rejects the request, even one accepted before.
TEST_F(ProtocolTest, AnAcceptThatComesTwiceRejects) {
  listen();
  connecting();
  Id* child = requested();
  accept(child, 0x222);
  const ConnParam other = parameters(0x223);
  EXPECT_EQ(server.cm().accept(*child, &other, {}, network.now()), EINVAL);
  pass();
  ASSERT_EQ(next(client), "response");
  EXPECT_EQ(event.connection.qpn, 0x222u);
  EXPECT_EQ(next(client), "rejected");
  EXPECT_EQ(event.status, 28);
  for (const uint32_t qpn : {0x222, 0x223}) server.cm().on_communication_established(qpn, network.now());
  EXPECT_EQ(next(server), "");
}

TEST_F(ProtocolTest, DataOfAQueuePairThatIsGoneEstablishesNothing) {
  listen();
  Id* id = connecting();
  Id* child = requested();
  accept(child, 0x222);
  pass();
  ASSERT_EQ(next(client), "response");
  ASSERT_EQ(client.cm().accept(*id, nullptr, {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(server), "established");
  server.cm().destroy_id(child, network.now());
  pass(milliseconds(100'000));
  server.cm().on_communication_established(0x222, network.now());
  EXPECT_EQ(server.cm().counters().established_by_data, 0u);
}

/// The time that a packet and its acknowledgement take: code 16 each way, and the peer's delay.
TEST_F(ProtocolTest, AcknowledgementsMayTakeAsLongAsThePeerSays) {
  listen();
  uint32_t qpn = 0x111;
  for (const auto& [delay, timeout] :
       std::map<uint8_t, uint8_t>{{0, 17}, {15, 17}, {16, 18}, {17, 18}, {18, 19}, {20, 20}, {31, 31}}) {
    network.passes = {};
    Id* id = connecting(qpn);
    Id* child = requested();
    network.passes = [](const Flying&) { return false; };
    accept(child, ++qpn);
    Flying flying = last(Attribute::kRep);
    flying.mad[24 + 26] = static_cast<uint8_t>(delay << 3);
    network.deliver(flying);
    ASSERT_EQ(next(client), "response");
    QpSettings settings;
    ASSERT_EQ(client.cm().init_qp_attr(*id, QpState::kRts, settings), 0);
    EXPECT_EQ(settings.attributes.timeout, timeout) << int{delay};
  }
}

/// The queue pair's number belongs to another request by then.
TEST_F(ProtocolTest, WhoeverWaitsNowIsEstablishedByData) {
  listen();
  connecting(0x111);
  Id* first = requested();
  accept(first, 0x222);
  connecting(0x112);
  Id* second = requested();
  accept(second, 0x222);
  ASSERT_EQ(server.cm().reject(*first, {}, 0, network.now()), 0);
  server.cm().on_communication_established(0x222, network.now());
  EXPECT_EQ(next(server), "established");
  EXPECT_EQ(event.id, second);
}

TEST_F(ProtocolTest, WhoServesNoReadsGivesNoRightTo) {
  listen();
  for (const uint8_t reads : {uint8_t{0}, uint8_t{1}, uint8_t{3}}) {
    Id* id = resolved();
    ConnParam param = parameters(uint32_t{0x111} + reads);
    param.responder_resources = reads;
    ASSERT_EQ(client.cm().connect(*id, param, {}, network.now()), 0);
    QpSettings settings;
    ASSERT_EQ(client.cm().init_qp_attr(*id, QpState::kInit, settings), 0);
    EXPECT_EQ(settings.attributes.access,
              uint32_t{kRemoteWrite} | (reads == 0 ? 0u : uint32_t{kRemoteRead} | uint32_t{kRemoteAtomic}));
  }
}

TEST_F(ProtocolTest, DataEstablishesWhenTheRtuIsLost) {
  listen();
  Id* id = connecting();
  Id* child = requested();
  accept(child);
  pass();
  ASSERT_EQ(next(client), "response");
  lose(Attribute::kRtu);
  ASSERT_EQ(client.cm().accept(*id, nullptr, {}, network.now()), 0);
  server.cm().on_communication_established(0x333, network.now());
  EXPECT_EQ(next(server), "");
  server.cm().on_communication_established(0x222, network.now());
  EXPECT_EQ(next(server), "established");
  EXPECT_EQ(event.id, child);
  server.cm().on_communication_established(0x222, network.now());
  EXPECT_EQ(next(server), "");
  EXPECT_EQ(server.cm().notify(*child, kEventCommEst, network.now()), EISCONN);
  EXPECT_EQ(server.cm().counters().established_by_data, 1u);
  network.deliver(last(Attribute::kRtu));  // late
  EXPECT_EQ(next(server), "");
  EXPECT_EQ(server.cm().next_timeout(), Instant::never());
}

TEST_F(ProtocolTest, AProgramMayNotifyByItself) {
  listen();
  connecting();
  Id* child = requested();
  EXPECT_EQ(server.cm().notify(*child, kEventCommEst, network.now()), EINVAL);
  accept(child);
  EXPECT_EQ(server.cm().notify(*child, 5, network.now()), EINVAL);
  EXPECT_EQ(server.cm().notify(*child, kEventCommEst, network.now()), 0);
  EXPECT_EQ(next(server), "established");
}

TEST_F(ProtocolTest, WhoTakesLongToAcceptSaysSo) {
  listen();
  Id* id = connecting();
  Id* child = requested();
  sent();
  network.run_for(kReqTimeout);  // the REQ comes again
  EXPECT_EQ(decode_mra(last(Attribute::kMra).mad).service_timeout, 24);
  EXPECT_EQ(sent(), (std::vector{Attribute::kReq, Attribute::kMra}));
  network.run_for(milliseconds(60'000));  // MRA: 68.7 s
  EXPECT_EQ(sent(), std::vector<Attribute>{});
  accept(child);
  pass();
  EXPECT_EQ(next(client), "response");
  EXPECT_EQ(next(server), "");
  sent();
  network.run_for(kRepTimeout);  // the same the other way round
  EXPECT_EQ(sent(), (std::vector{Attribute::kRep, Attribute::kMra}));
  network.run_for(milliseconds(60'000));
  ASSERT_EQ(client.cm().accept(*id, nullptr, {}, network.now()), 0);
  pass();
  EXPECT_EQ(next(server), "established");
}

TEST_F(ProtocolTest, OnlyThePeerMayAskForMoreTime) {
  listen();
  connecting();
  Id* child = requested();
  lose(Attribute::kRep);
  accept(child);
  const Rep rep = decode_rep(last(Attribute::kRep).mad);
  const Instant due = server.cm().next_timeout();
  const auto arrives = [&](uint32_t from, Answered answered) {
    const Mra mra{rep.remote_id + from, rep.local_id, answered, 30};
    network.deliver({.src = client.ip(), .dst = server.ip(), .mad = encode(1, mra)});
  };
  arrives(1, Answered::kRep);
  arrives(0, Answered::kReq);
  EXPECT_EQ(server.cm().next_timeout(), due);
  arrives(0, Answered::kRep);
  EXPECT_EQ(server.cm().next_timeout(), network.now() + nanoseconds((int64_t{4096} << 26) + kRepTimeout.ns));
}

TEST_F(ProtocolTest, RepetitionsChangeNothing) {
  listen();
  const Ends ends = connected();
  for (const Flying& flying : std::vector(network.sent)) network.deliver(flying);
  pass(milliseconds(10'000));
  EXPECT_EQ(next(client), "");
  EXPECT_EQ(next(server), "");
  ASSERT_EQ(client.cm().disconnect(*ends.active, network.now()), 0);
  pass();
  ASSERT_EQ(next(server), "disconnected");
  network.deliver(last(Attribute::kDreq));
  EXPECT_EQ(next(server), "");
  ASSERT_EQ(server.cm().disconnect(*ends.passive, network.now()), 0);
  pass();
  ASSERT_EQ(next(client), "disconnected");
  sent();
  pass(milliseconds(20'000));
  EXPECT_EQ(next(client), "timewait-exit");
  EXPECT_EQ(next(server), "timewait-exit");
  EXPECT_EQ(sent(), std::vector<Attribute>{});
}

TEST_F(ProtocolTest, OtherPathsAreRefused) {
  listen();
  connected();
  const Rep rep = decode_rep(last(Attribute::kRep).mad);
  MadBytes lap = from_hex(
      "01070203000000000000000000000007"
      "0019000000000000");
  std::copy_n(last(Attribute::kRtu).mad.begin() + 24, 8, lap.begin() + 24);  // both IDs, of the client
  lap[24 + 13] = 0x02;
  lap[24 + 14] = 0x22;
  network.deliver({.src = client.ip(), .dst = server.ip(), .mad = lap});
  const Flying answer = last(Attribute::kApr);
  const Apr apr = decode_apr(answer.mad);
  EXPECT_EQ(apr.local_id, rep.local_id);
  EXPECT_EQ(apr.remote_id, rep.remote_id);
  EXPECT_EQ(apr.status, 2);
  EXPECT_EQ(answer.mad[15], 7);  // the transaction
  EXPECT_EQ(server.cm().counters().path_changes_refused, 1u);
}

TEST_F(ProtocolTest, AnAlternatePathIsNotTaken) {
  listen();
  network.passes = [](const Flying&) { return false; };
  connecting();
  MadBytes mad = network.sent.back().mad;
  network.passes = {};
  mad[24 + 96] = 0xff;  // its LID
  network.deliver({.src = client.ip(), .dst = server.ip(), .mad = mad});
  accept(requested());
  EXPECT_EQ(decode_rep(last(Attribute::kRep).mad).failover_accepted, 1);
}

TEST_F(ProtocolTest, EnhancedConnectionEstablishmentIsHandedOn) {
  listen();
  Id* id = resolved();
  ASSERT_EQ(client.cm().connect(*id, parameters(0x111), {.vendor_id = 0x15b3, .attr_mod = 0x1c}, network.now()), 0);
  Id* child = requested();
  EXPECT_EQ(event.ece.vendor_id, 0x15b3u);
  EXPECT_EQ(event.ece.attr_mod, 0x1cu);
  const ConnParam param = parameters(0x222);
  ASSERT_EQ(server.cm().accept(*child, &param, {.vendor_id = 0x15b3, .attr_mod = 0x0c}, network.now()), 0);
  pass();
  ASSERT_EQ(next(client), "response");
  EXPECT_EQ(event.ece.vendor_id, 0x15b3u);
  EXPECT_EQ(event.ece.attr_mod, 0x0cu);
}

TEST_F(ProtocolTest, EveryParameterIsHandedOn) {
  listen();
  Id* id = resolved();
  ConnParam param = parameters(0x111);
  param.flow_control = 1;
  param.srq = true;
  param.retry_count = 9;  // three bits on the wire
  param.rnr_retry_count = 2;
  ASSERT_EQ(client.cm().connect(*id, param, {}, network.now()), 0);
  Id* child = requested();
  EXPECT_EQ(event.connection.flow_control, 1);
  EXPECT_TRUE(event.connection.srq);
  EXPECT_EQ(event.connection.retry_count, 7);
  EXPECT_EQ(event.connection.rnr_retry_count, 2);
  QpSettings settings;
  ASSERT_EQ(server.cm().init_qp_attr(*child, QpState::kRts, settings), 0);
  EXPECT_EQ(settings.attributes.retry_cnt, 7);
  EXPECT_EQ(settings.attributes.rnr_retry, 2);
  EXPECT_EQ(settings.attributes.max_rd_atomic, 3);
  ASSERT_EQ(server.cm().init_qp_attr(*child, QpState::kRtr, settings), 0);
  EXPECT_EQ(settings.attributes.max_dest_rd_atomic, 5);
  ConnParam answer = parameters(0x222);
  answer.flow_control = 1;
  answer.srq = true;
  answer.rnr_retry_count = 4;
  answer.responder_resources = 2;
  answer.initiator_depth = 1;
  ASSERT_EQ(server.cm().accept(*child, &answer, {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(client), "response");
  EXPECT_EQ(event.connection.flow_control, 1);
  EXPECT_TRUE(event.connection.srq);
  EXPECT_EQ(event.connection.rnr_retry_count, 4);
  EXPECT_EQ(event.connection.responder_resources, 1);
  EXPECT_EQ(event.connection.initiator_depth, 2);
  ASSERT_EQ(client.cm().init_qp_attr(*id, QpState::kRts, settings), 0);
  EXPECT_EQ(settings.attributes.rnr_retry, 4);
  EXPECT_EQ(settings.attributes.max_rd_atomic, 2);
  ASSERT_EQ(client.cm().init_qp_attr(*id, QpState::kRtr, settings), 0);
  EXPECT_EQ(settings.attributes.max_dest_rd_atomic, 1);
  ASSERT_EQ(server.cm().init_qp_attr(*child, QpState::kRtr, settings), 0);
  EXPECT_EQ(settings.attributes.max_dest_rd_atomic, 2) << "what the program said last";
}

/// A peer that gives up after some repetitions waits between them as long as with a kernel; one that never gives up is
/// asked soon. At RTR the passive side has not said yet what it allows, and takes what its peer said.
TEST_F(ProtocolTest, APeerThatCountsItsRepetitionsIsGivenTheTimeOfTheKernel) {
  listen();
  for (const uint8_t count : std::array<uint8_t, 3>{0, 6, 7}) {
    Id* id = resolved();
    ConnParam param = parameters(0x100u + count);
    param.rnr_retry_count = count;
    ASSERT_EQ(client.cm().connect(*id, param, {}, network.now()), 0);
    Id* child = requested();
    QpSettings settings;
    ASSERT_EQ(server.cm().init_qp_attr(*child, QpState::kRtr, settings), 0);
    const uint8_t expected = count == 7 ? 12 : 0;
    EXPECT_EQ(settings.attributes.min_rnr_timer, expected) << int{count};
    ConnParam answer = parameters(0x200u + count);
    answer.rnr_retry_count = 1;
    ASSERT_EQ(server.cm().accept(*child, &answer, {}, network.now()), 0);
    pass();
    ASSERT_EQ(next(client), "response");
    ASSERT_EQ(client.cm().init_qp_attr(*id, QpState::kRtr, settings), 0);
    EXPECT_EQ(settings.attributes.min_rnr_timer, expected) << "what this side told its peer: " << int{count};
  }
}

TEST_F(ProtocolTest, AVendorsOptionIsRefused) {
  listen();
  connecting();
  Id* child = requested();
  EXPECT_EQ(server.cm().reject(*child, {}, 35, network.now()), 0);
  pass();
  EXPECT_EQ(next(client), "rejected");
  EXPECT_EQ(event.status, 35);
}

TEST_F(ProtocolTest, AnAnsweredSidrIsAnsweredAgain) {
  listen(v4("0.0.0.0", kPort), PortSpace::kUdp, QpType::kUd);
  Id* id = resolved(v4("10.0.0.2", kPort), PortSpace::kUdp, QpType::kUd);
  lose(Attribute::kSidrRep);
  ASSERT_EQ(client.cm().connect(*id, parameters(0), {}, network.now()), 0);
  Id* child = requested();
  accept(child, 0x333);
  server.cm().destroy_id(child, network.now());
  network.passes = {};
  network.run_for(kRepTimeout);
  EXPECT_EQ(next(client), "established");
  EXPECT_EQ(next(server), "") << "one request";
}

TEST_F(ProtocolTest, SidrIsRefused) {
  Id* id = resolved(v4("10.0.0.2", kPort), PortSpace::kUdp, QpType::kUd);
  ASSERT_EQ(client.cm().connect(*id, parameters(0), {}, network.now()), 0);
  pass(milliseconds(1000));
  EXPECT_EQ(next(client), "unreachable");
  EXPECT_EQ(event.status, 1);  // no program listens on this service
  listen(v4("0.0.0.0", kPort), PortSpace::kUdp, QpType::kUd);
  id = resolved(v4("10.0.0.2", kPort), PortSpace::kUdp, QpType::kUd);
  ASSERT_EQ(client.cm().connect(*id, parameters(0), {}, network.now()), 0);
  Id* child = requested();
  const PrivateData big = parameters(0, std::string(137, 'x')).private_data;
  const PrivateData fits = parameters(0, std::string(136, 'x')).private_data;
  EXPECT_EQ(server.cm().reject(*child, big, 28, network.now()), EINVAL);
  EXPECT_EQ(server.cm().reject(*child, fits, 28, network.now()), 0);
  pass();
  EXPECT_EQ(next(client), "unreachable");
  EXPECT_EQ(event.status, 2);
}

TEST_F(ProtocolTest, ARequestWithAnOtherServiceThanTheListenerHas) {
  listen(v4("0.0.0.0", kPort), PortSpace::kTcp, QpType::kUc);
  connecting();
  pass();
  EXPECT_EQ(next(client), "rejected");
  EXPECT_EQ(event.status, 9);
}

}  // namespace
}  // namespace uroce::cm::test
