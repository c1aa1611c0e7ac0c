// What an endpoint of the library makes beside connections: windows, groups, channels; and what it counts.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <string>

#include "two_endpoints.h"

namespace uroce::rdma {
namespace {

constexpr uint32_t kQkey = 0x1ee7;

using LibraryWindows = TwoEndpoints;

TEST_F(LibraryWindows, OpenWhatTheyAreBoundTo) {
  establish();
  std::array<char, 256> lent{};
  MemoryRegion region;
  MemoryWindow window;
  owning(a_, [&] {
    region = a_.endpoint->device().register_memory(a_.pd, lent.data(), lent.size(), kLocalWrite | kMwBind);
    window = a_.endpoint->device().create_window(a_.pd);
    ASSERT_TRUE(window);
    EXPECT_EQ(window.bind(a_.qp, region, 64, 64, kRemoteWrite, 11), PostResult::kOk);
  });
  auto done = completions(a_, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].wr_id, 11u);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
  const RemoteMemory first = window.remote();
  EXPECT_EQ(first.address, region.address() + 64);
  EXPECT_EQ(first.bytes, 64u);
  b_.memory = {"through the window"};
  owning(b_, [&] {
    EXPECT_EQ(b_.qp.post(RdmaWrite{.from = b_.region.sge(0, 19), .to = first, .wr_id = 1}), PostResult::kOk);
  });
  done = completions(b_, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess) << cause_text(done[0].cause);
  EXPECT_STREQ(lent.data() + 64, "through the window");
  owning(a_, [&] { EXPECT_EQ(window.invalidate(a_.qp, 12), PostResult::kOk); });
  done = completions(a_, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
  owning(b_, [&] {
    EXPECT_EQ(b_.qp.post(RdmaWrite{.from = b_.region.sge(0, 19), .to = first, .wr_id = 2}), PostResult::kOk);
  });
  done = completions(b_, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, WcStatus::kRemAccessErr);
  owning(a_, [&] {
    window = {};
    region = {};
    EXPECT_FALSE(a_.endpoint->device().create_window(a_.pd + 1)) << "no such domain";
  });
}

TEST_F(LibraryWindows, ANewBindBehindAnInvalidateHasAnotherKey) {
  establish();
  MemoryRegion region;
  MemoryWindow window;
  uint32_t first = 0;
  owning(a_, [&] {
    region = a_.endpoint->device().register_memory(a_.pd, a_.memory.data(), 64, kLocalWrite | kRemoteWrite | kMwBind);
    window = a_.endpoint->device().create_window(a_.pd);
    ASSERT_EQ(window.bind(a_.qp, region, 0, 64, kRemoteWrite, 1), PostResult::kOk);
    first = window.remote().rkey;
    ASSERT_EQ(window.invalidate(a_.qp, 2), PostResult::kOk);
    ASSERT_EQ(window.bind(a_.qp, region, 0, 32, kRemoteWrite, 3), PostResult::kOk);
    EXPECT_NE(window.remote().rkey, first);
  });
  const auto done = completions(a_, 3);
  ASSERT_EQ(done.size(), 3u);
  for (const Completion& one : done) EXPECT_EQ(one.status, WcStatus::kSuccess) << one.wr_id;
  owning(b_, [&] {
    EXPECT_EQ(b_.qp.post(RdmaWrite{.from = b_.region.sge(0, 8), .to = window.remote(), .wr_id = 4}), PostResult::kOk);
  });
  const auto written = completions(b_, 1);
  ASSERT_EQ(written.size(), 1u);
  EXPECT_EQ(written[0].status, WcStatus::kSuccess);
  owning(a_, [&] {
    MemoryWindow moved = std::move(window);
    EXPECT_TRUE(moved);
    EXPECT_FALSE(window);  // NOLINT(bugprone-use-after-move): that is what is asked
    moved = {};
    region = {};
  });
}

TEST_F(LibraryWindows, ABindOfWhatIsBoundIsRefused) {
  establish();
  MemoryRegion region;
  MemoryWindow window;
  owning(a_, [&] {
    region = a_.endpoint->device().register_memory(a_.pd, a_.memory.data(), 64, kLocalWrite | kRemoteWrite | kMwBind);
    window = a_.endpoint->device().create_window(a_.pd);
    ASSERT_EQ(window.bind(a_.qp, region, 0, 64, kRemoteWrite, 1), PostResult::kOk);
    ASSERT_EQ(window.bind(a_.qp, region, 0, 64, kRemoteWrite, 2), PostResult::kOk);
  });
  const auto done = completions(a_, 2);
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
  EXPECT_EQ(done[1].status, WcStatus::kMwBindErr);
  owning(a_, [&] {
    EXPECT_EQ(a_.qp.state(), QpState::kErr);
    window = {};
    region = {};
  });
}

using LibraryRegions = TwoEndpoints;

TEST_F(LibraryRegions, NameNothingBehindTheirEnd) {
  owning(a_, [&] {
    const uint64_t length = a_.region.length();
    EXPECT_EQ(a_.region.remote().bytes, length);
    EXPECT_EQ(a_.region.remote(length - 1).bytes, 1u);
    EXPECT_EQ(a_.region.remote(length).bytes, 0u);
    EXPECT_EQ(a_.region.remote(length + 1).bytes, 0u);
  });
}

using LibraryGroups = TwoEndpoints;

TEST_F(LibraryGroups, ADatagramReachesWhoIsAttached) {
  const IpAddress group = *parse_ip("239.1.2.3");
  QueuePair in, out;
  Destination to;
  owning(a_, [&] {
    in = a_.endpoint->device().create_qp({.type = QpType::kUd, .pd = a_.pd, .send_cq = &a_.cq, .recv_cq = &a_.cq});
    EXPECT_EQ(in.activate(kQkey), ModifyResult::kOk);
    EXPECT_FALSE(in.detach(group));
    EXPECT_FALSE(in.attach(*parse_ip("198.18.0.1"))) << "no group";
    EXPECT_FALSE(a_.qp.attach(group)) << "no queue pair of datagrams";
    EXPECT_TRUE(in.attach(group));
    EXPECT_EQ(in.post(Receive{a_.region.sge(0, 256), 9}), PostResult::kOk);
    EXPECT_EQ(in.post(Receive{a_.region.sge(0, 256), 10}), PostResult::kOk);
  });
  const auto send = [&](uint64_t wr_id) {
    const Endpoint::Ownership owner(*b_.endpoint);
    EXPECT_EQ(out.post(Datagram{
                  .from = b_.region.sge(0, 6), .to = to, .qp_num = kMulticastQp, .qkey = kQkey, .wr_id = wr_id}),
              PostResult::kOk);
  };
  owning(b_, [&] {
    out = b_.endpoint->device().create_qp({.type = QpType::kUd, .pd = b_.pd, .send_cq = &b_.cq, .recv_cq = &b_.cq});
    EXPECT_EQ(out.activate(kQkey), ModifyResult::kOk);
    AddressVector address;
    address.dgid = group;
    address.sgid_index = 1;
    to = b_.endpoint->device().create_destination(b_.pd, address);
    EXPECT_TRUE(to);
    EXPECT_TRUE(to.resolved());
  });
  b_.memory = {"to all"};
  send(1);
  EXPECT_EQ(completions(b_, 1).size(), 1u);
  const auto received = completions(a_, 1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].byte_len, kGrhBytes + 6);
  EXPECT_EQ(std::string(a_.memory.data() + kGrhBytes, 6), "to all");
  EXPECT_EQ(received[0].src_qp, owning(b_, [&] { return out.qp_num(); }));
  owning(a_, [&] { EXPECT_TRUE(in.detach(group)); });
  send(2);
  EXPECT_EQ(completions(b_, 1).size(), 1u);
  until([n = 0]() mutable { return ++n > 1000; });
  EXPECT_EQ(owning(a_, [&] { return a_.cq.size(); }), 0u);
  owning(a_, [&] { in = {}; });
  owning(b_, [&] { to = {}, out = {}; });
}

using LibraryCounters = TwoEndpoints;

TEST_F(LibraryCounters, OfTheTransportThePortAndConnections) {
  establish();
  const auto all = owning(b_, [&] { return b_.endpoint->counters(); });
  const auto of = [&](const std::string& name) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.first == name; });
    return found == all.end() ? UINT64_MAX : found->second;
  };
  EXPECT_EQ(of("cm_established"), 1u);
  EXPECT_EQ(of("tx_mads"), 2u) << "REQ, RTU";
  EXPECT_GT(of("tx_packets"), 0u);
  EXPECT_LT(of("tx_packets"), UINT64_MAX);
  EXPECT_GT(all.size(), owning(b_, [&] { return b_.endpoint->device().counters(); }).size());
}

bool readable(int fd, int patience_ms) {
  pollfd one{fd, POLLIN, 0};
  return poll(&one, 1, patience_ms) == 1;
}

/// One endpoint that its own thread drives while the program sleeps, connected with itself.
TEST(LibraryChannels, WakeAProgramThatSleeps) {
  const TemporaryRuntimeDir runtime_dir;
  Side side("198.18.0.1/24", Drive::kBoth);
  CompletionChannel channel;
  CompletionQueue cq;
  QueuePair one, two;
  {
    const Endpoint::Ownership owner(*side.endpoint);
    Device& device = side.endpoint->device();
    channel = device.create_channel();
    ASSERT_TRUE(channel);
    cq = device.create_cq(8, &channel);
    one = device.create_qp({.pd = side.pd, .send_cq = &side.cq, .recv_cq = &side.cq});
    two = device.create_qp({.pd = side.pd, .send_cq = &side.cq, .recv_cq = &cq});
    ASSERT_EQ(one.connect(two.address()), ModifyResult::kOk);
    ASSERT_EQ(two.connect(one.address()), ModifyResult::kOk);
    ASSERT_EQ(two.post(Receive{side.region.sge(0, 64), 3}), PostResult::kOk);
    ASSERT_EQ(two.post(Receive{side.region.sge(0, 64), 4}), PostResult::kOk);
    ASSERT_EQ(two.post(Receive{side.region.sge(0, 64), 5}), PostResult::kOk);
    cq.request_event();
  }
  EXPECT_FALSE(readable(channel.fd(), 20)) << "nothing has completed";
  EXPECT_EQ(channel.take(), 0u);
  const auto post = [&](uint8_t flags) {
    const Endpoint::Ownership owner(*side.endpoint);
    EXPECT_EQ(one.post(Send{.from = side.region.sge(64, 8), .flags = flags}), PostResult::kOk);
    side.endpoint->transmit();
  };
  post(0);
  EXPECT_TRUE(readable(channel.fd(), 5000));
  EXPECT_EQ(channel.take(), 1u);
  EXPECT_FALSE(readable(channel.fd(), 0));
  {
    const Endpoint::Ownership owner(*side.endpoint);
    Completion received;
    EXPECT_EQ(cq.poll({&received, 1}), 1u);
    EXPECT_EQ(received.wr_id, 3u);
    cq.request_event(true);
  }
  post(0);
  EXPECT_FALSE(readable(channel.fd(), 50)) << "nobody marked it";
  post(kSendSolicited);
  EXPECT_TRUE(readable(channel.fd(), 5000));
  const Endpoint::Ownership owner(*side.endpoint);
  two = {};
  one = {};
  cq = {};
  const CompletionChannel none;
  EXPECT_FALSE(side.endpoint->device().create_cq(8, &none));
}

}  // namespace
}  // namespace uroce::rdma
