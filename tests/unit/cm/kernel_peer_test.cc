// With Linux as the peer: our messages differ from those that it sent only in numbers that are drawn, and its messages
// are accepted.

#include "captured_mads.h"
#include "pair.h"

namespace uroce::cm::test {
namespace {

class KernelPeerTest : public ::testing::Test {
 protected:
  Network network{1};

  /// Copies bytes [first, first + count) of the message, counted from behind its header, from `other` into `mad`.
  static void take(MadBytes& mad, const MadBytes& other, size_t first, size_t count) {
    std::copy_n(other.begin() + 24 + static_cast<ptrdiff_t>(first), count,
                mad.begin() + 24 + static_cast<ptrdiff_t>(first));
  }
  static void take_transaction(MadBytes& mad, const MadBytes& other) {
    std::copy_n(other.begin() + 8, 8, mad.begin() + 8);
  }

  void expect_request_like(const std::string& own, const std::string& peer, const SocketAddress& to,
                           std::string_view captured) {
    Host& client = network.add_host("client", {own});
    client.mtu_bytes = 4096;
    network.keep_sent = true;
    Id* id = client.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr);
    ASSERT_EQ(client.cm().set_ack_timeout(*id, 19), 0);
    ASSERT_EQ(client.cm().resolve_addr(*id, nullptr, to, milliseconds(2000), network.now()), 0);
    ASSERT_EQ(client.cm().resolve_route(*id, milliseconds(2000), network.now()), 0);
    const ConnParam param{.private_data = {},
                          .responder_resources = 1,
                          .initiator_depth = 1,
                          .retry_count = 7,
                          .rnr_retry_count = 7,
                          .qpn = decode_req(from_hex(captured)).qpn};
    ASSERT_EQ(client.cm().connect(*id, param, {}, network.now()), 0);
    ASSERT_EQ(network.sent.size(), 1u);
    EXPECT_EQ(network.sent[0].dst, parse_ip(peer).value());
    MadBytes ours = network.sent[0].mad;
    const MadBytes theirs = from_hex(captured);
    take_transaction(ours, theirs);
    take(ours, theirs, 0, 4);        // communication ID
    take(ours, theirs, 16, 8);       // GUID
    take(ours, theirs, 44, 3);       // starting PSN
    take(ours, theirs, 88, 3);       // flow label
    take(ours, theirs, 140 + 2, 2);  // source port
    EXPECT_EQ(ours, theirs);
  }
};

TEST_F(KernelPeerTest, OurReqIsThatOfAKernel) {
  expect_request_like("192.168.77.3/24", "192.168.77.2", v4("192.168.77.2", 7174), kKernelReq);
}

TEST_F(KernelPeerTest, OurReqOverIpv6IsThatOfAKernel) {
  expect_request_like("fd77::3/64", "fd77::2", v6("fd77::2", 7174), kKernelReqV6);
}

TEST_F(KernelPeerTest, AKernelConnectsToUs) {
  Host& server = network.add_host("server", {"192.168.77.2/24"});
  server.mtu_bytes = 4096;
  network.keep_sent = true;
  Id* listener = server.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr);
  ASSERT_EQ(server.cm().bind(*listener, v4("192.168.77.2", 7174)), 0);
  ASSERT_EQ(server.cm().listen(*listener, 1), 0);
  const IpAddress client = parse_ip("192.168.77.3").value();
  const auto arrives = [&](const MadBytes& mad) { network.deliver({.src = client, .dst = server.ip(), .mad = mad}); };
  arrives(from_hex(kKernelReq));
  const auto request = server.next_event();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->type, EventType::kConnectRequest);
  EXPECT_EQ(request->id->remote(), v4("192.168.77.3", 0xd891));
  const ConnParam param{
      .private_data = {}, .responder_resources = 1, .initiator_depth = 1, .rnr_retry_count = 7, .qpn = 0x9f};
  ASSERT_EQ(server.cm().accept(*request->id, &param, {}, network.now()), 0);
  ASSERT_EQ(network.sent.size(), 1u);
  MadBytes rep = network.sent[0].mad;
  const MadBytes our_rep = rep;
  take(rep, from_hex(kKernelRep), 0, 4);   // communication ID
  take(rep, from_hex(kKernelRep), 20, 3);  // starting PSN
  take(rep, from_hex(kKernelRep), 28, 8);  // GUID
  EXPECT_EQ(rep, from_hex(kKernelRep));

  QpSettings settings;
  ASSERT_EQ(server.cm().init_qp_attr(*request->id, QpState::kRts, settings), 0);
  EXPECT_EQ(settings.attributes.sq_psn, Psn(0x248993));
  EXPECT_EQ(settings.attributes.timeout, 19);
  ASSERT_EQ(server.cm().init_qp_attr(*request->id, QpState::kRtr, settings), 0);
  EXPECT_EQ(settings.attributes.path_mtu_bytes, 4096u);
  EXPECT_EQ(settings.attributes.av.flow_label, 0xa5595u);

  const auto with_our_id = [&](std::string_view captured) {
    MadBytes mad = from_hex(captured);
    std::copy_n(our_rep.begin() + 24, 4, mad.begin() + 28);
    return mad;
  };
  arrives(with_our_id(kKernelRtu));
  EXPECT_EQ(server.next_event()->type, EventType::kEstablished);
  arrives(with_our_id(kKernelDreq));
  EXPECT_EQ(server.next_event()->type, EventType::kDisconnected);
  ASSERT_EQ(server.cm().disconnect(*request->id, network.now()), 0);
  ASSERT_EQ(network.sent.size(), 2u);
  MadBytes drep = network.sent[1].mad;
  take(drep, from_hex(kKernelDrep), 0, 4);
  EXPECT_EQ(drep, from_hex(kKernelDrep));
}

TEST_F(KernelPeerTest, SidrOfAKernel) {
  Host& server = network.add_host("server", {"192.168.77.2/24"});
  network.keep_sent = true;
  Id* listener = server.cm().create_id(PortSpace::kUdp, QpType::kUd, nullptr);
  ASSERT_EQ(server.cm().bind(*listener, v4("0.0.0.0", 7174)), 0);
  ASSERT_EQ(server.cm().listen(*listener, 1), 0);
  network.deliver({.src = parse_ip("192.168.77.3").value(), .dst = server.ip(), .mad = from_hex(kKernelSidrReq)});
  const auto request = server.next_event();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->id->remote(), v4("192.168.77.3", 0x914f));
  const ConnParam param{.private_data = {}, .qpn = 0xa3};
  ASSERT_EQ(server.cm().accept(*request->id, &param, {}, network.now()), 0);
  ASSERT_EQ(network.sent.size(), 1u);
  EXPECT_EQ(network.sent[0].mad, from_hex(kKernelSidrRep));
}

}  // namespace
}  // namespace uroce::cm::test
