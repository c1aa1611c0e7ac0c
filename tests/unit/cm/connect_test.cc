// The story of a connection as a program with librdmacm sees it, from the address to the end of timewait.

#include <cerrno>

#include "pair.h"

namespace uroce::cm::test {
namespace {

class ConnectTest : public Pair {};

std::string text(const PrivateData& data, size_t length) {
  return {reinterpret_cast<const char*>(data.bytes.data()), std::min<size_t>(length, data.length)};
}

TEST_F(ConnectTest, AConnectionIsMadeUsedAndEnded) {
  Id* listener = listen();
  EXPECT_EQ(server.listening, (std::map<uint64_t, uint64_t>{{0x01061c06, ~uint64_t{0}}}));
  Id* active = resolved();
  EXPECT_EQ(active->local().ip, client.ip());
  EXPECT_GE(active->local().port, 32768);
  network.keep_sent = true;

  ASSERT_EQ(client.cm().connect(*active, parameters(0x111, "hello"), {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(server), "request");
  Id* passive = event.id;
  EXPECT_EQ(event.listener, listener);
  EXPECT_EQ(text(event.connection.private_data, 5), "hello");
  EXPECT_EQ(event.connection.private_data.length, 56);
  EXPECT_EQ(event.connection.responder_resources, 5);  // the two values are swapped for the other side
  EXPECT_EQ(event.connection.initiator_depth, 3);
  EXPECT_EQ(event.connection.qpn, 0x111u);
  EXPECT_EQ(passive->remote(), v4("10.0.0.1", active->local().port));
  EXPECT_EQ(passive->local(), v4("10.0.0.2", kPort));

  const ConnParam answer = parameters(0x222, "world");
  ASSERT_EQ(server.cm().accept(*passive, &answer, {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(client), "response");
  EXPECT_EQ(text(event.connection.private_data, 5), "world");
  EXPECT_EQ(event.connection.private_data.length, 196);
  EXPECT_EQ(event.connection.qpn, 0x222u);
  ASSERT_EQ(client.cm().accept(*active, nullptr, {}, network.now()), 0);
  pass();
  EXPECT_EQ(next(server), "established");
  EXPECT_EQ(next(client), "");

  ASSERT_EQ(client.cm().disconnect(*active, network.now()), 0);
  pass();
  EXPECT_EQ(next(server), "disconnected");
  EXPECT_EQ(next(client), "");
  ASSERT_EQ(server.cm().disconnect(*passive, network.now()), 0);
  pass();
  EXPECT_EQ(next(client), "disconnected");
  EXPECT_EQ(event.status, 0);
  pass(milliseconds(20'000));
  EXPECT_EQ(next(client), "timewait-exit");
  EXPECT_EQ(next(server), "timewait-exit");
  EXPECT_EQ(attributes_of(network.sent),
            (std::vector{Attribute::kReq, Attribute::kRep, Attribute::kRtu, Attribute::kDreq, Attribute::kDrep}));
  client.cm().destroy_id(active, network.now());
  server.cm().destroy_id(passive, network.now());
  server.cm().destroy_id(listener, network.now());
  EXPECT_TRUE(client.claimed.empty());
  EXPECT_TRUE(server.claimed.empty());
  EXPECT_TRUE(server.listening.empty());
}

// For lists of Ids: with the kernel's states, and a number for each Id.
TEST_F(ConnectTest, IdsAreListedOnceTheyHaveTheDevice) {
  const auto listed = [](Host& host) {
    std::vector<ListedId> all;
    for_each_listed(host.cm(), [&](const ListedId& id) { all.push_back(id); });
    return all;
  };
  Id* const idle = client.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr);
  EXPECT_TRUE(listed(client).empty()) << "it is of no device yet";
  Id* const listener = listen();
  ASSERT_EQ(listed(server).size(), 1u);
  EXPECT_EQ(listed(server)[0].state, 8);
  EXPECT_EQ(listed(server)[0].qpn, 0u);
  EXPECT_EQ(listed(server)[0].local.port, kPort);
  Id* const active = resolved();
  ASSERT_EQ(listed(client).size(), 1u);
  EXPECT_EQ(listed(client)[0].state, 4);
  ASSERT_EQ(client.cm().connect(*active, parameters(0x111, "hello"), {}, network.now()), 0);
  EXPECT_EQ(listed(client)[0].state, 5);
  EXPECT_EQ(listed(client)[0].qpn, 0x111u);
  EXPECT_EQ(listed(client)[0].remote.ip, server.ip());
  Id* const another = resolved();
  ASSERT_EQ(listed(client).size(), 2u);
  EXPECT_NE(listed(client)[0].number, listed(client)[1].number);
  for (Id* id : {idle, active, another}) client.cm().destroy_id(id, network.now());
  server.cm().destroy_id(listener, network.now());
  EXPECT_TRUE(listed(client).empty());
}

TEST_F(ConnectTest, QueuePairsAreSetToWhatBothSidesAgreedOn) {
  listen();
  const Ends ends = connected();
  QpSettings a, b;
  ASSERT_EQ(client.cm().init_qp_attr(*ends.active, QpState::kRtr, a), 0);
  ASSERT_EQ(server.cm().init_qp_attr(*ends.passive, QpState::kRts, b), 0);
  EXPECT_EQ(a.mask,
            kAttrState | kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn | kAttrMaxDestRdAtomic | kAttrMinRnrTimer);
  EXPECT_EQ(b.mask, kAttrState | kAttrSqPsn | kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrMaxQpRdAtomic);
  EXPECT_EQ(a.attributes.av.dgid, server.ip());
  EXPECT_EQ(a.attributes.dest_qpn, 0x222u);
  EXPECT_EQ(a.attributes.path_mtu_bytes, 1024u);
  EXPECT_EQ(a.attributes.rq_psn, b.attributes.sq_psn);
  EXPECT_EQ(b.attributes.retry_cnt, 6);
  QpSettings c, d;
  ASSERT_EQ(client.cm().init_qp_attr(*ends.active, QpState::kRts, c), 0);
  ASSERT_EQ(server.cm().init_qp_attr(*ends.passive, QpState::kRtr, d), 0);
  EXPECT_EQ(c.attributes.sq_psn, d.attributes.rq_psn);
  EXPECT_NE(c.attributes.sq_psn, b.attributes.sq_psn);
  EXPECT_EQ(d.attributes.av.dgid, client.ip());
  EXPECT_EQ(d.attributes.dest_qpn, 0x111u);
  QpSettings e;
  ASSERT_EQ(server.cm().init_qp_attr(*ends.passive, QpState::kInit, e), 0);
  EXPECT_EQ(e.mask, kAttrState | kAttrAccessFlags | kAttrPkeyIndex | kAttrPort);
  EXPECT_EQ(e.attributes.access, uint32_t{kRemoteWrite | kRemoteRead | kRemoteAtomic});
}

TEST_F(ConnectTest, XrcNamesItsTargetInPlaceOfAnEndToEndContext) {
  listen(v4("0.0.0.0", kPort), PortSpace::kIb, QpType::kXrcRecv);
  Id* active = resolved(v4("10.0.0.2", kPort), PortSpace::kIb, QpType::kXrcSend);
  network.keep_sent = true;
  ASSERT_EQ(client.cm().connect(*active, parameters(0x111), {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(server), "request");
  Id* passive = event.id;
  EXPECT_EQ(passive->qp_type(), QpType::kXrcRecv);
  const ConnParam answer = parameters(0x222, "number");
  ASSERT_EQ(server.cm().accept(*passive, &answer, {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(client), "response");
  EXPECT_EQ(event.connection.qpn, 0x222u);
  EXPECT_TRUE(event.connection.srq);
  ASSERT_GE(network.sent.size(), 2u);
  const MadBytes& req = network.sent[0].mad;
  EXPECT_EQ(req[24 + 43] & 6, 6);  // transport service type: extended
  EXPECT_EQ(req[24 + 51] & 7, 1);  // of these, XRC
  const MadBytes& rep = network.sent[1].mad;
  EXPECT_EQ((std::vector(rep.begin() + 24 + 12, rep.begin() + 24 + 19)),
            (std::vector<uint8_t>{0, 0, 0, 0, 0, 2, 0x22}));
  EXPECT_EQ(rep[24 + 27] & 0x10, 0x10);  // SRQ
  QpSettings to_rtr, to_rts, peer_rtr, peer_rts;
  ASSERT_EQ(client.cm().init_qp_attr(*active, QpState::kRtr, to_rtr), 0);
  ASSERT_EQ(client.cm().init_qp_attr(*active, QpState::kRts, to_rts), 0);
  ASSERT_EQ(server.cm().init_qp_attr(*passive, QpState::kRtr, peer_rtr), 0);
  ASSERT_EQ(server.cm().init_qp_attr(*passive, QpState::kRts, peer_rts), 0);
  EXPECT_EQ(to_rtr.attributes.dest_qpn, 0x222u);
  EXPECT_EQ(peer_rtr.attributes.dest_qpn, 0x111u);
  EXPECT_EQ(to_rtr.mask, kAttrState | kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn);
  EXPECT_EQ(to_rts.mask, kAttrState | kAttrSqPsn | kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrMaxQpRdAtomic);
  EXPECT_EQ(peer_rtr.mask, to_rtr.mask | kAttrMaxDestRdAtomic | kAttrMinRnrTimer);
  EXPECT_EQ(peer_rts.mask, kAttrState | kAttrSqPsn | kAttrTimeout);
}

TEST_F(ConnectTest, AListenerOfRcDoesNotTakeXrc) {
  listen(v4("0.0.0.0", kPort), PortSpace::kIb, QpType::kRc);
  Id* active = resolved(v4("10.0.0.2", kPort), PortSpace::kIb, QpType::kXrcSend);
  ASSERT_EQ(client.cm().connect(*active, parameters(0x111), {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(client), "rejected");
  EXPECT_EQ(event.status, static_cast<int>(RejReason::kInvalidTransport));
}

TEST_F(ConnectTest, AnIdKeepsWhatTheProgramGaveIt) {
  int first = 0, second = 0;
  Id* id = client.cm().create_id(PortSpace::kTcp, QpType::kRc, &first);
  EXPECT_EQ(id->user(), &first);
  id->set_user(&second);
  EXPECT_EQ(id->user(), &second);
  EXPECT_EQ(id->port_space(), PortSpace::kTcp);
  EXPECT_EQ(id->way(), nullptr);
  EXPECT_FALSE(id->has_device());
}

TEST_F(ConnectTest, NobodyListens) {
  Id* active = resolved();
  ASSERT_EQ(client.cm().connect(*active, parameters(0x111), {}, network.now()), 0);
  pass(milliseconds(755));
  EXPECT_EQ(next(client), "") << "it is asked again after 10, 50, 200 and 500 ms";
  pass(milliseconds(10));
  EXPECT_EQ(next(client), "rejected");
  EXPECT_EQ(event.status, 8);
  EXPECT_EQ(server.cm().counters().refused_no_service, 5u);
  EXPECT_EQ(client.cm().counters().asked_again, 4u);
}

TEST_F(ConnectTest, AServerThatIsBetweenTwoListenersIsAskedAgain) {
  Id* active = resolved();
  ASSERT_EQ(client.cm().connect(*active, parameters(0x111), {}, network.now()), 0);
  pass(milliseconds(30));
  EXPECT_EQ(server.cm().counters().refused_no_service, 2u);
  listen();
  pass(milliseconds(40));
  ASSERT_EQ(next(server), "request");
  const ConnParam param = parameters(0x222);
  ASSERT_EQ(server.cm().accept(*event.id, &param, {}, network.now()), 0);
  pass();
  EXPECT_EQ(next(client), "response");
  EXPECT_EQ(client.cm().counters().asked_again, 2u);
}

TEST_F(ConnectTest, OfDatagramsToo) {
  Id* active = resolved(v4("10.0.0.2", kPort), PortSpace::kUdp, QpType::kUd);
  ASSERT_EQ(client.cm().connect(*active, parameters(0x111), {}, network.now()), 0);
  pass(milliseconds(30));
  EXPECT_EQ(server.cm().counters().refused_no_service, 2u);
  listen(v4("0.0.0.0", kPort), PortSpace::kUdp, QpType::kUd);
  pass(milliseconds(40));
  ASSERT_EQ(next(server), "request");
  const ConnParam param = parameters(0x222);
  ASSERT_EQ(server.cm().accept(*event.id, &param, {}, network.now()), 0);
  pass();
  EXPECT_EQ(next(client), "established");
  EXPECT_EQ(event.datagram.qpn, 0x222u);
}

TEST_F(ConnectTest, AProgramThatRejectsIsNotAskedAgain) {
  listen();
  Id* active = resolved();
  ASSERT_EQ(client.cm().connect(*active, parameters(0x111), {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(server), "request");
  ASSERT_EQ(server.cm().reject(*event.id, {}, 28, network.now()), 0);
  pass();
  EXPECT_EQ(next(client), "rejected");
  pass(milliseconds(500));
  EXPECT_EQ(next(server), "");
}

TEST_F(ConnectTest, AProgramRejects) {
  listen();
  Id* active = resolved();
  ASSERT_EQ(client.cm().connect(*active, parameters(0x111), {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(server), "request");
  ASSERT_EQ(server.cm().reject(*event.id, parameters(0, "no").private_data, 28, network.now()), 0);
  pass();
  EXPECT_EQ(next(client), "rejected");
  EXPECT_EQ(event.status, 28);
  EXPECT_EQ(text(event.connection.private_data, 2), "no");
}

TEST_F(ConnectTest, DatagramServicesAreFoundBySidr) {
  listen(v4("0.0.0.0", kPort), PortSpace::kUdp, QpType::kUd);
  Id* active = resolved(v4("10.0.0.2", kPort), PortSpace::kUdp, QpType::kUd);
  network.keep_sent = true;
  ASSERT_EQ(client.cm().connect(*active, parameters(0, "who"), {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(server), "request");
  EXPECT_TRUE(event.is_datagram);
  EXPECT_EQ(text(event.datagram.private_data, 3), "who");
  EXPECT_EQ(event.datagram.private_data.length, 180);
  const ConnParam answer = parameters(0x333, "me");
  ASSERT_EQ(server.cm().accept(*event.id, &answer, {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(client), "established");
  EXPECT_EQ(event.datagram.qpn, 0x333u);
  EXPECT_EQ(event.datagram.qkey, kUdpQkey);
  EXPECT_EQ(event.datagram.av.dgid, server.ip());
  EXPECT_EQ(text(event.datagram.private_data, 2), "me");
  EXPECT_EQ(attributes_of(network.sent), (std::vector{Attribute::kSidrReq, Attribute::kSidrRep}));
  QpSettings settings;
  ASSERT_EQ(client.cm().init_qp_attr(*active, QpState::kInit, settings), 0);
  EXPECT_EQ(settings.mask, kAttrState | kAttrPkeyIndex | kAttrPort | kAttrQkey);
  EXPECT_EQ(settings.attributes.qkey, kUdpQkey);
}

TEST_F(ConnectTest, AHostConnectsToItself) {
  Id* listener = client.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr);
  ASSERT_EQ(client.cm().bind(*listener, v4("127.0.0.1", kPort)), 0);
  ASSERT_EQ(client.cm().listen(*listener, 1), 0);
  Id* active = resolved(v4("127.0.0.1", kPort));
  ASSERT_EQ(client.cm().connect(*active, parameters(0x111), {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(client), "request");
  Id* passive = event.id;
  const ConnParam answer = parameters(0x222);
  ASSERT_EQ(client.cm().accept(*passive, &answer, {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(client), "response");
  ASSERT_EQ(client.cm().accept(*active, nullptr, {}, network.now()), 0);
  pass();
  EXPECT_EQ(next(client), "established");
}

}  // namespace
}  // namespace uroce::cm::test
