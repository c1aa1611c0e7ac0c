// Peers that are gone without a word, and whose end is reported by another side: connections with them end as if the
// peers had ended them, and no others do.

#include <cerrno>

#include "protocol_fixture.h"

namespace uroce::cm::test {
namespace {

class LostPeerTest : public ProtocolTest {
 protected:
  /// The client learns that the server's program is gone: `drew` says which communication IDs were that program's.
  void server_is_lost(std::function<bool(uint32_t)> drew = [](uint32_t) { return true; }) {
    lose_all();
    const auto was_at = [this](const IpAddress& ip, const IpAddress& from) {
      EXPECT_TRUE(client.has(from));
      return server.has(ip);
    };
    client.cm().on_peer_lost({was_at, std::move(drew)}, network.now());
  }
  void client_is_lost() {
    lose_all();
    const auto was_at = [this](const IpAddress& ip, const IpAddress&) { return client.has(ip); };
    server.cm().on_peer_lost({was_at, [](uint32_t) { return true; }}, network.now());
  }
  void lose_all() {
    network.sent.clear();
    network.passes = [](const Flying&) { return false; };
  }
};

TEST_F(LostPeerTest, AConnectionEndsAsWithADreq) {
  listen();
  const Ends ends = connected();
  server_is_lost();
  EXPECT_EQ(next(client), "disconnected");
  EXPECT_EQ(event.id, ends.active);
  EXPECT_EQ(event.status, 0);
  EXPECT_EQ(client.cm().counters().ended_for_peer, 1u);
  EXPECT_EQ(client.cm().disconnect(*ends.active, network.now()), 0) << "as programs do when they are told";
  EXPECT_TRUE(sent().empty()) << "nobody waits for a DREP";
  pass(milliseconds(1000));
  EXPECT_EQ(next(client), "timewait-exit");
  client.cm().destroy_id(ends.active, network.now());
  EXPECT_EQ(client.cm().connection_count(), 0u);
  EXPECT_TRUE(sent().empty());
}

TEST_F(LostPeerTest, AlsoAtTheSideThatAccepted) {
  listen();
  const Ends ends = connected();
  client_is_lost();
  EXPECT_EQ(next(server), "disconnected");
  EXPECT_EQ(event.id, ends.passive);
  EXPECT_TRUE(sent().empty());
}

TEST_F(LostPeerTest, OthersGoOn) {
  listen();
  const Ends ends = connected();
  client.cm().on_peer_lost({[](const IpAddress&, const IpAddress&) { return false; }, [](uint32_t) { return true; }},
                           network.now());
  EXPECT_EQ(next(client), "") << "at another address";
  server_is_lost([](uint32_t) { return false; });
  EXPECT_EQ(next(client), "") << "another program at the same address";
  EXPECT_EQ(client.cm().counters().ended_for_peer, 0u);
  network.passes = nullptr;
  EXPECT_EQ(client.cm().disconnect(*ends.active, network.now()), 0);
  pass();
  EXPECT_EQ(next(server), "disconnected");
}

/// When a program that claimed the host's numbers is gone, connections between programs that remain go on.
TEST_F(LostPeerTest, AConnectionOfAProgramWithItselfGoesOn) {
  listen();
  Id* const id = server.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr);
  ASSERT_EQ(server.cm().resolve_addr(*id, nullptr, v4("10.0.0.2", kPort), milliseconds(2000), network.now()), 0);
  ASSERT_EQ(next(server), "addr-resolved");
  ASSERT_EQ(server.cm().resolve_route(*id, milliseconds(2000), network.now()), 0);
  ASSERT_EQ(next(server), "route-resolved");
  ASSERT_EQ(server.cm().connect(*id, parameters(0x111), {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(server), "request");
  const ConnParam param = parameters(0x222);
  ASSERT_EQ(server.cm().accept(*event.id, &param, {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(server), "response");
  ASSERT_EQ(server.cm().accept(*id, nullptr, {}, network.now()), 0);
  pass();
  ASSERT_EQ(next(server), "established");
  const auto was_at = [this](const IpAddress& ip, const IpAddress&) { return server.has(ip); };
  server.cm().on_peer_lost({was_at, [](uint32_t) { return true; }}, network.now());
  EXPECT_EQ(next(server), "");
  EXPECT_EQ(server.cm().counters().ended_for_peer, 0u);
}

TEST_F(LostPeerTest, WhoWaitsForADrepWaitsNoLonger) {
  listen();
  const Ends ends = connected();
  lose_all();
  EXPECT_EQ(client.cm().disconnect(*ends.active, network.now()), 0);
  EXPECT_EQ(sent(), std::vector{Attribute::kDreq});
  server_is_lost();
  EXPECT_EQ(next(client), "disconnected");
  EXPECT_EQ(event.status, 0);
  pass(kReqTimeout);
  EXPECT_TRUE(sent().empty()) << "no repetition";
}

TEST_F(LostPeerTest, AnEndThatNobodyOwnsIsOver) {
  listen();
  const Ends ends = connected();
  lose_all();
  client.cm().destroy_id(ends.active, network.now());
  server_is_lost();
  pass(milliseconds(1000));
  EXPECT_EQ(client.cm().connection_count(), 0u);
  EXPECT_FALSE(client.has_events());
}

TEST_F(LostPeerTest, ToldTwiceIsToldOnce) {
  listen();
  const Ends ends = connected();
  EXPECT_EQ(server.cm().disconnect(*ends.passive, network.now()), 0);
  pass();
  EXPECT_EQ(next(client), "disconnected");
  server_is_lost();
  server_is_lost();
  pass(milliseconds(1000));
  EXPECT_EQ(next(client), "timewait-exit");
  EXPECT_EQ(next(client), "");
}

/// As when the peer destroys its Id, which sends REJ 4.
TEST_F(LostPeerTest, ARequestIsRefused) {
  listen();
  connecting();
  Id* const child = requested();
  client_is_lost();
  EXPECT_EQ(next(server), "rejected");
  EXPECT_EQ(event.id, child);
  EXPECT_EQ(event.status, 4);
  const ConnParam param = parameters(0x222);
  EXPECT_EQ(server.cm().accept(*child, &param, {}, network.now()), EINVAL);
}

TEST_F(LostPeerTest, AnAnswerIsRefused) {
  listen();
  Id* const id = connecting();
  accept(requested());
  pass();
  EXPECT_EQ(next(client), "response");
  server_is_lost();
  EXPECT_EQ(next(client), "rejected");
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(event.status, 28);
  EXPECT_EQ(client.cm().accept(*id, nullptr, {}, network.now()), EINVAL);
}

/// The client cannot know whether the program that is gone is the one that it asked.
TEST_F(LostPeerTest, WhoHasNoAnswerAsksAgainAtOnce) {
  lose(Attribute::kReq);
  connecting();
  EXPECT_EQ(sent(), std::vector{Attribute::kReq});
  network.passes = nullptr;  // nothing listens there any more
  client.cm().on_peer_lost(
      {[this](const IpAddress& ip, const IpAddress&) { return server.has(ip); }, [](uint32_t) { return true; }},
      network.now());
  pass(milliseconds(1000));
  EXPECT_EQ(next(client), "rejected");
  EXPECT_EQ(event.status, 8);
}

}  // namespace
}  // namespace uroce::cm::test
