// Datagrams that no honest peer sends. An established connection is not touched, what is kept is bounded, and
// everything that is dropped is counted by its reason.

#include <cstdlib>

#include "captured_mads.h"
#include "cm/cma_header.h"
#include "pair.h"

namespace uroce::cm::test {
namespace {

class HostileTest : public Pair {
 protected:
  void SetUp() override {
    network.keep_sent = true;
    listener = listen();
    ends = connected();
    lives = network.sent;
    network.sent.clear();
    req = decode_req(lives.at(0).mad);
    rep = decode_rep(lives.at(1).mad);
  }

  void to_server(const MadBytes& mad) { network.deliver({.src = client.ip(), .dst = server.ip(), .mad = mad}); }
  void to_client(const MadBytes& mad) { network.deliver({.src = server.ip(), .dst = client.ip(), .mad = mad}); }
  void to_server_from(const char* src, const MadBytes& mad) {
    network.deliver({.src = parse_ip(src).value(), .dst = server.ip(), .mad = mad});
  }

  /// Both sides still have the connection, and neither program was told anything.
  void expect_untouched() {
    EXPECT_EQ(next(client), "");
    EXPECT_EQ(next(server), "");
    QpSettings settings;
    EXPECT_EQ(client.cm().init_qp_attr(*ends.active, QpState::kRts, settings), 0);
    EXPECT_EQ(server.cm().init_qp_attr(*ends.passive, QpState::kRts, settings), 0);
  }
  /// And the connection still ends as it should.
  void expect_it_ends() {
    network.passes = {};
    ASSERT_EQ(client.cm().disconnect(*ends.active, network.now()), 0);
    pass();
    while (next(server) != "disconnected") {
      ASSERT_NE(text_of(event.type), "") << "lost";
      if (!server.has_events()) FAIL() << "no end";
    }
    EXPECT_EQ(event.id, ends.passive);
  }
  /// A REQ of another host that would be accepted.
  Req request_of(const char* src, uint32_t id, uint32_t qpn) const {
    Req other = req;
    other.local_id = id;
    other.qpn = qpn;
    other.ca_guid = 0x1234;
    other.path.local_gid = parse_ip(src).value();
    other.private_data = with_header({.src_port = 4000, .src = other.path.local_gid, .dst = server.ip()});
    return other;
  }
  static PrivateData with_header(const CmaHeader& header) { return with_cma_header(header, {}); }
  uint16_t refusal() {
    if (network.sent.empty()) return 0;
    const Rej rej = decode_rej(network.sent.back().mad);
    MadHeader header;
    decode(network.sent.back().mad, header);
    network.sent.clear();
    return header.attribute == Attribute::kRej ? rej.reason : 0;
  }

  Id* listener = nullptr;
  Ends ends;
  std::vector<Flying> lives;  // REQ, REP, RTU
  Req req;
  Rep rep;
};

TEST_F(HostileTest, ForgedDreqs) {
  const Dreq good{.local_id = req.local_id, .remote_id = rep.local_id, .remote_qpn = 0x222};
  for (unsigned bit = 0; bit < 32; bit++) {
    Dreq wrong = good;
    wrong.local_id ^= 1u << bit;
    to_server(encode(1, wrong));
    wrong = good;
    wrong.remote_id ^= 1u << bit;
    to_server(encode(1, wrong));
    if (bit >= 24) continue;
    wrong = good;
    wrong.remote_qpn ^= 1u << bit;
    to_server(encode(1, wrong));
  }
  to_server_from("10.0.0.9", encode(1, good));
  EXPECT_EQ(server.cm().counters().drop_wrong_peer, 32u + 24 + 1);
  EXPECT_EQ(server.cm().counters().drop_unknown_id, 32u);
  expect_untouched();
  to_server(encode(1, good));
  EXPECT_EQ(next(server), "disconnected") << "so it was only the wrong fields";
}

TEST_F(HostileTest, ForgedRejs) {
  const Rej good{.local_id = req.local_id, .remote_id = rep.local_id, .answered = Answered::kOther, .reason = 28};
  for (unsigned bit = 0; bit < 32; bit++) {
    Rej wrong = good;
    wrong.local_id ^= 1u << bit;
    to_server(encode(1, wrong));
    wrong = good;
    wrong.remote_id ^= 1u << bit;
    to_server(encode(1, wrong));
  }
  to_server_from("10.0.0.9", encode(1, good));
  // A REJ that names no ID of ours must have the peer's GUID.
  Rej timeout{.local_id = req.local_id, .remote_id = 0, .answered = Answered::kReq, .reason = 4, .ari_length = 8};
  to_server(encode(1, timeout));
  timeout.local_id++;
  to_server(encode(1, timeout));
  expect_untouched();
  EXPECT_EQ(network.sent.size(), 0u) << "a REJ is never answered";
  to_server(encode(1, good));
  EXPECT_EQ(next(server), "rejected");
}

TEST_F(HostileTest, ForgedRepliesToARequest) {
  network.passes = [](const Flying&) { return false; };
  Id* id = resolved();
  ASSERT_EQ(client.cm().connect(*id, parameters(0x113), {}, network.now()), 0);
  const uint32_t our_id = decode_req(network.sent.back().mad).local_id;
  Rep forged = rep;
  forged.remote_id = our_id;
  forged.local_id = 7;
  forged.qpn = 0x777;
  network.deliver({.src = parse_ip("10.0.0.9").value(), .dst = client.ip(), .mad = encode(1, forged)});
  network.deliver({.src = server.ip(), .dst = client.ip(1), .mad = encode(1, forged)});
  EXPECT_EQ(client.cm().counters().drop_wrong_peer, 2u);
  for (const uint32_t qpn : {0u, 1u, 0xffffffu}) {
    forged.qpn = qpn;
    to_client(encode(1, forged));
  }
  forged.qpn = 0x777;
  forged.local_id = 0;
  to_client(encode(1, forged));
  EXPECT_EQ(client.cm().counters().drop_bad_value, 4u);
  to_client(encode(1, SidrRep{.request_id = our_id}));
  EXPECT_EQ(client.cm().counters().drop_wrong_state, 1u);
  expect_untouched();
  forged.local_id = 7;
  to_client(encode(1, forged));
  EXPECT_EQ(next(client), "response");
}

TEST_F(HostileTest, EveryFieldOfAReqWrong) {
  const Req good = request_of("10.0.0.3", 77, 0x500);
  const auto send = [&](const Req& r) { to_server_from("10.0.0.3", encode(1, r)); };
  const auto wrong = [&](auto&& change) {
    Req r = good;
    change(r);
    send(r);
    return refusal();
  };
  for (const uint8_t transport : {uint8_t{2}, uint8_t{3}})
    EXPECT_EQ(wrong([&](Req& r) { r.transport = transport; }), 9);
  EXPECT_EQ(wrong([](Req& r) { r.extended_transport = 1; }), 9);
  for (const uint8_t mtu : std::array<uint8_t, 6>{0, 4, 5, 6, 7, 15})
    EXPECT_EQ(wrong([&](Req& r) { r.path_mtu = mtu; }), 26) << int{mtu};
  EXPECT_EQ(wrong([](Req& r) { r.path.local_gid.bytes[15]++; }), 12);
  EXPECT_EQ(wrong([](Req& r) { r.path.remote_gid.bytes[15]++; }), 12);
  for (uint32_t qpn : {0u, 1u, 0xffffffu}) EXPECT_EQ(wrong([&](Req& r) { r.qpn = qpn; }), 5) << qpn;
  EXPECT_EQ(wrong([](Req& r) { r.rdc_exists = true; }), 5);
  EXPECT_EQ(server.cm().counters().refused_malformed, 15u);
  EXPECT_EQ(wrong([](Req& r) { r.service_id++; }), 8);
  EXPECT_EQ(wrong([](Req& r) { r.service_id |= uint64_t{1} << 40; }), 8);
  EXPECT_EQ(wrong([](Req& r) { r.private_data.bytes[0] = 1; }), 8);     // an unknown version
  EXPECT_EQ(wrong([](Req& r) { r.private_data.bytes[1] = 0x60; }), 8);  // says IPv6, but has IPv4 addresses
  EXPECT_EQ(wrong([](Req& r) { r.private_data.bytes[19]++; }), 8);      // a source that is not the sender's
  EXPECT_EQ(wrong([](Req& r) { r.private_data.bytes[35]++; }), 8);      // a destination that is not ours
  EXPECT_EQ(wrong([](Req& r) { r.local_id = 0; }), 0);
  EXPECT_EQ(server.cm().counters().drop_bad_value, 1u);
  EXPECT_EQ(server.cm().connection_count(), 1u);
  expect_untouched();
  // Excessive times are no error, but are not used.
  Req odd = good;
  odd.local_response_timeout = 0;
  odd.path.local_ack_timeout = 31;
  odd.retry_count = odd.rnr_retry_count = 7;
  send(odd);
  ASSERT_EQ(next(server), "request");
  const ConnParam param = parameters(0x666);
  ASSERT_EQ(server.cm().accept(*event.id, &param, {}, network.now()), 0);
  EXPECT_EQ(server.cm().next_timeout(), network.now() + nanoseconds(4096 << 16));
}

TEST_F(HostileTest, AnotherRequestUnderTheSameId) {
  Req other = req;
  other.qpn = 0x999;
  to_server(encode(1, other));
  EXPECT_EQ(refusal(), 30);
  expect_untouched();
}

/// Every single bit flip of every kind of message that a connection's peers may send.
TEST_F(HostileTest, EveryBitOfEveryMessageWrong) {
  std::vector<MadBytes> originals;
  for (const Flying& flying : lives) originals.push_back(flying.mad);
  originals.push_back(encode(1, Mra{req.local_id, rep.local_id, Answered::kRep, 24}));
  originals.push_back(encode(1, Apr{req.local_id, rep.local_id, 0}));
  originals.push_back(encode_drep(1, {.local_id = req.local_id, .remote_id = rep.local_id, .private_data = {}}));
  originals.push_back(from_hex(kKernelSidrReq));
  originals.push_back(from_hex(kKernelSidrRep));
  server.taken = [](const Event& e) { return e.type != EventType::kConnectRequest; };
  unsigned sent = 0;
  for (const MadBytes& original : originals) {
    for (size_t bit = 0; bit < original.size() * 8; bit++) {
      MadBytes mad = original;
      mad[bit / 8] = static_cast<uint8_t>(mad[bit / 8] ^ (1u << (bit % 8)));
      MadHeader header;
      const bool ends_it = decode(mad, header) == HeaderFault::kNone &&
                           (header.attribute == Attribute::kDreq || header.attribute == Attribute::kRej);
      if (ends_it) continue;  // with both IDs right it ends the connection
      sent++;
      to_server(mad);
      to_client(mad);
      to_server_from("10.0.0.9", mad);
    }
  }
  EXPECT_GT(sent, 16'000u);
  pass(milliseconds(100));
  expect_untouched();
  EXPECT_LE(server.cm().connection_count(), 2u);
  EXPECT_GT(server.cm().counters().drop_not_cm, 0u);
  EXPECT_GT(server.cm().counters().drop_unknown_message, 0u);
  expect_it_ends();
}

TEST_F(HostileTest, RandomBytes) {
  const char* text = std::getenv("UROCE_SEED");
  SeededRandom random(text != nullptr ? std::strtoull(text, nullptr, 0) : 4711);
  server.taken = [](const Event& e) { return e.type != EventType::kConnectRequest; };
  for (int i = 0; i < 100'000; i++) {
    MadBytes mad = random.below(2) != 0 ? lives[random.below(3)].mad : MadBytes{};
    if (random.below(4) == 0) {
      for (uint8_t& byte : mad) byte = static_cast<uint8_t>(random.next_u32());
    }
    const MadBytes valid = encode_rtu(random.next_u64(), {});
    std::copy_n(valid.begin(), 24, mad.begin());
    mad[17] = static_cast<uint8_t>(0x0f + random.below(13));
    for (unsigned n = random.below(4); n > 0; n--)
      mad[24 + random.below(232)] = static_cast<uint8_t>(random.next_u32());
    // A stranger does not know both IDs.
    const bool knows = std::equal(mad.begin() + 24, mad.begin() + 28, lives[0].mad.begin() + 24) &&
                       std::equal(mad.begin() + 28, mad.begin() + 32, lives[1].mad.begin() + 24);
    if (knows) mad[31] ^= 1;
    const IpAddress src = IpAddress::v4(0x0a000000 + random.below(20));
    if (src != server.ip()) network.deliver({.src = src, .dst = server.ip(), .mad = mad});
  }
  network.passes = [](const Flying&) { return false; };
  expect_untouched();
  EXPECT_LT(server.cm().connection_count(), 100u);
  expect_it_ends();
}

TEST_F(HostileTest, WhatIsNotFromAnotherQueuePairOne) {
  const MadBytes dreq = encode(1, Dreq{.local_id = req.local_id, .remote_id = rep.local_id, .remote_qpn = 0x222});
  ReceivedMad mad{.src_ip = client.ip(), .dst_ip = server.ip(), .src_qpn = 0x55, .bytes = dreq};
  server.cm().on_mad(mad, network.now());
  mad = {.src_ip = {}, .dst_ip = server.ip(), .bytes = dreq};
  server.cm().on_mad(mad, network.now());
  mad = {.src_ip = parse_ip("224.0.0.1").value(), .dst_ip = server.ip(), .bytes = dreq};
  server.cm().on_mad(mad, network.now());
  EXPECT_EQ(server.cm().counters().drop_bad_source, 3u);
  expect_untouched();
}

/// All messages of one connection, repeated during the next one and after it.
TEST_F(HostileTest, Replays) {
  const auto replay = [&](const std::vector<Flying>& old) {
    for (int times = 0; times < 3; times++) {
      for (const Flying& flying : old) network.deliver(flying);
    }
  };
  client.cm().disconnect(*ends.active, network.now());
  pass();
  ASSERT_EQ(next(server), "disconnected");
  server.cm().disconnect(*ends.passive, network.now());
  pass();
  ASSERT_EQ(next(client), "disconnected");
  lives.insert(lives.end(), network.sent.begin(), network.sent.end());
  ASSERT_EQ(lives.size(), 5u);
  replay(lives);
  pass(milliseconds(5'000));
  EXPECT_EQ(next(client), "timewait-exit");
  EXPECT_EQ(next(server), "timewait-exit");
  network.sent.clear();
  ends = connected();
  replay(lives);
  pass(milliseconds(5'000));
  expect_untouched();
  expect_it_ends();
}

TEST_F(HostileTest, AFloodOfRequests) {
  const CmLimits limits{.pending_requests = 300, .pending_per_listener = 200, .resting_connections = 50};
  Host& target = network.add_host("target", {"10.0.0.7/24"}, limits);
  Id* second = nullptr;
  for (uint16_t port : {kPort, uint16_t{kPort + 1}}) {
    second = target.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr);
    ASSERT_EQ(target.cm().bind(*second, v4("10.0.0.7", port)), 0);
    ASSERT_EQ(target.cm().listen(*second, 1), 0);
  }
  const auto flood = [&](uint64_t service_id, uint32_t count, uint32_t first_id) {
    for (uint32_t i = 0; i < count; i++) {
      const IpAddress src = IpAddress::v4(0x0a000100 + i % 100);
      Req r = request_of("10.0.0.3", first_id + i, 0x500 + first_id + i);
      r.service_id = service_id;
      r.path.local_gid = src;
      r.path.remote_gid = target.ip();
      r.private_data = with_header({.src_port = 1, .src = src, .dst = target.ip()});
      network.deliver({.src = src, .dst = target.ip(), .mad = encode(1, r)});
    }
  };
  flood(0x01060000 + kPort, 1000, 1000);
  EXPECT_EQ(target.cm().connection_count(), 200u);
  EXPECT_EQ(target.cm().counters().drop_listener_full, 800u);
  flood(0x01060000 + kPort + 1, 1000, 3000);
  EXPECT_EQ(target.cm().connection_count(), 300u);
  EXPECT_EQ(target.cm().counters().drop_requests_full, 900u);
  // When they are refused, only as many are remembered as there is room for.
  std::vector<Id*> children;
  while (const auto got = target.next_event()) children.push_back(got->id);
  ASSERT_EQ(children.size(), 300u);
  for (Id* child : children) target.cm().destroy_id(child, network.now());
  EXPECT_EQ(target.cm().connection_count(), 50u);
  EXPECT_EQ(target.cm().counters().rests_cut_short, 250u);
  flood(0x01060000 + kPort, 1000, 5000);
  EXPECT_EQ(target.cm().connection_count(), 250u) << "there is room again";
}

TEST_F(HostileTest, AFloodOfSidr) {
  Host& target = network.add_host("target", {"10.0.0.7/24"}, {.pending_per_listener = 20, .resting_connections = 5});
  Id* id = target.cm().create_id(PortSpace::kUdp, QpType::kUd, nullptr);
  ASSERT_EQ(target.cm().bind(*id, v4("0.0.0.0", kPort)), 0);
  ASSERT_EQ(target.cm().listen(*id, 1), 0);
  const IpAddress src = parse_ip("10.0.0.3").value();
  for (uint32_t i = 0; i < 100; i++) {
    const PrivateData data = with_header({.src_port = 1, .src = src, .dst = target.ip()});
    const MadBytes mad = encode(1, SidrReq{.request_id = i, .service_id = 0x01110000 + kPort, .private_data = data});
    network.deliver({.src = src, .dst = target.ip(), .mad = mad});
  }
  EXPECT_EQ(target.cm().connection_count(), 20u);
  EXPECT_EQ(target.cm().counters().drop_listener_full, 80u);
  unsigned answered = 0;
  while (const auto got = target.next_event()) {
    const ConnParam param = parameters(0x333);
    EXPECT_EQ(target.cm().accept(*got->id, &param, {}, network.now()), 0);
    target.cm().destroy_id(got->id, network.now());
    answered++;
  }
  EXPECT_EQ(answered, 20u);
  EXPECT_EQ(target.cm().connection_count(), 5u);
}

TEST_F(HostileTest, WhoCannotBeAnsweredIsNotKept) {
  server.unreachable = parse_ip("10.0.0.3").value();
  to_server_from("10.0.0.3", encode(1, request_of("10.0.0.3", 77, 0x500)));
  Req nobody = request_of("10.0.0.3", 78, 0x501);
  nobody.service_id++;
  to_server_from("10.0.0.3", encode(1, nobody));
  to_server_from("10.0.0.3", encode(1, SidrReq{.request_id = 1, .service_id = 0x01110001}));
  to_server_from("10.0.0.3", encode(1, Dreq{.local_id = 5, .remote_id = 6}));
  EXPECT_EQ(server.cm().counters().drop_no_way_back, 4u);
  EXPECT_EQ(server.cm().connection_count(), 1u);
  EXPECT_TRUE(network.sent.empty());
  expect_untouched();
}

TEST_F(HostileTest, FloodsDoNotKeepAConnectionFromEnding) {
  for (uint32_t i = 0; i < 50'000; i++) {
    const Req r = request_of("10.0.0.3", 100'000 + i, 0x10000 + i);
    to_server_from("10.0.0.3", encode(1, r));
    to_server_from("10.0.0.3", encode(1, SidrReq{.request_id = i, .service_id = 0x01111c06}));
    network.sent.clear();
  }
  EXPECT_EQ(server.cm().connection_count(), 1 + CmLimits{}.pending_per_listener);
  expect_it_ends();
}

}  // namespace
}  // namespace uroce::cm::test
