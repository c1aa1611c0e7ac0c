// Traffic interrupted at every single event: a QP moved to error or reset or destroyed, a region taken away, a cable
// cut. What must hold afterwards: every queue pair comes to rest, memory that was taken back is left alone, bystanders
// notice nothing.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "engine/address_table.h"
#include "engine/bring_up.h"
#include "sim/testbed.h"
#include "transport/memory_table.h"
#include "transport/qp.h"

namespace uroce::sim {
namespace {

constexpr uint32_t kMessage = 3000;

class Scene {
 public:
  Scene() {
    QpOptions options;
    options.attributes.path_mtu_bytes = 1024;
    options.attributes.retry_cnt = 2;
    options.attributes.rnr_retry = 1;
    bed.connect(a, b, options);
    QpOptions other = options;
    other.psn_a = Psn(0xFFFFF0);
    bystander_a = a;
    bystander_b = b;
    bed.add_qps(bystander_a, bystander_b, other);
    near = a.buffer(8 * kMessage);
    far = b.buffer(8 * kMessage);
    far_other = b.buffer(kMessage);
    std::memset(near.data(), 0x11, near.size);
    std::memset(far.data(), 0x22, far.size);
    EXPECT_TRUE(bed.world.run_until_idle());
  }

  void post_all() {
    const WrOpcode opcodes[] = {WrOpcode::kRdmaWrite, WrOpcode::kSend, WrOpcode::kRdmaRead, WrOpcode::kFetchAdd,
                                WrOpcode::kRdmaWrite};
    EXPECT_EQ(b.receive(100, far.sge(6 * kMessage, kMessage)), PostResult::kOk);
    for (uint64_t i = 0; i < 5; i++) post(a, opcodes[i], i, far, 0);
    post(bystander_a, WrOpcode::kRdmaWrite, 50, far_other, 0);
    post(bystander_a, WrOpcode::kRdmaRead, 51, far_other, 0);
  }

  void post(const Side& side, WrOpcode opcode, uint64_t wr_id, const Buffer& remote, uint32_t remote_offset) {
    const bool atomic = opcode == WrOpcode::kFetchAdd;
    const Sge sge = near.sge(static_cast<uint32_t>(wr_id % 5) * kMessage, atomic ? 8 : kMessage);
    SendWr wr;
    wr.wr_id = wr_id;
    wr.opcode = opcode;
    wr.flags = kSendSignaled;
    wr.sges = &sge;
    wr.num_sge = 1;
    wr.remote_addr = remote.addr(remote_offset);
    wr.rkey = remote.key;
    wr.compare_add = 1;
    EXPECT_EQ(side.send(wr), PostResult::kOk);
  }

  Testbed bed{3};
  Side a, b, bystander_a, bystander_b;
  Buffer near, far, far_other;
};

/// The number of events of undisturbed traffic.
uint64_t undisturbed_events() {
  Scene scene;
  const uint64_t before = scene.bed.world.events().handled();
  scene.post_all();
  EXPECT_TRUE(scene.bed.world.run_until_idle());
  EXPECT_EQ(scene.a.sent().size(), 7u);
  return scene.bed.world.events().handled() - before;
}

struct Interruption {
  const char* name;
  std::function<void(Scene&)> strike;
  bool completes;             // the interrupted side's program gets a completion for everything it posted
  bool takes_memory = false;  // no access to the region afterwards
};

class Interrupted : public testing::TestWithParam<Interruption> {};

void deregister_far(Scene& scene) {
  EXPECT_TRUE(scene.b.engine().memory().deregister(scene.far.key));
  std::memset(scene.far.data(), 0x77, scene.far.size);
}

INSTANTIATE_TEST_SUITE_P(
    AtEveryEvent, Interrupted,
    testing::Values(
        Interruption{"RequesterToError", [](Scene& s) { s.a.modify(QpState::kErr); }, true},
        Interruption{"ResponderToError", [](Scene& s) { s.b.modify(QpState::kErr); }, true},
        Interruption{"RequesterReset", [](Scene& s) { s.a.modify(QpState::kReset); }, false},
        Interruption{"ResponderReset", [](Scene& s) { s.b.modify(QpState::kReset); }, true},
        Interruption{"RequesterDestroyed", [](Scene& s) { s.a.engine().destroy_qp(s.a.qp, s.a.host->now()); }, false},
        Interruption{"ResponderDestroyed", [](Scene& s) { s.b.engine().destroy_qp(s.b.qp, s.b.host->now()); }, true},
        Interruption{"RegionDeregistered", deregister_far, true, true}),
    [](const testing::TestParamInfo<Interruption>& test) { return std::string(test.param.name); });

TEST_P(Interrupted, EverythingComesToRest) {
  const uint64_t events = undisturbed_events();
  ASSERT_GT(events, 20u);
  uint32_t failed = 0;
  for (uint64_t at = 0; at <= events; at++) {
    Scene scene;
    scene.post_all();
    for (uint64_t i = 0; i < at && !scene.bed.world.events().empty(); i++) scene.bed.world.events().step();
    GetParam().strike(scene);
    ASSERT_TRUE(scene.bed.world.run_until_idle(milliseconds(1000))) << "at event " << at;
    uint32_t mine = 0;
    uint32_t bystanders = 0;
    bool error_seen = false;
    for (const Completion& c : scene.a.sent()) {
      if (c.wr_id >= 50) {
        EXPECT_EQ(c.status, WcStatus::kSuccess);
        bystanders++;
        continue;
      }
      EXPECT_EQ(c.wr_id, mine) << "at event " << at;  // in order, each once
      mine++;
      if (error_seen) {
        EXPECT_EQ(c.status, WcStatus::kWrFlushErr);
      }
      error_seen |= c.status != WcStatus::kSuccess;
    }
    EXPECT_EQ(bystanders, 2u) << "at event " << at;
    if (GetParam().completes) {
      EXPECT_EQ(mine, 5u) << "at event " << at;
    }
    failed += error_seen ? 1 : 0;
    if (GetParam().takes_memory) {
      for (uint32_t i = 0; i < scene.far.size; i++) ASSERT_EQ(scene.far.data()[i], 0x77) << "at event " << at;
    }
    ASSERT_FALSE(HasFailure()) << "at event " << at;
  }
  if (GetParam().completes) {
    EXPECT_GT(failed, events / 4);
  }
}

// The peer that is gone.

TEST(Gone, ACutCableIsAnErrorWithinTheRetryBudget) {
  for (uint64_t at = 0; at < 60; at++) {
    Scene scene;
    scene.post_all();
    for (uint64_t i = 0; i < at && !scene.bed.world.events().empty(); i++) scene.bed.world.events().step();
    const Instant cut = scene.bed.world.now();
    const auto everything = [](std::span<const uint8_t>) { return true; };
    scene.bed.cable.a_to_b->set_drop_rule(everything);
    scene.bed.cable.b_to_a->set_drop_rule(everything);
    // Longer than the retries take: the neighbour is asked for, too, which goes on for some seconds.
    ASSERT_TRUE(scene.bed.world.run_until_idle(milliseconds(10'000)));
    Instant last{0};
    uint32_t mine = 0;
    for (const Completion& c : scene.a.sent()) {
      if (c.wr_id < 50) mine++;
      last = std::max(last, Instant{c.timestamp_ns});
    }
    EXPECT_EQ(mine, 5u);
    // 1.05 ms, then twice and four times as long, since the last progress.
    EXPECT_LE((last - cut).ns, 7 * 1'048'576 + 100'000) << at;
  }
}

TEST(Gone, ABlackoutShorterThanTheBudgetIsSurvived) {
  Scene scene;
  scene.post_all();
  scene.bed.world.run_for(microseconds(3));
  const auto everything = [](std::span<const uint8_t>) { return true; };
  scene.bed.cable.a_to_b->set_drop_rule(everything);
  scene.bed.cable.b_to_a->set_drop_rule(everything);
  scene.bed.world.run_for(microseconds(1500));
  scene.bed.cable.a_to_b->set_drop_rule(nullptr);
  scene.bed.cable.b_to_a->set_drop_rule(nullptr);
  ASSERT_TRUE(scene.bed.world.run_until_idle());
  for (const Completion& c : scene.a.sent()) EXPECT_EQ(c.status, WcStatus::kSuccess);
  EXPECT_EQ(scene.a.qp->state(), QpState::kRts);
}

/// The same pair connects again after an error, with new numbers: late packets of the old connection do no harm.
TEST(Again, ReconnectedWhileOldPacketsAreUnderWay) {
  for (uint64_t at = 0; at < 60; at++) {
    Scene scene;
    scene.post_all();
    for (uint64_t i = 0; i < at && !scene.bed.world.events().empty(); i++) scene.bed.world.events().step();
    scene.a.modify(QpState::kReset);
    scene.b.modify(QpState::kReset);
    QpOptions options;
    for (Side* side : {&scene.a, &scene.b}) {
      const bool is_a = side == &scene.a;
      QpAttributes attributes = options.attributes;
      attributes.dest_qpn = is_a ? scene.b.qp->qpn() : scene.a.qp->qpn();
      attributes.sq_psn = is_a ? Psn(0x800100) : Psn(0x900100);
      attributes.rq_psn = is_a ? Psn(0x900100) : Psn(0x800100);
      attributes.av.sgid_index = 1;
      attributes.av.dgid = (is_a ? scene.b : scene.a).engine().addresses().gids()[1].ip;
      ASSERT_EQ(bring_up(side->engine(), *side->qp, attributes, QpState::kRts, scene.bed.world.now()),
                ModifyResult::kOk);
    }
    scene.a.sent();
    std::memset(scene.near.data(), 0x55, scene.near.size);
    scene.post(scene.a, WrOpcode::kRdmaWrite, 7, scene.far, 5 * kMessage);
    ASSERT_TRUE(scene.bed.world.run_until_idle());
    uint32_t done = 0;
    for (const Completion& c : scene.a.sent()) {
      if (c.wr_id != 7) continue;
      EXPECT_EQ(c.status, WcStatus::kSuccess);
      done++;
    }
    EXPECT_EQ(done, 1u);
    for (uint32_t i = 0; i < kMessage; i++) ASSERT_EQ(scene.far.data()[5 * kMessage + i], 0x55);
    EXPECT_EQ(scene.a.qp->state(), QpState::kRts);
    EXPECT_EQ(scene.b.qp->state(), QpState::kRts);
  }
}

}  // namespace
}  // namespace uroce::sim
