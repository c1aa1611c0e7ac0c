// Connections of the library, and what is posted over them.
#include "uroce/connections.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "two_endpoints.h"

namespace uroce::rdma {
namespace {

using LibraryConnections = TwoEndpoints;

TEST_F(LibraryConnections, OneLineOnEachSide) {
  a_.listen();
  std::string server_error;
  std::thread server([&] {
    const Endpoint::Ownership owner(*a_.endpoint);
    EXPECT_EQ(a_.qp.initialize(0), ModifyResult::kOk);
    EXPECT_EQ(a_.qp.post(Receive{a_.region.sge(0, 64), 5}), PostResult::kOk);
    a_.connection = a_.listener.accept(a_.qp, server_error);
    EXPECT_TRUE(a_.connection) << server_error;
    Completion received;
    EXPECT_EQ(a_.endpoint->wait(a_.cq, {&received, 1}), 1u);
    EXPECT_EQ(received.wr_id, 5u);
    EXPECT_EQ(received.imm_or_rkey, 42u);
  });
  std::string error;
  {
    const Endpoint::Ownership owner(*b_.endpoint);
    b_.memory = {"hello"};
    b_.connection = b_.endpoint->connections().connect(b_.qp, "198.18.0.1", kPort, error);
    EXPECT_EQ(error, "");
    EXPECT_TRUE(b_.connection);
    EXPECT_EQ(to_string(b_.connection.peer()), "198.18.0.1");
    EXPECT_EQ(b_.qp.state(), QpState::kRts);
    EXPECT_EQ(b_.qp.post(Send{.from = b_.region.sge(0, 6), .imm = 42}), PostResult::kOk);
    Completion sent;
    EXPECT_EQ(b_.endpoint->wait(b_.cq, {&sent, 1}), 1u);
    EXPECT_EQ(sent.status, WcStatus::kSuccess);
  }
  server.join();
  EXPECT_STREQ(a_.memory.data(), "hello");
}

TEST_F(LibraryConnections, EachSideHearsWhatTheOtherSaid) {
  a_.listen();
  std::string error;
  b_.connection = begin(error, {.private_data = bytes_of(uint64_t{0x1122334455667788})});
  ASSERT_TRUE(asked());
  {
    const Endpoint::Ownership owner(*a_.endpoint);
    EXPECT_EQ(a_.listener.private_data().size(), 56u);
    a_.connection = a_.listener.begin_accept(a_.qp, error, {.private_data = bytes_of(a_.region.remote(8))});
    EXPECT_EQ(a_.connection.private_data_as<uint64_t>(), 0x1122334455667788u);
    EXPECT_EQ(to_string(a_.connection.peer()), "198.18.0.2");
    EXPECT_EQ((a_.connection.private_data_as<std::array<char, 57>>()), std::nullopt);
  }
  ASSERT_TRUE(both(ConnectionState::kEstablished));
  const Endpoint::Ownership owner(*b_.endpoint);
  const auto said = b_.connection.private_data_as<RemoteMemory>();
  ASSERT_TRUE(said);
  EXPECT_EQ(said->address, a_.region.address() + 8);
  EXPECT_EQ(said->rkey, a_.region.rkey());
  EXPECT_EQ(said->bytes, a_.memory.size() - 8);
}

TEST_F(LibraryConnections, EveryOperation) {
  establish();
  const RemoteMemory there = a_.region.remote();
  b_.memory = {"written"};
  {
    const Endpoint::Ownership owner(*b_.endpoint);
    EXPECT_EQ(b_.qp.post(RdmaWrite{.from = b_.region.sge(0, 8), .to = there.at(16), .wr_id = 1}), PostResult::kOk);
    EXPECT_EQ(b_.qp.post(RdmaRead{.into = b_.region.sge(64, 8), .from = there.at(16), .wr_id = 2}), PostResult::kOk);
    EXPECT_EQ(b_.qp.post(FetchAdd{.into = b_.region.sge(128, 8), .at = there, .add = 5, .wr_id = 3}), PostResult::kOk);
    EXPECT_EQ(b_.qp.post(CompareSwap{.into = b_.region.sge(136, 8), .at = there, .compare = 5, .swap = 9, .wr_id = 4}),
              PostResult::kOk);
  }
  const auto done = completions(b_, 4);
  ASSERT_EQ(done.size(), 4u);
  for (size_t i = 0; i < done.size(); i++) {
    EXPECT_EQ(done[i].wr_id, i + 1);
    EXPECT_EQ(done[i].status, WcStatus::kSuccess) << cause_text(done[i].cause);
  }
  EXPECT_STREQ(a_.memory.data() + 16, "written");
  EXPECT_STREQ(b_.memory.data() + 64, "written");
  const auto number = [](const char* at) {
    uint64_t value;
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  EXPECT_EQ(number(b_.memory.data() + 128), 0u);
  EXPECT_EQ(number(b_.memory.data() + 136), 5u);
  EXPECT_EQ(number(a_.memory.data()), 9u);
}

TEST_F(LibraryConnections, WhoAcceptsWithFewerReadsPostsNoMoreAtOnce) {
  a_.listen();
  std::string error;
  b_.connection = begin(error, {.max_dest_rd_atomic = 4});
  ASSERT_TRUE(asked());
  owning(a_, [&] {
    a_.connection = a_.listener.begin_accept(a_.qp, error, {.max_rd_atomic = 1, .max_dest_rd_atomic = 2});
  });
  ASSERT_TRUE(both(ConnectionState::kEstablished)) << error;
  const QpAttributes accepts = owning(a_, [&] { return a_.qp.attributes(); });
  const QpAttributes connects = owning(b_, [&] { return b_.qp.attributes(); });
  EXPECT_EQ(accepts.max_rd_atomic, 1u);
  EXPECT_EQ(connects.max_dest_rd_atomic, 1u);
  EXPECT_EQ(accepts.max_dest_rd_atomic, 2u);
  EXPECT_EQ(connects.max_rd_atomic, 2u);
  owning(a_, [&] {
    for (uint64_t i = 0; i < 4; i++)
      EXPECT_EQ(a_.qp.post(RdmaRead{.into = a_.region.sge(i * 8, 8), .from = b_.region.remote(), .wr_id = i}),
                PostResult::kOk);
  });
  const auto done = completions(a_, 4);
  ASSERT_EQ(done.size(), 4u);
  for (const Completion& one : done) EXPECT_EQ(one.status, WcStatus::kSuccess) << cause_text(one.cause);
}

TEST_F(LibraryConnections, RetriesAreThoseOfWhoConnectsAndRnrRetriesThoseOfThePeer) {
  a_.listen();
  std::string error;
  b_.connection = begin(error, {.retry_cnt = 2, .rnr_retry = 3});
  ASSERT_TRUE(asked());
  owning(a_, [&] { a_.connection = a_.listener.begin_accept(a_.qp, error, {.retry_cnt = 4, .rnr_retry = 5}); });
  ASSERT_TRUE(both(ConnectionState::kEstablished)) << error;
  const QpAttributes accepts = owning(a_, [&] { return a_.qp.attributes(); });
  const QpAttributes connects = owning(b_, [&] { return b_.qp.attributes(); });
  EXPECT_EQ(accepts.retry_cnt, 2u);
  EXPECT_EQ(connects.retry_cnt, 2u);
  EXPECT_EQ(accepts.rnr_retry, 3u);
  EXPECT_EQ(connects.rnr_retry, 5u);
}

TEST_F(LibraryConnections, AQueuePairHasOne) {
  a_.listen();
  std::string error;
  b_.connection = begin(error);
  owning(b_, [&] {
    EXPECT_FALSE(b_.endpoint->connections().begin_connect(b_.qp, "198.18.0.1", kPort, error));
    EXPECT_EQ(error, "the queue pair has a connection");
  });
  ASSERT_TRUE(asked());
  owning(a_, [&] { a_.connection = a_.listener.begin_accept(a_.qp, error); });
  ASSERT_TRUE(both(ConnectionState::kEstablished));
  // Once the connection has ended, the queue pair may have another.
  owning(b_, [&] {
    b_.connection.disconnect();
    QpAttributes reset;
    reset.state = QpState::kReset;
    EXPECT_EQ(b_.qp.modify(reset, kAttrState), ModifyResult::kOk);
    Connection next = b_.endpoint->connections().begin_connect(b_.qp, "198.18.0.1", kPort, error);
    EXPECT_TRUE(next) << error;
  });
}

TEST_F(LibraryConnections, AQueuePairThatConnectsDoesNotAccept) {
  a_.listen();
  std::string error;
  b_.connection = begin(error);
  ASSERT_TRUE(asked());
  owning(a_, [&] {
    const Connection other = a_.endpoint->connections().begin_connect(a_.qp, "198.18.0.2", kPort, error);
    EXPECT_TRUE(other) << error;
    EXPECT_FALSE(a_.listener.begin_accept(a_.qp, error));
    EXPECT_EQ(error, "the queue pair has a connection");
    EXPECT_EQ(a_.listener.waiting(), 1u) << "whoever waits waits on";
  });
  owning(a_, [&] { a_.connection = a_.listener.begin_accept(a_.qp, error); });
  EXPECT_TRUE(both(ConnectionState::kEstablished)) << error;
}

TEST_F(LibraryConnections, UnreliableOnesConnectWhereSomebodyListensForThem) {
  std::string error;
  const auto make_uc = [](Side& side) {
    return side.endpoint->device().create_qp(
        {.type = QpType::kUc, .pd = side.pd, .send_cq = &side.cq, .recv_cq = &side.cq});
  };
  owning(b_, [&] { b_.qp = make_uc(b_); });
  QueuePair uc;
  owning(a_, [&] {
    EXPECT_FALSE(a_.endpoint->connections().listen(kPort, error, "0.0.0.0", QpType::kUd));
    EXPECT_EQ(error, "only RC and UC connect");
    a_.listener = a_.endpoint->connections().listen(kPort, error, "0.0.0.0", QpType::kUc);
    uc = make_uc(a_);
    EXPECT_EQ(uc.initialize(0), ModifyResult::kOk);
    EXPECT_EQ(uc.post(Receive{a_.region.sge(0, 64), 6}), PostResult::kOk);
  });
  b_.connection = begin(error);
  ASSERT_TRUE(asked());
  owning(a_, [&] {
    EXPECT_FALSE(a_.listener.begin_accept(a_.qp, error)) << "an RC queue pair";
    EXPECT_EQ(error, "the listener is for queue pairs of another type");
    EXPECT_EQ(a_.listener.waiting(), 1u);
    a_.connection = a_.listener.begin_accept(uc, error);
  });
  ASSERT_TRUE(both(ConnectionState::kEstablished)) << error;
  b_.memory = {"unreliable"};
  owning(b_, [&] { EXPECT_EQ(b_.qp.post(Send{.from = b_.region.sge(0, 11)}), PostResult::kOk); });
  const auto received = completions(a_, 1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].wr_id, 6u);
  EXPECT_EQ(received[0].status, WcStatus::kSuccess);
  EXPECT_STREQ(a_.memory.data(), "unreliable");
  owning(a_, [&] {
    a_.connection = {};
    uc = {};
  });
}

TEST_F(LibraryConnections, WhoAsksForAnotherTypeIsRefused) {
  a_.listen();
  std::string error;
  owning(b_, [&] {
    b_.qp = b_.endpoint->device().create_qp({.type = QpType::kUc, .pd = b_.pd, .send_cq = &b_.cq, .recv_cq = &b_.cq});
  });
  b_.connection = begin(error);
  ASSERT_TRUE(until([&] { return state_of(b_) == ConnectionState::kEnded; }));
  EXPECT_EQ(owning(b_, [&] { return b_.connection.error(); }), "198.18.0.1 port 7471: refused, reason 9");
}

TEST_F(LibraryConnections, AnImmediateTakesAReceive) {
  owning(a_, [&] {
    EXPECT_EQ(a_.qp.initialize(kRemoteWrite), ModifyResult::kOk);
    EXPECT_EQ(a_.qp.post(Receive{a_.region.sge(0, 0), 8}), PostResult::kOk);
  });
  establish();
  owning(b_, [&] {
    EXPECT_EQ(b_.qp.post(RdmaWrite{.from = b_.region.sge(0, 8), .to = a_.region.remote(), .flags = 0, .imm = 77}),
              PostResult::kOk);
  });
  const auto received = completions(a_, 1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].wr_id, 8u);
  EXPECT_EQ(received[0].imm_or_rkey, 77u);
}

TEST_F(LibraryConnections, TheEndIsToldToBoth) {
  establish();
  EXPECT_EQ(owning(a_, [&] { return a_.connection.error(); }), "");
  owning(a_, [&] {
    EXPECT_EQ(a_.qp.post(Receive{a_.region.sge(0, 64), 3}), PostResult::kOk);
    return 0;
  });
  owning(b_, [&] {
    b_.connection.disconnect();
    b_.connection.disconnect();  // has no further effect
    EXPECT_FALSE(b_.connection);
    EXPECT_EQ(b_.qp.state(), QpState::kErr);
    return 0;
  });
  ASSERT_TRUE(both(ConnectionState::kEnded));
  const auto flushed = completions(a_, 1);
  ASSERT_EQ(flushed.size(), 1u);
  EXPECT_EQ(flushed[0].status, WcStatus::kWrFlushErr);
  EXPECT_EQ(owning(a_, [&] { return a_.connection.error(); }), "198.18.0.2 has ended the connection");
  EXPECT_EQ(owning(b_, [&] { return b_.connection.error(); }), "ended by this side");
}

TEST_F(LibraryConnections, AConnectionThatIsDestroyedEnds) {
  establish();
  owning(b_, [&] {
    b_.connection = {};
    return 0;
  });
  EXPECT_TRUE(until([&] { return state_of(a_) == ConnectionState::kEnded; }));
}

TEST_F(LibraryConnections, AQueuePairThatIsDestroyedEndsItsConnection) {
  establish();
  owning(b_, [&] {
    b_.qp = {};
    EXPECT_EQ(b_.connection.state(), ConnectionState::kEnded);
    b_.connection.disconnect();
  });
  EXPECT_TRUE(until([&] { return state_of(a_) == ConnectionState::kEnded; }));
  EXPECT_EQ(owning(a_, [&] { return a_.connection.error(); }), "198.18.0.2 has ended the connection");
}

TEST_F(LibraryConnections, AQueuePairThatIsDestroyedWhileItConnects) {
  a_.listen();
  std::string error;
  b_.connection = begin(error);
  owning(b_, [&] {
    b_.qp = {};
    EXPECT_FALSE(b_.connection);
  });
  until([n = 0]() mutable { return ++n > 1000; });
  EXPECT_EQ(owning(a_, [&] { return a_.listener.waiting(); }), 0u);
}

TEST_F(LibraryConnections, WaitingEndsWithoutACompletion) {
  const Endpoint::Ownership owner(*a_.endpoint);
  Completion none;
  const Instant begun = a_.endpoint->now();
  EXPECT_EQ(a_.endpoint->wait(a_.cq, {&none, 1}, milliseconds(20)), 0u);
  EXPECT_GE(a_.endpoint->now() - begun, milliseconds(20));
}

TEST_F(LibraryConnections, NobodyListens) {
  std::string error;
  b_.connection = begin(error);
  ASSERT_TRUE(until([&] { return state_of(b_) == ConnectionState::kEnded; }));
  EXPECT_EQ(owning(b_, [&] { return b_.connection.error(); }), "198.18.0.1 port 7471: nobody listens there");
}

TEST_F(LibraryConnections, Refused) {
  a_.listen();
  std::string error;
  EXPECT_FALSE(owning(a_, [&] { return a_.listener.reject(); }));
  b_.connection = begin(error);
  ASSERT_TRUE(asked());
  EXPECT_TRUE(owning(a_, [&] { return a_.listener.reject(); }));
  ASSERT_TRUE(until([&] { return state_of(b_) == ConnectionState::kEnded; }));
  EXPECT_EQ(owning(b_, [&] { return b_.connection.error(); }), "198.18.0.1 port 7471: refused by the program there");
}

TEST_F(LibraryConnections, AListenerThatGoesRefusesWhoWaits) {
  a_.listen();
  std::string error;
  b_.connection = begin(error);
  ASSERT_TRUE(asked());
  owning(a_, [&] {
    a_.listener = {};
    return 0;
  });
  EXPECT_TRUE(until([&] { return state_of(b_) == ConnectionState::kEnded; }));
}

TEST_F(LibraryConnections, WhoAskedAndWentIsNotAccepted) {
  a_.listen();
  std::string error;
  b_.connection = begin(error);
  ASSERT_TRUE(asked());
  owning(b_, [&] {
    b_.connection = {};
    return 0;
  });
  EXPECT_TRUE(until([&] { return owning(a_, [&] { return a_.listener.waiting() == 0; }); }));
  EXPECT_FALSE(owning(a_, [&] { return a_.listener.begin_accept(a_.qp, error); }));
  EXPECT_EQ(error, "nobody has connected");
}

TEST_F(LibraryConnections, PatienceEnds) {
  a_.listen();
  std::string error;
  const ConnectionOptions options{.patience = milliseconds(20)};
  EXPECT_FALSE(owning(a_, [&] { return a_.listener.accept(a_.qp, error, options); }));
  EXPECT_EQ(error, "nobody has connected");
  // The other side is not driven.
  EXPECT_FALSE(
      owning(b_, [&] { return b_.endpoint->connections().connect(b_.qp, "198.18.0.1", kPort, error, options); }));
  EXPECT_EQ(error, "198.18.0.1 port 7471: does not answer");
}

TEST_F(LibraryConnections, WhatCannotBeIsSaidAtOnce) {
  std::string error;
  const auto refused = [&](const std::string& address, const ConnectionOptions& options, QueuePair& qp) {
    const Endpoint::Ownership owner(*b_.endpoint);
    EXPECT_FALSE(b_.endpoint->connections().begin_connect(qp, address, kPort, error, options));
    return error;
  };
  EXPECT_EQ(refused("here", {}, b_.qp), "not an address: here");
  EXPECT_EQ(refused("198.18.0.1", {.private_data = bytes_of(std::array<char, 57>{})}, b_.qp),
            "at most 56 bytes of private data");
  QueuePair none;
  EXPECT_EQ(refused("198.18.0.1", {}, none), "not a queue pair of this endpoint");
  EXPECT_EQ(refused("198.18.0.1", {}, a_.qp), "not a queue pair of this endpoint");
  EXPECT_EQ(owning(b_, [&] { return b_.qp.initialize(0); }), ModifyResult::kOk);
  EXPECT_EQ(refused("2001:db8::1", {}, b_.qp), "2001:db8::1 port 7471: Network is unreachable");
  EXPECT_EQ(owning(b_, [&] { return b_.qp.state(); }), QpState::kInit) << "it is as it was";
  owning(b_, [&] {
    QueuePair ud =
        b_.endpoint->device().create_qp({.type = QpType::kUd, .pd = b_.pd, .send_cq = &b_.cq, .recv_cq = &b_.cq});
    EXPECT_FALSE(b_.endpoint->connections().begin_connect(ud, "198.18.0.1", kPort, error));
    EXPECT_EQ(error, "only RC and UC connect");
    EXPECT_FALSE(b_.endpoint->connections().listen(kPort, error, "198.18.0.9"));
    EXPECT_EQ(error, "198.18.0.9 port 7471: Cannot assign requested address");
    return 0;
  });
  establish();
  EXPECT_EQ(refused("198.18.0.1", {}, b_.qp), "the queue pair must be in RESET or INIT");
}

TEST_F(LibraryConnections, APortIsListenedToOnce) {
  a_.listen();
  std::string error;
  owning(a_, [&] {
    EXPECT_FALSE(a_.endpoint->connections().listen(kPort, error));
    EXPECT_EQ(error, "0.0.0.0 port 7471: somebody else listens there");
    a_.listener = {};
    EXPECT_TRUE(a_.endpoint->connections().listen(kPort, error));
    return 0;
  });
}

}  // namespace
}  // namespace uroce::rdma
