// Two programs that are one host: the same MAC, the same addresses, queue pair numbers of their own, and memory between
// them that each can write to. They know each other as 127.0.0.1 or ::1.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "engine/bring_up.h"
#include "engine/engine.h"
#include "engine/object_tables.h"
#include "engine/qpn_blocks.h"
#include "listed_blocks.h"
#include "scribbled_port.h"
#include "transport/completion_queue.h"
#include "transport/counters.h"
#include "transport/memory_table.h"
#include "transport/observer.h"
#include "transport/qp.h"
#include "transport/qp_init.h"
#include "uroce/memory_port.h"

namespace uroce::test {
namespace {

constexpr uint32_t kBytes = 3000;
constexpr Instant kNow{1'000'000};

/// A program of the host: it sends from the first half of its memory and receives into the other.
class Program {
 public:
  Program(uint32_t block, uint64_t seed) : blocks_({block}), random_(seed) {
    std::iota(memory_.begin(), memory_.begin() + kBytes, static_cast<uint8_t>(seed));
    pd_ = engine_.objects().allocate_pd();
    cq_ = engine_.objects().create_cq(16, nullptr);
    key_ = engine_.memory().register_region(pd_, memory_.data(), memory_.size(), address(0), kLocalWrite);
  }

  Qp& create() {
    QpInit init;
    init.pd = pd_;
    init.send_cq = init.recv_cq = cq_;
    init.cap = {4, 4, 1, 1, 0};
    return *engine_.create_qp(init, nullptr);
  }
  void connect(Qp& qp, const Qp& to, const char* itself) {
    QpAttributes attributes;
    attributes.av.dgid = *parse_ip(itself);
    attributes.av.sgid_index = attributes.av.dgid.is_v4() ? 1 : 2;
    attributes.dest_qpn = to.qpn();
    attributes.path_mtu_bytes = 1024;
    ASSERT_EQ(bring_up(engine_, qp, attributes, QpState::kRts, kNow), ModifyResult::kOk);
  }
  void send(Qp& qp) {
    const Sge sge{address(0), kBytes, key_};
    SendWr wr;
    wr.flags = kSendSignaled;
    wr.sges = &sge;
    wr.num_sge = 1;
    ASSERT_EQ(engine_.post_send(qp, wr, kNow), PostResult::kOk);
  }
  void receive(Qp& qp) {
    const Sge sge{address(kBytes), kBytes, key_};
    ASSERT_EQ(engine_.post_recv(qp, {7, &sge, 1}, kNow), PostResult::kOk);
  }
  uint32_t completed() {
    Completion completions[16];
    const uint32_t count = cq_->poll(completions);
    for (uint32_t i = 0; i < count; i++) EXPECT_EQ(completions[i].status, WcStatus::kSuccess);
    return count;
  }
  bool has_what_sends(const Program& other) const {
    return std::equal(memory_.begin() + kBytes, memory_.end(), other.memory_.begin());
  }

  Engine& engine() { return engine_; }
  MemoryPort& port() { return port_; }

 private:
  static EngineConfig config(QpnBlocks& blocks) {
    EngineConfig config;
    config.mac = {{2, 0, 0, 0, 0, 1}};
    config.addresses = {{*parse_ip("10.0.0.1"), 24, 0}, {*parse_ip("fd00::1"), 64, 0}};
    config.max_qps = 256;
    config.qpn_blocks = &blocks;
    return config;
  }
  uint64_t address(uint32_t at) { return reinterpret_cast<uint64_t>(memory_.data()) + at; }

  ListedBlocks blocks_;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(2 * kBytes);
  MemoryPort port_;
  ScribbledPort scribbled_{port_};
  SeededRandom random_;
  Observer observer_;
  Engine engine_{config(blocks_), scribbled_, random_, observer_};
  PdId pd_ = 0;
  CompletionQueue* cq_ = nullptr;
  uint32_t key_ = 0;
};

class SharedHost : public testing::TestWithParam<const char*> {
 protected:
  SharedHost() {
    MemoryPort::join(a_.port(), b_.port());
    turn();  // the frames of the engines' start
  }
  void turn() {
    for (int i = 0; i < 10; i++) {
      a_.engine().turn(kNow + microseconds(50 * i));
      b_.engine().turn(kNow + microseconds(50 * i));
    }
  }

  Program a_{1, 1};
  Program b_{4094, 2};
};

TEST_P(SharedHost, ProgramsReachEachOther) {
  Qp& at_a = a_.create();
  Qp& at_b = b_.create();
  a_.connect(at_a, at_b, GetParam());
  b_.connect(at_b, at_a, GetParam());
  a_.receive(at_a);
  b_.receive(at_b);
  a_.send(at_a);
  b_.send(at_b);
  turn();
  EXPECT_EQ(a_.completed(), 2u);
  EXPECT_EQ(b_.completed(), 2u);
  EXPECT_TRUE(a_.has_what_sends(b_));
  EXPECT_TRUE(b_.has_what_sends(a_));
  EXPECT_EQ(a_.engine().counters().loopback_packets, 0u);
}

TEST_P(SharedHost, AProgramReachesItselfWithoutThePort) {
  turn();
  const uint64_t sent = a_.engine().counters().tx_packets;
  Qp& first = a_.create();
  Qp& second = a_.create();
  a_.connect(first, second, GetParam());
  a_.connect(second, first, GetParam());
  a_.receive(second);
  a_.send(first);
  turn();
  EXPECT_EQ(a_.completed(), 2u);
  EXPECT_TRUE(a_.has_what_sends(a_));
  EXPECT_EQ(a_.engine().counters().tx_packets, sent);
  EXPECT_GE(a_.engine().counters().loopback_packets, 4u);
}

INSTANTIATE_TEST_SUITE_P(Addresses, SharedHost,
                         testing::Values("127.0.0.1", "127.9.9.9", "::1", "10.0.0.1", "fd00::1"));

}  // namespace
}  // namespace uroce::test
