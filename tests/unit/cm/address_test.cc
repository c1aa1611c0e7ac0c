// Addresses and ports: what the kernel's rdma_cm answers to bind, resolve and listen.

#include <algorithm>
#include <cerrno>
#include <functional>
#include <vector>

#include "pair.h"

namespace uroce::cm::test {
namespace {

constexpr SocketAddress::Family kIb = SocketAddress::Family::kIb;

class AddressTest : public Pair {
 protected:
  Id* create(PortSpace space = PortSpace::kTcp, QpType type = QpType::kRc) {
    return server.cm().create_id(space, type, nullptr);
  }
  int bind(Id* id, const SocketAddress& address) { return server.cm().bind(*id, address); }
  int bind(const SocketAddress& address) { return bind(create(), address); }
  int resolve(Id* id, const SocketAddress& to, const SocketAddress* from = nullptr) {
    return server.cm().resolve_addr(*id, from, to, milliseconds(500), network.now());
  }
};

TEST_F(AddressTest, APortIsTakenOnce) {
  Id* first = create();
  EXPECT_EQ(bind(first, v4("10.0.0.2", 80)), 0);
  EXPECT_EQ(server.claimed, std::set<uint64_t>{0x01060050});
  EXPECT_EQ(bind(v4("10.0.0.2", 80)), EADDRINUSE);
  EXPECT_EQ(bind(v4("0.0.0.0", 80)), EADDRNOTAVAIL);
  EXPECT_EQ(bind(v6("fd00::2", 80)), 0) << "an other address";
  EXPECT_EQ(bind(create(PortSpace::kUdp, QpType::kUd), v4("10.0.0.2", 80)), 0) << "an other port space";
  EXPECT_EQ(bind(v4("127.0.0.1", 80)), 0);
  server.cm().destroy_id(first, network.now());
  EXPECT_EQ(bind(v4("10.0.0.2", 80)), 0);
}

TEST_F(AddressTest, APortOfAnotherProgramIsTaken) {
  server.services_of_others.insert(0x01060050);
  Id* id = create();
  EXPECT_EQ(bind(id, v4("10.0.0.2", 80)), EADDRINUSE);
  EXPECT_EQ(id->local().family, SocketAddress::Family::kNone);
  EXPECT_EQ(bind(id, v4("10.0.0.2", 81)), 0) << "it may try again";
}

/// Binding to an IPv4 address restricts an Id to that family; a bind that fails must not.
TEST_F(AddressTest, WhatWasNotBoundLeavesNothingBehind) {
  server.services_of_others.insert(0x01060050);
  Id* id = create();
  EXPECT_EQ(bind(id, v4("10.0.0.2", 80)), EADDRINUSE);
  EXPECT_EQ(bind(id, v6("::", kPort)), 0);
  EXPECT_EQ(server.cm().listen(*id, 1), 0);
  for (const SocketAddress& to : {v4("10.0.0.2", kPort), v6("fd00::2", kPort)}) {
    EXPECT_EQ(client.cm().connect(*resolved(to), parameters(0x111), {}, network.now()), 0);
    pass();
    EXPECT_EQ(next(server), "request");
  }
}

TEST_F(AddressTest, AFreePortOfInfiniBandIsSaidInItsService) {
  SocketAddress any;
  any.family = kIb;
  any.service_id = 0x01060000;
  any.service_id_mask = ~uint64_t{0};
  for (int i = 0; i < 3; i++) {
    Id* id = create();
    ASSERT_EQ(bind(id, any), 0);
    EXPECT_NE(id->local().port, 0);
    EXPECT_EQ(id->local().service_id, 0x01060000u + id->local().port);
  }
}

TEST_F(AddressTest, ReuseOfAnAddress) {
  Id* first = create();
  Id* second = create();
  EXPECT_EQ(server.cm().set_option(*first, IdOption::kReuseAddr, true), 0);
  EXPECT_EQ(server.cm().set_option(*second, IdOption::kReuseAddr, true), 0);
  EXPECT_EQ(bind(first, v4("10.0.0.2", 80)), 0);
  EXPECT_EQ(bind(second, v4("10.0.0.2", 80)), 0);
  EXPECT_EQ(server.cm().listen(*first, 1), EADDRINUSE);
  server.cm().destroy_id(second, network.now());
  EXPECT_EQ(server.cm().listen(*first, 1), 0);
  EXPECT_EQ(bind(v4("10.0.0.2", 80)), EADDRINUSE);
  EXPECT_EQ(server.cm().set_option(*first, IdOption::kReuseAddr, true), EINVAL) << "it listens";
}

TEST_F(AddressTest, WhoCannotBeFoundDoesNotListen) {
  Id* id = create();
  ASSERT_EQ(bind(id, v4("10.0.0.2", 80)), 0);
  server.refuses_to_listen = ENOSPC;
  EXPECT_EQ(server.cm().listen(*id, 1), ENOSPC);
  EXPECT_EQ(server.cm().listen(*id, 1), ENOSPC);
  EXPECT_TRUE(server.listening.empty());
  server.refuses_to_listen = 0;
  EXPECT_EQ(server.cm().listen(*id, 1), 0) << "it may try again";
  EXPECT_EQ(server.listening.size(), 1u);
  server.cm().destroy_id(id, network.now());
  EXPECT_TRUE(server.listening.empty());
}

TEST_F(AddressTest, BothFamiliesOfAPort) {
  Id* any6 = create();
  EXPECT_EQ(server.cm().set_option(*any6, IdOption::kAfOnly, true), 0);
  EXPECT_EQ(bind(any6, v6("::", 80)), 0);
  EXPECT_EQ(bind(v4("0.0.0.0", 80)), 0);
  EXPECT_EQ(bind(create(), v6("::", 81)), 0);
  EXPECT_EQ(bind(v4("0.0.0.0", 81)), EADDRNOTAVAIL) << "it means both";
}

TEST_F(AddressTest, PortZeroIsAFreeOne) {
  std::set<uint16_t> ports;
  for (int i = 0; i < 100; i++) {
    Id* id = create();
    ASSERT_EQ(bind(id, v4("0.0.0.0", 0)), 0);
    EXPECT_GE(id->local().port, 32768);
    EXPECT_LE(id->local().port, 60999);
    ports.insert(id->local().port);
  }
  EXPECT_EQ(ports.size(), 100u);
  EXPECT_EQ(server.claimed.size(), 100u);
}

TEST_F(AddressTest, EveryFreePortIsFound) {
  for (uint32_t port = 32768; port <= 60999; port++) {
    if (port != 50'000) server.services_of_others.insert(0x01060000 + port);
  }
  Id* id = create();
  EXPECT_EQ(bind(id, v4("0.0.0.0", 0)), 0);
  EXPECT_EQ(id->local().port, 50'000);
  EXPECT_EQ(bind(v4("0.0.0.0", 0)), EADDRNOTAVAIL);
  Id* listener = create();
  EXPECT_EQ(server.cm().listen(*listener, 1), EADDRNOTAVAIL);
  EXPECT_EQ(listener->local().family, SocketAddress::Family::kNone);
}

TEST_F(AddressTest, AddressesThatCannotBeBound) {
  EXPECT_EQ(bind(v4("10.0.0.9", 80)), EADDRNOTAVAIL);
  EXPECT_EQ(bind(v4("224.0.0.9", 80)), EADDRNOTAVAIL);
  EXPECT_EQ(bind(v6("fe80::1", 80)), EINVAL) << "of which link?";
  EXPECT_EQ(bind(SocketAddress{}), EAFNOSUPPORT);
  Id* id = create();
  EXPECT_EQ(bind(id, v4("10.0.0.2", 80)), 0);
  EXPECT_EQ(bind(id, v4("10.0.0.2", 81)), EINVAL) << "twice";
}

TEST_F(AddressTest, AServiceIdOfInfiniBand) {
  SocketAddress address{.family = kIb, .service_id = 0x10000ce100415100, .service_id_mask = ~uint64_t{0xff}};
  Id* id = create(PortSpace::kIb);
  ASSERT_EQ(bind(id, address), 0);
  ASSERT_EQ(server.cm().listen(*id, 1), 0);
  EXPECT_EQ(server.listening, (std::map<uint64_t, uint64_t>{{0x10000ce100415100, ~uint64_t{0xff}}}));

  SocketAddress to{.family = kIb, .ip = server.ip(), .service_id = 0x10000ce100415142};
  Id* active = resolved(to, PortSpace::kIb);
  ConnParam param = parameters(0x111, "all 92 bytes are the program's");
  ASSERT_EQ(client.cm().connect(*active, param, {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(server), "request");
  EXPECT_EQ(event.connection.private_data.length, 92);
  EXPECT_EQ(event.connection.private_data.bytes[0], 'a');
  EXPECT_EQ(event.id->local().service_id, 0x10000ce100415142u);
  EXPECT_EQ(event.id->local().pkey, 0xffff);
  EXPECT_EQ(event.id->remote().ip, client.ip());
  server.cm().destroy_id(event.id, network.now());
  server.cm().destroy_id(id, network.now());
  EXPECT_TRUE(server.listening.empty());
}

TEST_F(AddressTest, ResolvingTakesASourceAndAPort) {
  Id* id = create();
  ASSERT_EQ(resolve(id, v4("10.0.0.1", 80)), 0);
  EXPECT_EQ(next(server), "addr-resolved");
  EXPECT_EQ(id->local().ip, server.ip());
  EXPECT_TRUE(id->has_device());
  EXPECT_GE(id->local().port, 32768);
  EXPECT_EQ(id->way()->av.dgid, client.ip());
  EXPECT_FALSE(id->route_resolved());
  EXPECT_EQ(resolve(id, v4("10.0.0.1", 80)), EINVAL) << "twice";
  EXPECT_EQ(server.cm().resolve_route(*id, milliseconds(1), network.now()), 0);
  EXPECT_TRUE(id->route_resolved());
  EXPECT_EQ(server.cm().resolve_route(*id, milliseconds(1), network.now()), EINVAL);
}

TEST_F(AddressTest, AnyAsADestinationIsTheHostItself) {
  Id* id = create();
  ASSERT_EQ(resolve(id, v4("0.0.0.0", 80)), 0);
  EXPECT_EQ(id->remote(), v4("127.0.0.1", 80));
  EXPECT_EQ(id->way()->av.dgid, server.ip());
  Id* six = create();
  ASSERT_EQ(resolve(six, v6("::", 80)), 0);
  EXPECT_EQ(six->remote(), v6("::1", 80));
  const SocketAddress from = v6("fd00::2", 0);
  Id* bound = create();
  ASSERT_EQ(resolve(bound, v6("::", 80), &from), 0);
  EXPECT_EQ(bound->remote(), v6("fd00::2", 80));
}

TEST_F(AddressTest, DestinationsWithoutAWay) {
  EXPECT_EQ(resolve(create(), v4("192.0.2.1", 80)), ENETUNREACH);
  const SocketAddress from = v4("10.0.0.9", 0), from6 = v6("fd00::2", 0);
  EXPECT_EQ(resolve(create(), v4("10.0.0.1", 80), &from), EADDRNOTAVAIL);
  EXPECT_EQ(resolve(create(), v4("10.0.0.1", 80), &from6), EINVAL) << "two families";
}

/// Not in the order of the Ids' addresses in memory.
TEST_F(AddressTest, WhoAskedEarlierIsToldEarlier) {
  server.neighbours_known = false;
  std::vector<Id*> ids;
  for (int i = 0; i < 8; i++) ids.push_back(create());
  std::sort(ids.begin(), ids.end(), std::greater<>());
  for (Id* id : ids) ASSERT_EQ(resolve(id, v4("10.0.0.1", 80)), 0);
  network.run_for(milliseconds(500));
  for (const Id* id : ids) {
    ASSERT_EQ(next(server), "addr-error");
    EXPECT_EQ(event.id, id);
  }
}

TEST_F(AddressTest, NobodyAnswersForTheDestination) {
  server.neighbours_known = false;
  Id* id = create();
  ASSERT_EQ(resolve(id, v4("10.0.0.1", 80)), 0);
  network.run_for(nanoseconds(500'000'000 - 1));
  EXPECT_EQ(next(server), "");
  network.run_for(nanoseconds(1));
  EXPECT_EQ(next(server), "addr-error");
  EXPECT_EQ(event.status, -ETIMEDOUT);
  EXPECT_GT(server.asked, 3u);
  EXPECT_LT(server.asked, 20u);
  server.neighbours_known = true;
  EXPECT_EQ(resolve(id, v4("10.0.0.1", 80)), 0) << "it may try again";
  EXPECT_EQ(next(server), "addr-resolved");
}

TEST_F(AddressTest, ALateNeighbourAndOneNobodyWaitsFor) {
  server.neighbours_known = false;
  Id* id = create();
  Id* gone = create();
  ASSERT_EQ(resolve(id, v4("10.0.0.1", 80)), 0);
  ASSERT_EQ(resolve(gone, v4("10.0.0.1", 80)), 0);
  server.cm().destroy_id(gone, network.now());
  pass(milliseconds(100));
  EXPECT_EQ(next(server), "");
  server.neighbours_known = true;
  pass(milliseconds(100));
  EXPECT_EQ(next(server), "addr-resolved");
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(next(server), "");
  EXPECT_EQ(server.cm().next_timeout(), Instant::never());
}

TEST_F(AddressTest, StatesThatForbidIt) {
  Id* id = create();
  const ConnParam param;
  EXPECT_EQ(server.cm().connect(*id, param, {}, network.now()), EINVAL);
  EXPECT_EQ(server.cm().accept(*id, &param, {}, network.now()), EINVAL);
  EXPECT_EQ(server.cm().reject(*id, {}, 28, network.now()), EINVAL);
  EXPECT_EQ(server.cm().disconnect(*id, network.now()), EINVAL);
  EXPECT_EQ(server.cm().notify(*id, kEventCommEst, network.now()), EINVAL);
  EXPECT_EQ(server.cm().resolve_route(*id, milliseconds(1), network.now()), EINVAL);
  QpSettings settings;
  EXPECT_EQ(server.cm().init_qp_attr(*id, QpState::kRtr, settings), EINVAL);
  ASSERT_EQ(server.cm().listen(*id, 1), 0) << "to any address and a free port";
  EXPECT_EQ(server.cm().listen(*id, 1), EINVAL);
  EXPECT_EQ(server.cm().set_option(*id, IdOption::kAfOnly, false), EINVAL);
  EXPECT_EQ(resolve(id, v4("10.0.0.1", 80)), EINVAL);
}

TEST_F(AddressTest, PrivateDataThatDoesNotFit) {
  listen();
  Id* id = resolved();
  EXPECT_EQ(client.cm().connect(*id, parameters(0x111, std::string(57, 'x')), {}, network.now()), EINVAL);
  EXPECT_EQ(client.cm().connect(*id, parameters(0x111, std::string(56, 'x')), {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(server), "request");
  EXPECT_EQ(event.connection.private_data.bytes[55], 'x');
  const ConnParam big = parameters(0x222, std::string(197, 'y')), fits = parameters(0x222, std::string(196, 'y'));
  EXPECT_EQ(server.cm().reject(*event.id, parameters(0, std::string(149, 'z')).private_data, 28, network.now()),
            EINVAL);
  EXPECT_EQ(server.cm().accept(*event.id, &fits, {}, network.now()), 0);
  EXPECT_EQ(client.cm().connect(*resolved(), parameters(0x112), {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(server), "request");
  EXPECT_EQ(server.cm().accept(*event.id, &big, {}, network.now()), EINVAL);
}

TEST_F(AddressTest, ARequestGoesToTheListenerOfItsAddress) {
  Id* any = listen();
  EXPECT_EQ(server.cm().bind(*create(), v4("10.0.0.2", kPort)), EADDRNOTAVAIL);
  client.cm().connect(*resolved(), parameters(0x111), {}, network.now());
  pass();
  ASSERT_EQ(next(server), "request");
  EXPECT_EQ(event.listener, any);
  client.cm().connect(*resolved(v6("fd00::2", kPort)), parameters(0x112), {}, network.now());
  pass(milliseconds(1000));
  EXPECT_EQ(next(client), "rejected") << "IPv4 only";
  server.cm().destroy_id(any, network.now());
  Id* four = listen(v4("10.0.0.2", kPort));
  Id* six = listen(v6("fd00::2", kPort));
  client.cm().connect(*resolved(v6("fd00::2", kPort)), parameters(0x113), {}, network.now());
  pass();
  ASSERT_EQ(next(server), "request");
  EXPECT_EQ(event.listener, six);
  EXPECT_EQ(event.id->remote().family, SocketAddress::Family::kV6);
  client.cm().connect(*resolved(), parameters(0x114), {}, network.now());
  pass();
  ASSERT_EQ(next(server), "request");
  EXPECT_EQ(event.listener, four);
}

TEST_F(AddressTest, AnyOfIpv6TakesBoth) {
  Id* any = listen(v6("::", kPort));
  client.cm().connect(*resolved(), parameters(0x111), {}, network.now());
  client.cm().connect(*resolved(v6("fd00::2", kPort)), parameters(0x112), {}, network.now());
  pass();
  EXPECT_EQ(next(server), "request");
  EXPECT_EQ(event.listener, any);
  EXPECT_EQ(next(server), "request");
}

TEST_F(AddressTest, OnAVlan) {
  Host& first = network.add_host("first", {"10.0.0.3/24", "10.7.0.3/24@7"});
  Host& second = network.add_host("second", {"10.0.0.4/24", "10.7.0.4/24@7"});
  network.keep_sent = true;
  Id* listener = second.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr);
  ASSERT_EQ(second.cm().bind(*listener, v4("10.7.0.4", 80)), 0);
  ASSERT_EQ(second.cm().listen(*listener, 1), 0);
  Id* id = first.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr);
  ASSERT_EQ(first.cm().resolve_addr(*id, nullptr, v4("10.7.0.4", 80), milliseconds(1), network.now()), 0);
  ASSERT_EQ(first.cm().resolve_route(*id, milliseconds(1), network.now()), 0);
  ASSERT_EQ(first.cm().connect(*id, parameters(0x111), {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(second), "request");
  EXPECT_EQ(event.id->way()->source.vlan_id, 7);
  EXPECT_EQ(event.id->way()->sgid_index, 1);
  const ConnParam param = parameters(0x222);
  ASSERT_EQ(second.cm().accept(*event.id, &param, {}, network.now()), 0);
  ASSERT_EQ(network.sent.size(), 2u);
  EXPECT_EQ(network.sent[0].vlan_id, 7);
  EXPECT_EQ(network.sent[1].vlan_id, 7);
}

TEST_F(AddressTest, TrafficClassAndAckTimeoutAreWhatTheProgramSays) {
  listen();
  network.keep_sent = true;
  Id* id = client.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr);
  EXPECT_EQ(client.cm().set_tos(*id, 0x68), 0);
  EXPECT_EQ(client.cm().set_ack_timeout(*id, 14), 0);
  EXPECT_EQ(client.cm().set_ack_timeout(*id, 32), EINVAL);
  ASSERT_EQ(client.cm().resolve_addr(*id, nullptr, v4("10.0.0.2", kPort), milliseconds(1), network.now()), 0);
  ASSERT_EQ(client.cm().resolve_route(*id, milliseconds(1), network.now()), 0);
  ASSERT_EQ(client.cm().connect(*id, parameters(0x111), {}, network.now()), 0);
  EXPECT_EQ(network.sent.back().traffic_class, 0x68);
  const Req req = decode_req(network.sent.back().mad);
  EXPECT_EQ(req.path.traffic_class, 0x68);
  EXPECT_EQ(req.path.local_ack_timeout, 14);
  pass();
  ASSERT_EQ(next(server), "request");
  QpSettings settings;
  ASSERT_EQ(server.cm().init_qp_attr(*event.id, QpState::kRtr, settings), 0);
  EXPECT_EQ(settings.attributes.av.traffic_class, 0x68);
  ASSERT_EQ(server.cm().init_qp_attr(*event.id, QpState::kRts, settings), 0);
  EXPECT_EQ(settings.attributes.timeout, 14) << "as the client asks";
  const ConnParam param = parameters(0x222);
  ASSERT_EQ(server.cm().accept(*event.id, &param, {}, network.now()), 0);
  pass();
  ASSERT_EQ(client.cm().init_qp_attr(*id, QpState::kRts, settings), 0);
  EXPECT_EQ(settings.attributes.timeout, 14) << "whatever the REP says of the server's delay";
  Id* datagrams = client.cm().create_id(PortSpace::kUdp, QpType::kUd, nullptr);
  EXPECT_EQ(client.cm().set_ack_timeout(*datagrams, 14), EINVAL);
}

/// What a listener sets holds for the connections that it gets, whatever their clients ask for; 0 is for ever.
TEST_F(AddressTest, AnAckTimeoutThatTheProgramSetIsTheQueuePairsOnEitherSide) {
  Id* listener = listen();
  ASSERT_EQ(server.cm().set_ack_timeout(*listener, 22), 0);
  Id* id = resolved(v4("10.0.0.2", kPort));
  ASSERT_EQ(client.cm().set_ack_timeout(*id, 0), 0);
  network.keep_sent = true;
  ASSERT_EQ(client.cm().connect(*id, parameters(0x111), {}, network.now()), 0);
  EXPECT_EQ(decode_req(network.sent.back().mad).path.local_ack_timeout, 17) << "a path's, since it cannot say for ever";
  pass();
  ASSERT_EQ(next(server), "request");
  QpSettings settings;
  ASSERT_EQ(server.cm().init_qp_attr(*event.id, QpState::kRts, settings), 0);
  EXPECT_EQ(settings.attributes.timeout, 22);
  ASSERT_EQ(server.cm().set_ack_timeout(*event.id, 9), 0);
  ASSERT_EQ(server.cm().init_qp_attr(*event.id, QpState::kRts, settings), 0);
  EXPECT_EQ(settings.attributes.timeout, 9) << "its own setting goes before the listener's";
  const ConnParam param = parameters(0x222);
  ASSERT_EQ(server.cm().accept(*event.id, &param, {}, network.now()), 0);
  pass();
  ASSERT_EQ(client.cm().init_qp_attr(*id, QpState::kRts, settings), 0);
  EXPECT_EQ(settings.attributes.timeout, 0);
}

TEST_F(AddressTest, UnreliableConnections) {
  listen(v4("0.0.0.0", kPort), PortSpace::kTcp, QpType::kUc);
  Id* id = resolved(v4("10.0.0.2", kPort), PortSpace::kTcp, QpType::kUc);
  network.keep_sent = true;
  ASSERT_EQ(client.cm().connect(*id, parameters(0x111), {}, network.now()), 0);
  EXPECT_EQ(decode_req(network.sent.back().mad).transport, 1);
  pass();
  ASSERT_EQ(next(server), "request");
  EXPECT_EQ(event.id->qp_type(), QpType::kUc);
  QpSettings settings;
  ASSERT_EQ(server.cm().init_qp_attr(*event.id, QpState::kRtr, settings), 0);
  EXPECT_EQ(settings.mask, kAttrState | kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn);
  ASSERT_EQ(server.cm().init_qp_attr(*event.id, QpState::kRts, settings), 0);
  EXPECT_EQ(settings.mask, kAttrState | kAttrSqPsn);
}

TEST_F(AddressTest, NoMoreIdsThanTheLimit) {
  Host& host = network.add_host("small", {"10.0.0.9/24"}, {.ids = 2});
  Id* first = host.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr);
  EXPECT_NE(host.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr), nullptr);
  EXPECT_EQ(host.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr), nullptr);
  host.cm().destroy_id(first, network.now());
  EXPECT_NE(host.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr), nullptr);
}

class MulticastTest : public AddressTest {};

TEST_F(MulticastTest, AGroupIsJoinedAndLeft) {
  int tag = 0;
  Id* id = create(PortSpace::kUdp, QpType::kUd);
  ASSERT_EQ(bind(id, v4("10.0.0.2", 0)), 0);
  ASSERT_EQ(server.cm().join_multicast(*id, v4("239.1.2.3", 0), false, &tag, network.now()), 0);
  ASSERT_EQ(next(server), "multicast-join");
  EXPECT_EQ(event.multicast, &tag);
  EXPECT_EQ(to_string(event.datagram.av.dgid), "239.1.2.3");  // as a GID: ::ffff:239.1.2.3
  EXPECT_EQ(event.datagram.qpn, 0xffffffu);
  EXPECT_EQ(event.datagram.qkey, 0x01234567u);
  const IpAddress group = parse_ip("239.1.2.3").value();
  EXPECT_EQ(server.groups, (std::vector{std::pair{group, true}}));
  EXPECT_EQ(server.cm().leave_multicast(*id, &server, network.now()), ENOENT);
  EXPECT_EQ(server.cm().leave_multicast(*id, &tag, network.now()), 0);
  EXPECT_EQ(server.groups.back(), std::pair(group, false));
  EXPECT_EQ(server.cm().leave_multicast(*id, &tag, network.now()), ENOENT);
}

TEST_F(MulticastTest, GroupsAreLeftWithTheId) {
  Id* id = create(PortSpace::kUdp, QpType::kUd);
  ASSERT_EQ(resolve(id, v6("ff0e::7", 7)), 0) << "as mckey does";
  EXPECT_EQ(next(server), "addr-resolved");
  ASSERT_EQ(server.cm().join_multicast(*id, v6("ff0e::7", 0), false, nullptr, network.now()), 0);
  ASSERT_EQ(server.cm().join_multicast(*id, v6("ff0e::8", 0), true, nullptr, network.now()), 0);
  EXPECT_EQ(next(server), "multicast-join");
  EXPECT_EQ(to_string(event.datagram.av.dgid), "ff0e::7");
  EXPECT_EQ(next(server), "multicast-join");
  EXPECT_EQ(server.groups.size(), 1u) << "who only sends, joins nothing";
  server.cm().destroy_id(id, network.now());
  ASSERT_EQ(server.groups.size(), 2u);
  EXPECT_EQ(server.groups[1], std::pair(parse_ip("ff0e::7").value(), false));
}

TEST_F(MulticastTest, WhoCannotJoin) {
  Id* rc = create();
  ASSERT_EQ(bind(rc, v4("10.0.0.2", 0)), 0);
  EXPECT_EQ(server.cm().join_multicast(*rc, v4("239.1.2.3", 0), false, nullptr, network.now()), EINVAL);
  Id* id = create(PortSpace::kUdp, QpType::kUd);
  EXPECT_EQ(server.cm().join_multicast(*id, v4("239.1.2.3", 0), false, nullptr, network.now()), EINVAL) << "unbound";
  ASSERT_EQ(bind(id, v4("0.0.0.0", 0)), 0);
  EXPECT_EQ(server.cm().join_multicast(*id, v4("239.1.2.3", 0), false, nullptr, network.now()), EINVAL) << "any";
  Id* bound = create(PortSpace::kUdp, QpType::kUd);
  ASSERT_EQ(bind(bound, v4("10.0.0.2", 0)), 0);
  EXPECT_EQ(server.cm().join_multicast(*bound, v4("10.0.0.1", 0), false, nullptr, network.now()), EINVAL);
}

}  // namespace
}  // namespace uroce::cm::test
