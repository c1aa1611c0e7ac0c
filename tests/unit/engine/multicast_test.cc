// Multicast through an engine: every attached queue pair gets a copy of its own.
#include "base/random.h"
#include "engine/multicast_groups.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine/bring_up.h"
#include "engine/engine.h"
#include "engine/object_tables.h"
#include "engine/port_filters.h"
#include "roce_frame.h"
#include "scribbled_port.h"
#include "transport/address_handle.h"
#include "transport/completion_queue.h"
#include "transport/counters.h"
#include "transport/memory_table.h"
#include "transport/observer.h"
#include "transport/qp.h"
#include "transport/qp_init.h"
#include "uroce/memory_port.h"

namespace uroce::test {
namespace {

class MulticastTest : public testing::Test, protected Observer, protected MulticastFilter {
 protected:
  static constexpr Instant kNow{1'000'000};
  static constexpr uint32_t kQkey = 0x01234567;
  static constexpr uint32_t kGrh = 40;
  using Result = MulticastGroups::Result;

  struct Receiving {
    Qp* qp = nullptr;
    CompletionQueue* cq = nullptr;
    std::vector<uint8_t> memory = std::vector<uint8_t>(256);
  };

  MulticastTest() {
    pd_ = engine_.objects().allocate_pd();
    said();
  }

  /// A queue pair with two receives posted.
  std::unique_ptr<Receiving> create(QpType type = QpType::kUd, uint32_t qkey = kQkey) {
    auto made = std::make_unique<Receiving>();
    made->cq = engine_.objects().create_cq(8, nullptr);
    QpInit init;
    init.type = type;
    init.pd = pd_;
    init.send_cq = init.recv_cq = made->cq;
    init.cap = {4, 4, 1, 1, 0};
    made->qp = engine_.create_qp(init, nullptr);
    if (type != QpType::kUd) return made;
    QpAttributes attributes;
    attributes.qkey = qkey;
    EXPECT_EQ(bring_up(engine_, *made->qp, attributes, QpState::kRts, kNow), ModifyResult::kOk);
    const auto at = reinterpret_cast<uint64_t>(made->memory.data());
    const uint32_t key = engine_.memory().register_region(pd_, made->memory.data(), 256, at, kLocalWrite);
    for (int i = 0; i < 2; i++) {
      const Sge sge{at, 256, key};
      EXPECT_EQ(engine_.post_recv(*made->qp, {7, &sge, 1}, kNow), PostResult::kOk);
    }
    return made;
  }
  /// UD SEND ONLY, with or without immediate data, to a group, from a distant host.
  static Bytes packet(const char* group, uint32_t dest_qp = kMulticastQpn, uint8_t opcode = 0x64) {
    const IpAddress to = *parse_ip(group);
    Route path = to.is_v4() ? ipv4_path() : ipv6_path();
    path.dst_ip = to;
    path.dst_mac = to.is_v4() ? MacAddress{{0x01, 0x00, 0x5e, 1, 2, 3}} : MacAddress{{0x33, 0x33, 0, 2, 0, 3}};
    Bth bth;
    bth.opcode = opcode;
    bth.dest_qp = dest_qp;
    Bytes deth;
    append(deth, Deth{kQkey, 0x777});
    return frame_of(path, bth, deth, Bytes{'h', 'e', 'l', 'l', 'o'});
  }
  void arrive(const Bytes& frame) {
    ASSERT_TRUE(port_.deliver(frame));
    engine_.turn(kNow);
  }
  std::vector<Completion> completed(Receiving& at) {
    Completion completions[8];
    return {completions, completions + at.cq->poll(completions)};
  }
  /// The RoCE frames that left; `others_` counts the others.
  std::vector<Bytes> said() {
    for (int i = 0; i < 3; i++) engine_.turn(kNow);
    std::vector<Bytes> frames;
    while (const auto frame = port_.take()) {
      PacketView view;
      if (parse_frame(*frame, view) == ParseResult::kOk) {
        frames.emplace_back(frame->begin(), frame->end());
      } else {
        others_++;
      }
    }
    return frames;
  }
  void send(Qp& qp, const AddressHandle& ah) {
    SendWr wr;
    wr.ah = &ah;
    wr.remote_qpn = kMulticastQpn;
    wr.remote_qkey = kQkey;
    EXPECT_EQ(engine_.post_send(qp, wr, kNow), PostResult::kOk);
  }
  std::unique_ptr<AddressHandle> handle(const char* group, uint8_t row) {
    AddressVector av;
    av.dgid = *parse_ip(group);
    av.sgid_index = row;
    return engine_.create_ah(pd_, av, kNow);
  }
  void want(const MacAddress& group, bool wanted) override {
    filtered_ += (wanted ? "+" : "-") + to_string(group) + " ";
  }
  Result attach(Receiving& at, const char* group) { return engine_.multicast().attach(*at.qp, *parse_ip(group), kNow); }
  Result detach(Receiving& at, const char* group) { return engine_.multicast().detach(*at.qp, *parse_ip(group), kNow); }
  const Counters& counters() { return engine_.counters(); }

  EngineConfig config() {
    EngineConfig config;
    config.mac = ipv4_path().dst_mac;
    config.addresses = {{ipv4_path().dst_ip, 24, 0}, {ipv6_path().dst_ip, 64, 0}};
    config.max_qps = 512;
    config.multicast_filter = this;
    return config;
  }

  MemoryPort port_;
  ScribbledPort scribbled_{port_};
  SeededRandom random_{1};
  Engine engine_{config(), scribbled_, random_, *this};
  PdId pd_ = 0;
  uint32_t others_ = 0;
  std::string filtered_;
};

TEST_F(MulticastTest, EveryAttachedQueuePairGetsACopy) {
  const auto a = create(), b = create(), other = create();
  EXPECT_EQ(attach(*a, "239.1.2.3"), Result::kOk);
  EXPECT_EQ(attach(*b, "239.1.2.3"), Result::kOk);
  EXPECT_EQ(attach(*other, "239.1.2.4"), Result::kOk);
  const Bytes frame = packet("239.1.2.3");
  arrive(frame);
  for (Receiving* at : {a.get(), b.get()}) {
    const auto completions = completed(*at);
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].status, WcStatus::kSuccess);
    EXPECT_EQ(completions[0].byte_len, kGrh + 5);
    EXPECT_EQ(completions[0].src_qp, 0x777u);
    EXPECT_NE(completions[0].flags & kWcGrh, 0u);
    // The header is where an IPv4 header belongs in the 40 bytes of a GRH; its destination is the group.
    EXPECT_EQ(Bytes(at->memory.begin() + 20, at->memory.begin() + 40), Bytes(frame.begin() + 14, frame.begin() + 34));
    EXPECT_EQ(Bytes(at->memory.begin() + 36, at->memory.begin() + 45), (Bytes{239, 1, 2, 3, 'h', 'e', 'l', 'l', 'o'}));
  }
  EXPECT_TRUE(completed(*other).empty());
  EXPECT_EQ(counters().rx_multicast, 1u);
}

TEST_F(MulticastTest, AndOfIpv6Groups) {
  const auto a = create();
  EXPECT_EQ(attach(*a, "ff0e::1:2:3"), Result::kOk);
  arrive(packet("ff0e::1:2:3"));
  ASSERT_EQ(completed(*a).size(), 1u);
  EXPECT_TRUE(std::equal(a->memory.begin() + 24, a->memory.begin() + 40, parse_ip("ff0e::1:2:3")->bytes.begin()));
}

TEST_F(MulticastTest, WhatDoesNotFitIsDropped) {
  const auto a = create(), strict = create(QpType::kUd, kQkey + 1);
  arrive(packet("239.1.2.3"));
  EXPECT_EQ(counters().rx_drop_not_for_us, 1u) << "nobody is attached";
  attach(*a, "239.1.2.3");
  attach(*strict, "239.1.2.3");
  arrive(packet("239.1.2.3", 0x17));
  EXPECT_EQ(counters().rx_drop_not_for_us, 2u) << "no multicast queue pair number";
  arrive(packet("239.1.2.3", kMulticastQpn, 0x24));
  EXPECT_EQ(counters().rx_drop_qp_service, 1u) << "a UC SEND";
  Bytes damaged = packet("239.1.2.3");
  damaged[65] ^= 1;
  arrive(damaged);
  EXPECT_EQ(counters().rx_icrc_encapsulated, 1u);
  EXPECT_TRUE(completed(*a).empty());
  arrive(packet("239.1.2.3"));
  EXPECT_EQ(completed(*a).size(), 1u);
  EXPECT_TRUE(completed(*strict).empty());
  EXPECT_EQ(counters().rx_drop_bad_qkey, 1u) << "of one, and the other has it";
}

TEST_F(MulticastTest, AttachingHasItsRules) {
  const auto a = create(), connected = create(QpType::kRc);
  EXPECT_EQ(attach(*connected, "239.1.2.3"), Result::kInvalid);
  EXPECT_EQ(attach(*a, "10.0.0.9"), Result::kInvalid);
  EXPECT_EQ(attach(*a, "fe80::1"), Result::kInvalid);
  EXPECT_EQ(detach(*a, "239.1.2.3"), Result::kInvalid);
  EXPECT_EQ(attach(*a, "239.1.2.3"), Result::kOk);
  EXPECT_EQ(attach(*a, "239.1.2.3"), Result::kOk) << "it is";
  arrive(packet("239.1.2.3"));
  EXPECT_EQ(completed(*a).size(), 1u) << "once";
  EXPECT_EQ(detach(*a, "239.1.2.3"), Result::kOk);
  EXPECT_EQ(detach(*a, "239.1.2.3"), Result::kInvalid);
  arrive(packet("239.1.2.3"));
  EXPECT_TRUE(completed(*a).empty());
}

TEST_F(MulticastTest, AQueuePairThatGoesIsNoLongerAttached) {
  const auto a = create(), b = create();
  attach(*a, "239.1.2.3");
  attach(*a, "ff0e::1:2:3");
  attach(*b, "239.1.2.3");
  EXPECT_EQ(filtered_, "+01:00:5e:01:02:03 +33:33:00:02:00:03 ");
  engine_.destroy_qp(a->qp, kNow);
  EXPECT_EQ(filtered_, "+01:00:5e:01:02:03 +33:33:00:02:00:03 -33:33:00:02:00:03 ");
  arrive(packet("239.1.2.3"));
  EXPECT_EQ(completed(*b).size(), 1u);
}

TEST_F(MulticastTest, GroupsHaveRoomForSoMany) {
  std::vector<std::unique_ptr<Receiving>> all;
  for (uint32_t i = 0; i < MulticastGroups::kAttachedMax; i++) {
    all.push_back(create());
    ASSERT_EQ(attach(*all.back(), "239.1.2.3"), Result::kOk);
  }
  const auto one_more = create();
  EXPECT_EQ(attach(*one_more, "239.1.2.3"), Result::kFull);
  for (uint32_t i = 1; i < GroupMembership::kGroupsMax; i++) {
    const IpAddress group = IpAddress::v4(0xEF000000 + i);
    ASSERT_EQ(engine_.multicast().attach(*one_more->qp, group, kNow), Result::kOk);
  }
  EXPECT_EQ(attach(*one_more, "239.9.9.9"), Result::kFull);
  EXPECT_EQ(detach(*one_more, "239.9.9.9"), Result::kInvalid);
  EXPECT_EQ(engine_.multicast().attached(*parse_ip("239.9.9.9")), nullptr) << "no group is there without anybody in it";
}

TEST_F(MulticastTest, WhatIsSentGoesToTheGroupsMacAndToOurOwn) {
  const auto a = create(), b = create();
  for (const auto& [group, row, mac] :
       {std::tuple{"239.1.2.3", uint8_t{1}, "01:00:5e:01:02:03"}, {"ff0e::1:2:3", uint8_t{2}, "33:33:00:02:00:03"}}) {
    attach(*b, group);
    const auto ah = handle(group, row);
    ASSERT_TRUE(ah);
    EXPECT_TRUE(ah->resolved) << "nobody is asked";
    send(*a->qp, *ah);
    const auto frames = said();
    ASSERT_EQ(frames.size(), 1u) << group;
    EXPECT_EQ(
        to_string(MacAddress{{frames[0][0], frames[0][1], frames[0][2], frames[0][3], frames[0][4], frames[0][5]}}),
        mac);
    EXPECT_EQ(completed(*b).size(), 1u) << group;
    EXPECT_EQ(completed(*a).size(), 0u) << "not signaled, and not attached";
    engine_.destroy_ah(ah.get());
  }
}

TEST_F(MulticastTest, OthersGroupsDoNotComeBack) {
  const auto a = create(), b = create();
  attach(*b, "239.1.2.4");
  const auto ah = handle("239.1.2.3", 1);
  send(*a->qp, *ah);
  EXPECT_EQ(said().size(), 1u);
  EXPECT_EQ(counters().loopback_packets, 0u);
  EXPECT_EQ(counters().rx_drop_not_for_us, 0u);
  engine_.destroy_ah(ah.get());
}

TEST_F(MulticastTest, TheNetworkIsTold) {
  const auto a = create();
  others_ = 0;
  attach(*a, "239.1.2.3");
  said();
  EXPECT_EQ(others_, 1u) << "the first of two reports";
  EXPECT_EQ(counters().group_reports, 1u);
  EXPECT_LE(engine_.next_timeout(), kNow + GroupMembership::kUnsolicited);
  EXPECT_TRUE(engine_.multicast().join(*parse_ip("239.5.5.5"), 1, kNow)) << "also without a queue pair";
  said();
  EXPECT_EQ(counters().group_reports, 2u);
}

}  // namespace
}  // namespace uroce::test
