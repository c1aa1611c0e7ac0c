// Connections of endpoints that only their own threads drive: the program sleeps, or looks at its queue pairs.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "two_endpoints.h"

namespace uroce::rdma {
namespace {

class LibraryBackground : public testing::TestWithParam<Drive> {
 protected:
  template <typename F>
  static auto owning(Side& side, F&& f) {
    const Endpoint::Ownership owner(*side.endpoint);
    return f();
  }
  /// The program drives nothing, and asks no connection for its state.
  static bool becomes(Side& side, const std::function<bool()>& is_so) {
    const Instant deadline = side.endpoint->now() + kPatience;
    while (side.endpoint->now() < deadline) {
      if (owning(side, is_so)) return true;
      usleep(1000);
    }
    return false;
  }
  static bool in_state(Side& side, QpState state) {
    return becomes(side, [&] { return side.qp.state() == state; });
  }

  TemporaryRuntimeDir runtime_dir_;
  Side a_{"198.18.0.1/24", GetParam()};
  Side b_{"198.18.0.2/24", GetParam()};
};

TEST_P(LibraryBackground, AConnectionBeginsAndEndsWhileTheProgramSleeps) {
  std::string error;
  a_.listen();
  CompletionChannel channel;
  CompletionQueue cq;
  owning(b_, [&] {
    channel = b_.endpoint->device().create_channel();
    cq = b_.endpoint->device().create_cq(8, &channel);
    b_.qp = b_.endpoint->device().create_qp({.pd = b_.pd, .send_cq = &b_.cq, .recv_cq = &cq});
    EXPECT_EQ(b_.qp.initialize(0), ModifyResult::kOk);
    EXPECT_EQ(b_.qp.post(Receive{b_.region.sge(0, 64), 3}), PostResult::kOk);
    b_.connection = b_.endpoint->connections().begin_connect(b_.qp, "198.18.0.1", kPort, error);
  });
  ASSERT_TRUE(becomes(a_, [&] { return a_.listener.waiting() != 0; }));
  owning(a_, [&] { a_.connection = a_.listener.begin_accept(a_.qp, error); });
  ASSERT_TRUE(in_state(b_, QpState::kRts));
  ASSERT_TRUE(becomes(a_, [&] { return a_.connection.state() == ConnectionState::kEstablished; }));
  owning(b_, [&] { cq.request_event(); });
  owning(a_, [&] { a_.connection.disconnect(); });
  pollfd one{channel.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&one, 1, 5000), 1) << "nobody wakes who sleeps";
  EXPECT_TRUE(in_state(b_, QpState::kErr));
  owning(b_, [&] {
    Completion flushed;
    EXPECT_EQ(cq.poll({&flushed, 1}), 1u);
    EXPECT_EQ(flushed.wr_id, 3u);
    EXPECT_EQ(flushed.status, WcStatus::kWrFlushErr);
    b_.connection = {};
    b_.qp = {};
    cq = {};
  });
}

INSTANTIATE_TEST_SUITE_P(Drives, LibraryBackground, testing::Values(Drive::kBackground, Drive::kBoth));

}  // namespace
}  // namespace uroce::rdma
