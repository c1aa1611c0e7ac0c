// Packets that had arrived before a queue pair was ended count, even if nothing has looked at them by then: a NIC deals
// with a packet when it comes.
#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "engine/bring_up.h"
#include "engine/engine.h"
#include "engine/neighbours.h"
#include "engine/object_tables.h"
#include "transport/completion_queue.h"
#include "transport/memory_table.h"
#include "transport/observer.h"
#include "transport/qp.h"
#include "transport/qp_init.h"
#include "uroce/memory_port.h"

namespace uroce::test {
namespace {

constexpr uint32_t kMessageBytes = 64;
constexpr Instant kStart{1'000'000};

class LastPacketsEnd {
 public:
  explicit LastPacketsEnd(uint8_t number) : config_(config(number)), random_(number) {
    pd_ = engine_.objects().allocate_pd();
    cq_ = engine_.objects().create_cq(256, nullptr);
    key_ = engine_.memory().register_region(pd_, memory_.data(), memory_.size(), address(), kLocalWrite);
  }

  Qp& create() {
    QpInit init;
    init.pd = pd_;
    init.send_cq = init.recv_cq = cq_;
    init.cap = {128, 128, 1, 1, 0};
    return *engine_.create_qp(init, nullptr);
  }
  void connect(Qp& qp, LastPacketsEnd& peer, const Qp& to) {
    engine_.neighbours().set_static(peer.config_.addresses[0].ip, 0, peer.config_.mac);
    QpAttributes attributes;
    attributes.av.dgid = peer.config_.addresses[0].ip;
    attributes.av.sgid_index = 1;
    attributes.dest_qpn = to.qpn();
    attributes.path_mtu_bytes = 1024;
    ASSERT_EQ(bring_up(engine_, qp, attributes, QpState::kRts, kStart), ModifyResult::kOk);
  }
  void send(Qp& qp, uint32_t count = 1) {
    const Sge sge{address(), kMessageBytes, key_};
    SendWr wr;
    wr.flags = kSendSignaled;
    wr.sges = &sge;
    wr.num_sge = 1;
    for (uint32_t i = 0; i < count; i++) ASSERT_EQ(engine_.post_send(qp, wr, kStart), PostResult::kOk);
  }
  void receive(Qp& qp, uint32_t count = 1) {
    const Sge sge{address(), kMessageBytes, key_};
    for (uint32_t i = 0; i < count; i++) ASSERT_EQ(engine_.post_recv(qp, {7, &sge, 1}, kStart), PostResult::kOk);
  }
  void turn(int times = 1) {
    for (int i = 0; i < times; i++) engine_.turn(now_ = now_ + microseconds(50));
  }
  void end(Qp& qp) {
    QpAttributes attributes;
    attributes.state = QpState::kErr;
    ASSERT_EQ(engine_.modify_qp(qp, attributes, kAttrState, now_), ModifyResult::kOk);
  }
  void destroy(Qp& qp) { engine_.destroy_qp(&qp, now_); }
  /// The number of completions, all of which must be successful.
  uint32_t succeeded() {
    uint32_t count = 0;
    cq_->drain(256, [&](const Completion& completion) {
      EXPECT_EQ(completion.status, WcStatus::kSuccess);
      count++;
    });
    return count;
  }
  MemoryPort& port() { return port_; }

 private:
  static EngineConfig config(uint8_t number) {
    EngineConfig config;
    config.mac = {{2, 0, 0, 0, 0, number}};
    config.addresses = {{IpAddress::v4(0x0a000000u + number), 24, 0}};
    config.max_qps = 4;
    return config;
  }
  uint64_t address() const { return reinterpret_cast<uint64_t>(memory_.data()); }

  const EngineConfig config_;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kMessageBytes);
  MemoryPort port_;
  SeededRandom random_;
  Observer observer_;
  Engine engine_{config_, port_, random_, observer_};
  Instant now_ = kStart;
  PdId pd_ = 0;
  CompletionQueue* cq_ = nullptr;
  uint32_t key_ = 0;
};

class LastPackets : public testing::Test {
 protected:
  LastPackets() {
    MemoryPort::join(a_.port(), b_.port());
    a_.connect(at_a_, b_, at_b_);
    b_.connect(at_b_, a_, at_a_);
  }

  LastPacketsEnd a_{1}, b_{2};
  Qp& at_a_ = a_.create();
  Qp& at_b_ = b_.create();
};

TEST_F(LastPackets, AnAcknowledgementThatLiesThereCompletes) {
  b_.receive(at_b_);
  a_.send(at_a_);
  a_.turn();
  b_.turn(10);
  a_.end(at_a_);
  EXPECT_EQ(a_.succeeded(), 1u);
  EXPECT_EQ(b_.succeeded(), 1u);
}

TEST_F(LastPackets, AMessageThatLiesThereIsReceivedAndAcknowledged) {
  b_.receive(at_b_);
  a_.send(at_a_);
  a_.turn();
  b_.end(at_b_);
  EXPECT_EQ(b_.succeeded(), 1u);
  a_.turn();
  EXPECT_EQ(a_.succeeded(), 1u);
}

TEST_F(LastPackets, AlsoWhenTheQueuePairIsDestroyed) {
  b_.receive(at_b_);
  a_.send(at_a_);
  a_.turn();
  b_.destroy(at_b_);
  a_.turn();
  EXPECT_EQ(a_.succeeded(), 1u);
}

/// As many as a ring holds.
TEST_F(LastPackets, HoweverManyTheyAre) {
  b_.receive(at_b_, 120);
  a_.send(at_a_, 120);
  for (int i = 0; i < 10; i++) a_.turn();
  b_.end(at_b_);
  EXPECT_EQ(b_.succeeded(), 120u);
  a_.turn(3);
  EXPECT_EQ(a_.succeeded(), 120u);
}

TEST_F(LastPackets, OfAQueuePairOfTheSameProgram) {
  Qp& first = a_.create();
  Qp& second = a_.create();
  a_.connect(first, a_, second);
  a_.connect(second, a_, first);
  a_.receive(second);
  a_.send(first);
  a_.turn();
  a_.end(second);
  a_.end(first);
  EXPECT_EQ(a_.succeeded(), 2u);
}

}  // namespace
}  // namespace uroce::test
