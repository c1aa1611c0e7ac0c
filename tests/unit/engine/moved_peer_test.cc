// A connection and the MAC of its peer: what can change it, and how soon a peer that really moved is found.
#include <gmock/gmock.h>

#include "engine/capture.h"
#include "packet/host_frames.h"
#include "rig.h"
#include "transport/counters.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;

constexpr MacAddress kHolder{{0x02, 0, 0, 0, 0, 2}};  // the rig's peer
constexpr MacAddress kOther{{0x02, 0, 0, 0, 0, 9}};

struct Questions final : Capture {
  std::vector<std::pair<Instant, MacAddress>> asked;
  void on_frame(Direction direction, Instant now, std::span<const uint8_t> frame) override {
    const auto link = decode_link(frame);
    if (direction != Direction::kSent || !link) return;
    const auto icmp = decode_icmp(*link);
    if (link->ethertype == kEtherArp || icmp) asked.emplace_back(now, link->dst_mac);
  }
};

class MovedPeer : public testing::TestWithParam<bool> {
 protected:
  static RigOptions options(QpType type = QpType::kRc) {
    RigOptions options;
    options.type = type;
    options.ipv6 = GetParam();
    options.attributes.timeout = 14;  // as perftest has it
    options.attributes.retry_cnt = 7;
    return options;
  }
  /// `mac` announces the peer's address as its own, or answers for it.
  static Bytes says(Rig& rig, const MacAddress& mac, bool answer) {
    const Route path = rig.path_from_peer();
    const MacAddress to = answer ? path.dst_mac : GetParam() ? multicast_mac(all_nodes_multicast()) : kBroadcastMac;
    Bytes frame(200);
    if (GetParam()) {
      NeighbourMessage m;
      m.advertisement = m.override_cache = true;
      m.solicited = answer;
      m.src_ip = m.target = path.src_ip;
      m.dst_ip = answer ? path.dst_ip : all_nodes_multicast();
      m.link_layer = mac;
      frame.resize(encode_neighbour_message(frame, {to, mac, 0}, m));
    } else {
      const Arp arp{answer ? Arp::kReply : Arp::kRequest, mac, path.src_ip, path.dst_mac,
                    answer ? path.dst_ip : path.src_ip};
      frame.resize(encode_arp(frame, {to, mac, 0}, arp));
    }
    return frame;
  }
  /// Lets `mac` answer every question that it hears, for `duration`.
  static void live(Rig& rig, Questions& questions, const MacAddress& mac, Duration duration) {
    for (const Instant end = rig.now() + duration; rig.now() < end;) {
      rig.advance(milliseconds(1));
      const auto asked = std::exchange(questions.asked, {});
      for (const auto& [when, whom] : asked) {
        if (whom == mac || whom.is_multicast()) rig.arrive(says(rig, mac, true));
      }
    }
  }
  static std::vector<MacAddress> destinations(Rig& rig) {
    std::vector<MacAddress> to;
    for (const Bytes& frame : rig.sent_frames()) to.push_back(decode_link(frame)->dst_mac);
    return to;
  }
};

/// Another machine has the address and did not announce it: the first timeout starts the questions, and 310 ms later it
/// is found.
TEST_P(MovedPeer, ATimeoutFindsThePeerAtAnotherMac) {
  Rig rig(options());
  Questions questions;
  rig.engine().set_capture(&questions);
  rig.advance(milliseconds(5000));
  rig.post(rig.write_wr(4));
  EXPECT_THAT(destinations(rig), ElementsAre(kHolder));
  live(rig, questions, kOther, milliseconds(67 + 310));
  for (const MacAddress& to : destinations(rig)) EXPECT_EQ(to, kHolder);
  live(rig, questions, kOther, milliseconds(2));
  // At once, without waiting for a timer.
  EXPECT_THAT(destinations(rig), ElementsAre(kOther));
  ASSERT_EQ(rig.observer().neighbour_news.size(), 1u);
  EXPECT_EQ(rig.observer().neighbour_news[0].kind, NeighbourNews::Kind::kMoved);
  EXPECT_EQ(rig.observer().neighbour_news[0].claimant, kOther);
  rig.arrive(ack(Rig::kOurPsn, 1));
  EXPECT_THAT(rig.completed(), ElementsAre("write 1: success"));
  rig.engine().set_capture(nullptr);
}

/// A peer that is slow or loses packets, but lives, is asked at most once a second, and nothing else changes.
TEST_P(MovedPeer, APeerThatIsOnlySlowKeepsItsMac) {
  Rig rig(options());
  Questions questions;
  rig.engine().set_capture(&questions);
  rig.advance(milliseconds(5000));
  rig.post(rig.write_wr(4));
  size_t asked = 0;
  for (int i = 0; i < 800; i++) {
    rig.advance(milliseconds(1));
    for (const auto& [when, whom] : std::exchange(questions.asked, {})) {
      EXPECT_EQ(whom, kHolder);
      asked++;
      rig.arrive(says(rig, kHolder, true));
    }
  }
  EXPECT_EQ(asked, 1u);
  for (const MacAddress& to : destinations(rig)) EXPECT_EQ(to, kHolder);
  EXPECT_TRUE(rig.observer().neighbour_news.empty());
  rig.engine().set_capture(nullptr);
}

/// Thousands of forged frames while packets flow: no packet goes to the wrong host, and the two MACs are reported once.
TEST_P(MovedPeer, AThirdHostDoesNotTakeTheConnection) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    Rig rig(options(type));
    Questions questions;
    rig.engine().set_capture(&questions);
    rig.advance(milliseconds(5000));
    for (uint32_t i = 0; i < 2000; i++) {
      for (int burst = 0; burst < 4; burst++) rig.arrive(says(rig, kOther, burst % 2 == 0));
      live(rig, questions, kHolder, milliseconds(1));
      ASSERT_EQ(rig.post(rig.write_wr(4)), PostResult::kOk);
      ASSERT_THAT(destinations(rig), ElementsAre(kHolder)) << i;
      if (type == QpType::kRc) rig.arrive(ack(Rig::kOurPsn + i, i + 1));
      ASSERT_THAT(rig.completed(), ElementsAre("write 1: success"));
    }
    ASSERT_EQ(rig.observer().neighbour_news.size(), 1u);
    const NeighbourNews& news = rig.observer().neighbour_news[0];
    EXPECT_EQ(news.kind, NeighbourNews::Kind::kDisputed);
    EXPECT_EQ(news.holder, kHolder);
    EXPECT_EQ(news.claimant, kOther);
    EXPECT_EQ(rig.engine().counters().neighbour_claims, 8000u);
    EXPECT_EQ(rig.engine().counters().neighbour_moves, 0u);
    rig.engine().set_capture(nullptr);
  }
}

/// A failover that is announced is followed also by an unreliable connection, which notices no silence.
TEST_P(MovedPeer, AnAnnouncedFailoverIsFollowed) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    Rig rig(options(type));
    Questions questions;
    rig.engine().set_capture(&questions);
    rig.advance(milliseconds(5000));
    rig.arrive(says(rig, kOther, false));
    live(rig, questions, kOther, milliseconds(311));
    rig.post(rig.write_wr(4));
    EXPECT_THAT(destinations(rig), ElementsAre(kOther));
    EXPECT_EQ(rig.observer().neighbour_news.size(), 1u);
    rig.engine().set_capture(nullptr);
  }
}

/// The questions for a peer that is not there come to an end; what is sent to it later begins anew, as it does with the
/// kernel's ARP. This holds for connections and for datagrams, which have never known a MAC.
TEST_P(MovedPeer, APeerThatCameLateIsFoundByTheNextPacket) {
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    RigOptions late = options(type);
    late.resolved = false;
    Rig rig(late);
    Questions questions;
    rig.engine().set_capture(&questions);
    std::unique_ptr<AddressHandle> ah;
    SendWr wr = rig.send_wr(4);
    if (type == QpType::kUd) {
      AddressVector av;
      av.dgid = rig.path_from_peer().src_ip;
      av.sgid_index = GetParam() ? 2 : 1;
      ah = rig.engine().create_ah(rig.pd(), av, rig.now());
      wr.ah = ah.get();
      wr.remote_qpn = Rig::kPeerQpn;
    }
    for (int i = 0; i < 20'000; i++) rig.advance(milliseconds(1));
    questions.asked.clear();
    for (int i = 0; i < 20'000; i++) rig.advance(milliseconds(1));
    EXPECT_TRUE(questions.asked.empty()) << "nobody sends anything";
    ASSERT_EQ(rig.post(wr), PostResult::kOk);
    rig.advance(milliseconds(1));
    ASSERT_EQ(questions.asked.size(), 1u) << static_cast<int>(type);
    EXPECT_TRUE(questions.asked[0].second.is_multicast());
    rig.sent_frames();
    live(rig, questions, kHolder, milliseconds(2));
    if (type != QpType::kRc) {
      ASSERT_EQ(rig.post(wr), PostResult::kOk);
    }
    EXPECT_THAT(destinations(rig), ElementsAre(kHolder)) << static_cast<int>(type);
    rig.engine().set_capture(nullptr);
    if (ah) rig.engine().destroy_ah(ah.get());
  }
}

/// However much is sent, a host that is not there causes a round of questions, and the next a second after its end.
TEST_P(MovedPeer, TrafficToNobodyAsksNoMoreThanARoundAtATime) {
  RigOptions nobody = options(QpType::kUc);
  nobody.resolved = false;
  Rig rig(nobody);
  for (int i = 0; i < 8'000; i++) rig.advance(milliseconds(1));
  Questions questions;
  rig.engine().set_capture(&questions);
  const Instant begin = rig.now() + milliseconds(1);
  for (int i = 0; i < 15'000; i++) {
    ASSERT_EQ(rig.post(rig.write_wr(4)), PostResult::kOk);
    rig.completed();
    rig.advance(milliseconds(1));
  }
  std::vector<int64_t> at_ms;
  for (const auto& [when, whom] : questions.asked) at_ms.push_back((when - begin).ns / 1'000'000);
  std::vector<int64_t> expected{0, 10, 30, 70, 150, 310, 630, 1270, 2270, 3270, 4270, 5270, 6270};
  // A question leaves in the turn after the frame that it is for, a millisecond later.
  for (size_t i = 0; i < 13; i++) expected.push_back(expected[i] + 7271);
  for (size_t i = 0; i < 6; i++) expected.push_back(expected[i] + 2 * 7271);
  EXPECT_EQ(at_ms, expected);
  rig.engine().set_capture(nullptr);
}

INSTANTIATE_TEST_SUITE_P(Ip, MovedPeer, testing::Values(false, true),
                         [](const auto& ip) { return ip.param ? "V6" : "V4"; });

}  // namespace
}  // namespace uroce::test
