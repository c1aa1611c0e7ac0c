// The checks before a copy without frames say the same as the peer's responder, for whatever is drawn.
#include "transport/direct_checks.h"

#include <gtest/gtest.h>

#include <functional>

#include "direct_two.h"
#include "transport/qp.h"

namespace uroce::test {
namespace {

constexpr uint32_t kRequester = 0x1000a;
constexpr uint32_t kTarget = 0x2000b;
constexpr uint32_t kRequesterAddress = 0x0A000001;
constexpr uint32_t kTargetAddress = 0x0A000002;
constexpr uint64_t kIova = 0x7000'0000'0000;

/// A target and a request, each with properties that may be wrong.
struct Draw {
  uint32_t region_access;
  uint32_t qp_access;
  uint8_t reads;
  PdId region_pd;
  uint64_t length;
  QpState state;
  bool gone;  // the region was deregistered
  bool other_key;
  bool other_peer;  // the target is connected to another QP
  DirectRequest request;
};

Draw draw(SeededRandom& random) {
  const auto one_in = [&random](uint32_t n) { return random.next_u32() % n == 0; };
  const auto access = [&] { return one_in(4) ? random.next_u32() % 16 : uint32_t{kRemoteRead | kRemoteWrite}; };
  Draw d{};
  d.region_access = access();
  d.qp_access = access();
  d.reads = static_cast<uint8_t>(one_in(6) ? 0 : 1 + random.next_u32() % 3);
  d.region_pd = one_in(8) ? 2 : 1;
  d.length = 1 + random.next_u32() % 6000;
  d.state = one_in(10) ? QpState::kRtr : QpState::kRts;
  d.gone = one_in(16);
  d.other_key = one_in(16);
  d.other_peer = one_in(16);
  d.request.read = one_in(2);
  d.request.length = 1 + random.next_u32() % (one_in(3) ? 7000 : static_cast<uint32_t>(d.length));
  const uint64_t last = d.length >= d.request.length ? d.length - d.request.length : 0;
  // Around both ends of the region.
  const uint64_t edges[] = {0, last, last + 1, uint64_t(0) - 1, uint64_t(0) - kIova, UINT64_MAX - kIova, d.length};
  const bool at_edge = one_in(2);
  d.request.va = kIova + (at_edge     ? edges[random.next_u32() % std::size(edges)]
                          : last == 0 ? 0
                                      : random.next_u32() % last);
  return d;
}

class Judged {
 public:
  explicit Judged(const Draw& d) : d_(d) {
    key_ = target_.table.register_region(d.region_pd, target_.memory.data() + 4096, d.length, kIova, d.region_access);
    EXPECT_NE(key_, 0u);
    local_ = requester_.table.register_region(1, requester_.memory.data(), 8192, 0, kLocalWrite);
    std::fill_n(requester_.memory.begin(), 8192, uint8_t{0xAA});
    requester_.connect(target_, kRequesterAddress, kTargetAddress);
    target_.connect(requester_, kTargetAddress, kRequesterAddress, d.state, [&d](QpAttributes& a) {
      a.access = d.qp_access;
      a.max_dest_rd_atomic = d.reads;
      if (d.other_peer) a.dest_qpn ^= 1;
    });
    request_ = d.request;
    request_.rkey = d.other_key ? key_ ^ 0x4000 : key_;
    request_.qpn = kRequester;
    request_.dest_qpn = kTarget;
    request_.own = IpAddress::v4(kRequesterAddress);
    request_.peer = IpAddress::v4(kTargetAddress);
    request_.psn = 0x100;
    if (d.gone) {
      EXPECT_TRUE(target_.table.deregister(key_));
    }
  }

  std::optional<uint64_t> checks() const {
    const auto qp = target_.shown.qps.find(kTarget);
    const auto region = target_.shown.regions.find(request_.rkey);
    if (qp == target_.shown.qps.end() || region == target_.shown.regions.end()) return std::nullopt;
    return direct_address({qp->second, target_.shown.next_psn.load(), region->second}, request_);
  }
  /// Sends the request in frames. Whether the responder executes it.
  bool responder() {
    const Sge sge{.addr = 0, .length = request_.length, .lkey = local_};
    SendWr wr;
    wr.opcode = request_.read ? WrOpcode::kRdmaRead : WrOpcode::kRdmaWrite;
    wr.sges = &sge;
    wr.num_sge = 1;
    wr.remote_addr = request_.va;
    wr.rkey = request_.rkey;
    EXPECT_EQ(requester_.qp.post_send(wr, requester_.now), PostResult::kOk);
    target_.receive(requester_.frames());
    return target_.qp.state() == d_.state;
  }
  const uint8_t* target_memory() const { return target_.memory.data(); }
  const DirectRequest& request() const { return request_; }

 private:
  const Draw d_;
  // No more memory than a draw needs: with some megabytes, fresh ones for each, the system's work for their pages takes
  // far longer than the test.
  static constexpr uint32_t kMemory = 16384;
  DirectSide requester_{kRequester, 1, kMemory};  // finds no target, so that all goes in frames
  DirectSide target_{kTarget, 1, kMemory};
  uint32_t key_ = 0;
  uint32_t local_ = 0;
  DirectRequest request_;
};

TEST(DirectChecks, SayWhatTheResponderSays) {
  SeededRandom random(27);
  int yes = 0;
  int no = 0;
  for (int i = 0; i < 4000; i++) {
    const Draw d = draw(random);
    Judged judged(d);
    const std::optional<uint64_t> address = judged.checks();
    const bool carried_out = judged.responder();
    // The sender is checked by the engine's receiver, and the first request in RTR is left to the responder.
    const bool expected = carried_out && !d.other_peer && d.state == QpState::kRts;
    ASSERT_EQ(address.has_value(), expected)
        << "draw " << i << ": " << (d.request.read ? "READ" : "WRITE") << " of " << d.request.length << " at "
        << d.request.va - kIova << " of " << d.length << ", region rights " << d.region_access << " PD " << d.region_pd
        << ", queue pair rights " << d.qp_access << ", READs " << int{d.reads};
    (expected ? yes : no)++;
    if (!expected || d.request.read) continue;
    const auto* at = reinterpret_cast<const uint8_t*>(*address);
    EXPECT_EQ(at, judged.target_memory() + 4096 + (d.request.va - kIova));
    EXPECT_EQ(at[0], 0xAA);
    EXPECT_EQ(at[d.request.length - 1], 0xAA) << "the responder wrote to the same place";
  }
  EXPECT_GT(yes, 400);
  EXPECT_GT(no, 400);
}

ShownTarget a_target() {
  ShownTarget target;
  target.qp = {.qpn = kTarget, .dest_qpn = kRequester, .pd = 1, .access = kRemoteRead | kRemoteWrite, .reads = 1};
  target.qp.own = IpAddress::v4(kTargetAddress);
  target.qp.peer = IpAddress::v4(kRequesterAddress);
  target.next_psn = 7;
  target.region = {.key = 5, .pd = 1, .access = kRemoteRead | kRemoteWrite, .iova = 100, .length = 50, .memory = 1000};
  return target;
}

DirectRequest a_request() {
  DirectRequest request{.qpn = kRequester, .dest_qpn = kTarget, .psn = 7, .va = 110, .rkey = 5, .length = 40};
  request.own = IpAddress::v4(kRequesterAddress);
  request.peer = IpAddress::v4(kTargetAddress);
  return request;
}

/// Fields that a responder does not check: the receiver does, or a packet cannot have such a value.
TEST(DirectChecks, EachFieldOfTheConnectionCounts) {
  EXPECT_EQ(direct_address(a_target(), a_request()), 1010u);
  const std::function<void(ShownTarget&, DirectRequest&)> wrong[] = {
      [](ShownTarget& t, DirectRequest&) { t.qp.qpn = 0; },
      [](ShownTarget& t, DirectRequest&) { t.qp.qpn ^= 1; },
      [](ShownTarget& t, DirectRequest&) { t.qp.dest_qpn ^= 1; },
      [](ShownTarget& t, DirectRequest&) { t.qp.own = IpAddress::v4(1); },
      [](ShownTarget& t, DirectRequest&) { t.qp.peer = IpAddress::v4(1); },
      [](ShownTarget& t, DirectRequest&) { t.qp.vlan_id = 3; },
      [](ShownTarget& t, DirectRequest&) { t.qp.pd = 2; },
      [](ShownTarget& t, DirectRequest&) { t.next_psn = 8; },
      [](ShownTarget& t, DirectRequest&) { t.next_psn = UINT32_MAX; },
      [](ShownTarget& t, DirectRequest&) { t.region.key = 0; },
      [](ShownTarget&, DirectRequest& r) { r.length = 0; },
      [](ShownTarget&, DirectRequest& r) { r.length = 41; },
      [](ShownTarget& t, DirectRequest& r) {
        t.region.length = UINT64_MAX;
        r.length = kMaxMessageBytes + 1;
      },
      [](ShownTarget& t, DirectRequest& r) {
        t.region.key = 0;
        r.rkey = 0;
      },
  };
  for (size_t i = 0; i < std::size(wrong); i++) {
    ShownTarget target = a_target();
    DirectRequest request = a_request();
    wrong[i](target, request);
    EXPECT_FALSE(direct_address(target, request)) << i;
  }
}

/// A peer may show any values: no address wraps.
TEST(DirectChecks, NothingWraps) {
  ShownTarget target = a_target();
  DirectRequest request = a_request();
  target.region.iova = 0;
  target.region.length = UINT64_MAX;
  target.region.memory = UINT64_MAX - 20;
  request.va = 0;
  request.length = 21;
  EXPECT_EQ(direct_address(target, request), UINT64_MAX - 20);
  request.length = 22;
  EXPECT_FALSE(direct_address(target, request));
  request.va = 100;
  request.length = 1;
  EXPECT_FALSE(direct_address(target, request));
  request.va = UINT64_MAX;
  EXPECT_FALSE(direct_address(target, request));
}

}  // namespace
}  // namespace uroce::test
