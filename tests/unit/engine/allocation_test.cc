// Memory runs out. Objects are made, connected, used, reset and destroyed; each time another allocation fails, until
// each has: std::bad_alloc reaches the caller, nothing has changed, nothing leaks, and the same call works when there
// is memory again. Sending and receiving allocate nothing.
//
// The engine talks to itself, so that whatever is allocated is the engine's.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/random.h"
#include "counted_heap.h"
#include "engine/engine.h"
#include "engine/multicast_groups.h"
#include "engine/object_tables.h"
#include "engine/queue_pairs.h"
#include "engine/steering.h"
#include "transport/address_handle.h"
#include "transport/completion_queue.h"
#include "transport/counters.h"
#include "transport/memory_table.h"
#include "transport/observer.h"
#include "transport/qp.h"
#include "transport/qp_init.h"
#include "transport/receive_queue.h"
#include "uroce/memory_port.h"

namespace uroce::test {
namespace {

constexpr uint32_t kBytes = 3000;
constexpr uint32_t kQps = 2;
constexpr uint32_t kRegions = 3;

struct Kind {
  const char* name;
  QpType type;
  LossRecovery recovery = LossRecovery::kGoBackN;
  CongestionAlgorithm congestion = CongestionAlgorithm::kNone;
};

constexpr Kind kKinds[] = {
    {"Rc", QpType::kRc},
    {"RcSelective", QpType::kRc, LossRecovery::kSelective, CongestionAlgorithm::kDcqcn},
    {"RcSwift", QpType::kRc, LossRecovery::kAuto, CongestionAlgorithm::kSwift},
    {"Uc", QpType::kUc, LossRecovery::kGoBackN, CongestionAlgorithm::kTimely},
    {"Ud", QpType::kUd},
    {"RawPacket", QpType::kRawPacket},
    {"Xrc", QpType::kXrcSend},  // towards a target
};

class Story {
 public:
  explicit Story(const Kind& kind) : kind_(kind) {
    std::memset(near_, 0x11, sizeof near_);
    config_.mac = MacAddress{{2, 0, 0, 0, 0, 1}};
    config_.addresses = {{IpAddress::v4(0x0A000001), 24, 0}};
    config_.max_qps = kQps;
    config_.max_regions = kRegions;
    config_.loss_recovery = kind.recovery;
    config_.congestion.algorithm = kind.congestion;
    config_.congestion.link_bits_per_second = 100'000'000'000;
  }

  void tell() {
    step([&] { engine_.emplace(config_, port_, random_, observer_); });
    make();
    if (testing::Test::HasFatalFailure()) return;
    for (unsigned round = 0; round < 2; round++) {
      connect();
      use();
      for (Qp* qp : qps_) modify(*qp, {}, QpState::kReset, kAttrState);
    }
    destroy();
    make();  // every slot is free again
    if (testing::Test::HasFatalFailure()) return;
    destroy();
    engine_.reset();
  }

  /// The number of calls that failed.
  unsigned failures = 0;

 private:
  /// Repeats `f` until there is memory for it.
  template <typename F>
  void step(F&& f) {
    for (;;) {
      try {
        heap.watched = true;
        f();
        heap.watched = false;
        return;
      } catch (const std::bad_alloc&) {
        heap.watched = false;
        heap.fails = kNever;
        failures++;
      }
    }
  }

  void modify(Qp& qp, QpAttributes attributes, QpState to, uint32_t mask) {
    attributes.state = to;
    const QpState before = qp.state();
    bool whole = true;
    step([&] {
      whole = whole && qp.state() == before;
      EXPECT_EQ(engine_->modify_qp(qp, attributes, mask, now_), ModifyResult::kOk);
    });
    EXPECT_TRUE(whole) << "a transition that failed has begun";
  }

  void make() {
    pd_ = engine_->objects().allocate_pd();
    for (CompletionQueue*& cq : cqs_) step([&] { cq = engine_->objects().create_cq(16, nullptr); });
    step([&] { cqs_[0]->resize(64); });
    step([&] { srq_ = engine_->objects().create_srq(pd_, 8, 2, nullptr); });
    if (xrc()) make_xrc();
    for (unsigned i = 0; i < kQps; i++) {
      step([&] { qps_[i] = engine_->create_qp(init(i), nullptr); });
      ASSERT_NE(qps_[i], nullptr) << "its place was lost";
    }
    if (kind_.type == QpType::kRawPacket) {
      FlowRule all;
      all.kind = FlowRuleKind::kAllDefault;
      all.qp = qps_[1];
      step([&] { flow_ = engine_->steering().add(all); });
    }
    near_key_ = engine_->memory().register_region(pd_, near_, kBytes, near_addr(), kLocalWrite);
    far_key_ = engine_->memory().register_region(pd_, far_, kBytes, far_addr(), kAccess);
    window_ = engine_->memory().allocate_window(pd_, true);
    ASSERT_TRUE(near_key_ != 0 && far_key_ != 0 && window_ != 0);
    step([&] { ah_ = engine_->create_ah(pd_, own_address(), now_); });
    ASSERT_NE(ah_, nullptr);
  }

  void make_xrc() {
    step([&] { domain_ = engine_->objects().xrc_domains().open(); });
    step([&] {  // says itself that there is no memory
      if (!engine_->objects().attach_xrc(*srq_, domain_, *cqs_[1])) throw std::bad_alloc();
    });
  }

  bool xrc() const { return kind_.type == QpType::kXrcSend; }
  QpInit init(unsigned i) const {
    QpInit init;
    if (xrc() && i == 1) {
      init.type = QpType::kXrcRecv;
      init.xrcd = domain_;
      return init;
    }
    init.type = kind_.type;
    init.pd = pd_;
    init.send_cq = cqs_[0];
    init.recv_cq = xrc() ? nullptr : cqs_[1];
    const bool shares = kind_.type == QpType::kRc || kind_.type == QpType::kUd;
    init.srq = i == 1 && shares ? srq_ : nullptr;
    init.cap = {16, 16, 2, 2, 64};
    return init;
  }

  void connect() {
    for (unsigned i = 0; i < kQps; i++) {
      Qp& qp = *qps_[i];
      QpAttributes a;
      a.access = kRemoteWrite | kRemoteRead | kRemoteAtomic;
      a.av = own_address();
      a.path_mtu_bytes = 1024;
      a.dest_qpn = qps_[1 - i]->qpn();
      a.qkey = kQkey;
      a.max_rd_atomic = a.max_dest_rd_atomic = 2;
      a.timeout = 10;
      for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
        modify(qp, a, state, required_attributes(qp.type(), qp.state(), state));
      }
      if (!is_reliable(qp.type())) continue;
      modify(qp, a, QpState::kSqd, kAttrState);
      engine_->turn(now_);
      port_.discard();
      a.max_dest_rd_atomic = a.max_rd_atomic = 16;
      const uint32_t receives = qp.type() == QpType::kXrcSend ? 0 : uint32_t{kAttrMaxDestRdAtomic};
      const uint32_t sends = qp.type() == QpType::kXrcRecv ? 0 : uint32_t{kAttrMaxQpRdAtomic};
      modify(qp, a, QpState::kSqd, receives | sends);
      EXPECT_EQ(qp.attributes().max_dest_rd_atomic, receives != 0 ? 16 : 1);
      modify(qp, a, QpState::kRts, kAttrState);
    }
  }

  void use() {
    std::memset(far_, 0x22, sizeof far_);
    const uint64_t before = heap.all;
    const bool own_queue = !xrc() && qps_[1]->init().srq == nullptr;
    const Sge into{far_addr(), kBytes, far_key_};
    const RecvWr receive{7, &into, 1};
    EXPECT_EQ(own_queue ? engine_->post_recv(*qps_[1], receive, now_) : srq_->post(receive), PostResult::kOk);
    post(WrOpcode::kSend, 800);
    if (qps_[0]->connected()) post(WrOpcode::kRdmaWrite, kBytes);
    if (is_reliable(kind_.type)) {
      for (unsigned i = 0; i < 4; i++) post(WrOpcode::kRdmaRead, kBytes);
      for (unsigned i = 0; i < 4; i++) post(WrOpcode::kFetchAdd, 8);
    }
    for (unsigned turn = 0; turn < 100; turn++) {
      now_ = now_ + microseconds(20);
      engine_->turn(now_);
      port_.discard();
    }
    EXPECT_EQ(heap.all, before) << "allocated on the data path";
    Completion done[16];
    const uint32_t sent = cqs_[0]->poll(done);
    EXPECT_EQ(sent, posted_);
    for (uint32_t i = 0; i < sent; i++) EXPECT_EQ(done[i].status, WcStatus::kSuccess);
    EXPECT_EQ(cqs_[1]->poll(done), 1u);
    EXPECT_EQ(done[0].status, WcStatus::kSuccess);
    EXPECT_EQ(far_[kGrhBytes + 700], 0x11);
    posted_ = 0;
  }

  void post(WrOpcode opcode, uint32_t bytes) {
    const Sge sge{near_addr(), bytes, near_key_};
    SendWr wr;
    wr.opcode = opcode;
    wr.flags = kSendSignaled;
    wr.sges = &sge;
    wr.num_sge = 1;
    wr.remote_addr = far_addr();
    wr.rkey = far_key_;
    wr.ah = ah_.get();
    wr.remote_qpn = qps_[1]->qpn();
    wr.remote_qkey = kQkey;
    wr.remote_srqn = srq_->xrc().number;
    EXPECT_EQ(engine_->post_send(*qps_[0], wr, now_), PostResult::kOk);
    posted_++;
  }

  void destroy() {
    engine_->destroy_ah(ah_.get());
    ah_.reset();
    if (flow_ != nullptr) engine_->steering().remove(*std::exchange(flow_, nullptr));
    for (Qp* qp : qps_) engine_->destroy_qp(qp, now_);
    EXPECT_TRUE(engine_->memory().free_window(window_));
    EXPECT_TRUE(engine_->memory().deregister(near_key_));
    EXPECT_TRUE(engine_->memory().deregister(far_key_));
    EXPECT_TRUE(engine_->destroy_srq(srq_));
    EXPECT_TRUE(!xrc() || engine_->objects().xrc_domains().close(domain_));
    for (CompletionQueue* cq : cqs_) EXPECT_TRUE(engine_->objects().destroy_cq(cq));
    EXPECT_TRUE(engine_->objects().deallocate_pd(pd_));
    EXPECT_EQ(engine_->qps().size(), 0u);
    EXPECT_EQ(engine_->memory().in_use(), 0u);
  }

  static AddressVector own_address() {
    AddressVector av;
    av.sgid_index = 1;
    av.dgid = IpAddress::v4(0x0A000001);
    return av;
  }
  uint64_t near_addr() { return reinterpret_cast<uint64_t>(near_); }
  uint64_t far_addr() { return reinterpret_cast<uint64_t>(far_); }

  static constexpr uint32_t kQkey = 0x11111111;
  static constexpr uint32_t kAccess = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kMwBind;

  Kind kind_;
  EngineConfig config_;
  MemoryPort port_;  // nothing is at the other end
  SeededRandom random_{1};
  Observer observer_;
  alignas(8) uint8_t near_[kBytes];
  alignas(8) uint8_t far_[kBytes];
  Instant now_{1'000'000};
  std::optional<Engine> engine_;
  PdId pd_ = 0;
  CompletionQueue* cqs_[2] = {};
  SharedReceiveQueue* srq_ = nullptr;
  XrcdId domain_ = 0;
  const FlowRule* flow_ = nullptr;  // of raw packets
  Qp* qps_[kQps] = {};
  std::unique_ptr<AddressHandle> ah_;
  uint32_t near_key_ = 0;
  uint32_t far_key_ = 0;
  uint32_t window_ = 0;
  uint32_t posted_ = 0;
};

class Allocations : public testing::TestWithParam<std::tuple<Kind, bool>> {};

INSTANTIATE_TEST_SUITE_P(Kinds, Allocations, testing::Combine(testing::ValuesIn(kKinds), testing::Bool()),
                         [](const auto& run) {
                           const std::string name = std::get<0>(run.param).name;
                           return name + (std::get<1>(run.param) ? "AllFromOne" : "EachOnce");
                         });

TEST_P(Allocations, EachMayFail) {
  uint64_t failed = 0;
  for (uint64_t n = 0;; n++) {
    unsigned failures = 0;
    heap.asked = 0;
    heap.all_after = std::get<1>(GetParam());
    const int64_t before = heap.live;
    {
      Story story(std::get<0>(GetParam()));
      heap.fails = n;
      story.tell();
      failures = story.failures;
    }
    ASSERT_FALSE(testing::Test::HasFailure()) << "when allocation " << n << " failed";
    ASSERT_EQ(heap.live, before) << "leaked when allocation " << n << " failed";
    if (failures == 0) break;
    failed += failures;
  }
  heap.fails = kNever;
  EXPECT_GT(failed, 40u) << "hardly any was reached";
}

/// A flow exists as a whole or not at all, and looking up a frame allocates nothing.
TEST(Flows, EachAllocationMayFail) {
  uint64_t failed = 0;
  for (bool again = true; again; failed += again) {
    again = false;
    heap.asked = 0;
    const int64_t before = heap.live;
    {
      Loopback loopback(2048);
      QpSchedule schedule(1);
      Counters counters;
      Steering steering(loopback, schedule, counters, nullptr);
      std::vector<const FlowRule*> made;
      made.reserve(4);
      heap.fails = failed;
      for (uint8_t i = 0; i < 4; i++) {
        FlowRule flow;
        // Whole addresses, which the filter is told of, and parts of addresses. Each frame matches one flow.
        const uint8_t bytes[60] = {2, 0, 0, 0, 0, i};
        std::memset(flow.match.mask.dst_mac + (i % 2 == 0 ? 0 : 5), 0xFF, i % 2 == 0 ? 6 : 1);
        for (size_t b = 0; b < 6; b++) flow.match.value.dst_mac[b] = bytes[b] & flow.match.mask.dst_mac[b];
        bool there = false;
        try {
          heap.watched = true;
          made.push_back(steering.add(flow));
          heap.watched = false;
          there = true;
        } catch (const std::bad_alloc&) {
          heap.watched = false;
          heap.fails = kNever;
          again = true;
        }
        EXPECT_EQ(steering.size(), made.size());
        const uint64_t allocated = heap.all;
        EXPECT_EQ(steering.on_frame({bytes, sizeof bytes}, Instant{0}), there);
        EXPECT_EQ(heap.all, allocated);
      }
      for (const FlowRule* const flow : made) steering.remove(*flow);
    }
    ASSERT_EQ(heap.live, before) << "leaked when allocation " << failed << " failed";
  }
  heap.fails = kNever;
  EXPECT_GT(failed, 8u) << "hardly any was reached";
}

/// A queue pair is in a group or not, and no group remains without one.
TEST(Groups, EachAllocationMayFail) {
  EngineConfig config;
  config.mac = MacAddress{{2, 0, 0, 0, 0, 1}};
  config.addresses = {{IpAddress::v4(0x0A000001), 24, 0}};
  MemoryPort port;
  SeededRandom random{1};
  Observer observer;
  const IpAddress groups[] = {IpAddress::v4(0xEF010203), IpAddress::v4(0xEF010204)};
  uint64_t failed = 0;
  for (bool again = true; again; failed += again) {
    again = false;
    heap.asked = 0;
    heap.fails = failed;
    Engine engine(config, port, random, observer);
    QpInit init;
    init.type = QpType::kUd;
    init.pd = engine.objects().allocate_pd();
    init.send_cq = init.recv_cq = engine.objects().create_cq(16, nullptr);
    init.cap = {1, 1, 1, 1, 0};
    Qp* const qps[] = {engine.create_qp(init, nullptr), engine.create_qp(init, nullptr)};
    for (const IpAddress& group : groups) {
      size_t there = 0;
      for (Qp* const qp : qps) {
        try {
          heap.watched = true;
          EXPECT_EQ(engine.multicast().attach(*qp, group, Instant{0}), MulticastGroups::Result::kOk);
          heap.watched = false;
          there++;
        } catch (const std::bad_alloc&) {
          heap.watched = false;
          heap.fails = kNever;
          again = true;
        }
        const auto* const attached = engine.multicast().attached(group);
        EXPECT_EQ(attached != nullptr ? attached->size() : 0, there) << failed;
        EXPECT_TRUE(attached == nullptr || there != 0) << failed;
      }
    }
    for (Qp* const qp : qps) engine.destroy_qp(qp, Instant{0});
    EXPECT_FALSE(engine.multicast().any());
    port.discard();
  }
  heap.fails = kNever;
  EXPECT_GT(failed, 5u) << "hardly any was reached";
}

/// A datagram of connection management for which there is no memory is lost, as on a wire, and nothing is thrown: the
/// last ones are sent while a program ends.
TEST(Datagrams, EachAllocationMayFail) {
  EngineConfig config;
  config.mac = MacAddress{{2, 0, 0, 0, 0, 1}};
  config.addresses = {{IpAddress::v4(0x0A000001), 24, 0}};
  MemoryPort port;
  SeededRandom random{1};
  Observer observer;
  AddressVector av;
  av.sgid_index = 1;
  av.dgid = IpAddress::v4(0x0A000002);
  const std::array<uint8_t, kManagementBytes> mad{};
  uint64_t failed = 0;
  for (bool again = true; again; failed += again) {
    Engine engine(config, port, random, observer);
    heap.asked = 0;
    heap.fails = failed;
    heap.watched = true;
    EXPECT_NO_THROW(engine.send_mad(av, mad, Instant{0}));
    heap.watched = false;
    again = heap.asked > failed;
    heap.fails = kNever;
    EXPECT_EQ(engine.counters().tx_drop_mad_full, again ? 1u : 0u) << failed;
    port.discard();
  }
  EXPECT_GT(failed, 0u) << "none was reached";
}

/// What a queue pair costs is the system's work for each piece of its memory, so the pieces are few, whatever their
/// size.
TEST(Pieces, AreFewInAQueuePair) {
  EngineConfig config;
  config.mac = MacAddress{{2, 0, 0, 0, 0, 1}};
  config.addresses = {{IpAddress::v4(0x0A000001), 24, 0}};
  MemoryPort port;
  SeededRandom random{1};
  Observer observer;
  Engine engine(config, port, random, observer);
  QpInit init;
  init.pd = engine.objects().allocate_pd();
  init.send_cq = init.recv_cq = engine.objects().create_cq(16, nullptr);
  for (const uint32_t slots : {1u, 16u, 1000u, 16384u}) {
    init.cap = {slots, slots, 4, 4, 220};
    const uint64_t before = heap.all;
    Qp* qp = engine.create_qp(init, nullptr);
    EXPECT_EQ(heap.all - before, 5u) << slots;  // itself, its body, its two queues, the queue of replies
    engine.destroy_qp(qp, Instant{1'000'000});
  }
  init.srq = engine.objects().create_srq(init.pd, 16, 4, nullptr);
  const uint64_t before = heap.all;
  Qp* qp = engine.create_qp(init, nullptr);
  EXPECT_EQ(heap.all - before, 6u);  // and the elements of what it takes from the shared queue
  engine.destroy_qp(qp, Instant{1'000'000});
}

/// A program may change the moderation with every batch.
TEST(Moderation, OfTheSameQueueAgainAndAgainCostsNothing) {
  EngineConfig config;
  SeededRandom random{1};
  Observer observer;
  ObjectTables objects(config, random, observer);
  CompletionQueue* const cq = objects.create_cq(16, nullptr);
  objects.moderate(*cq, 8, microseconds(20));
  const uint64_t before = heap.all;
  for (uint16_t period = 1; period < 1000; period++) objects.moderate(*cq, 8, microseconds(period % 3));
  EXPECT_EQ(heap.all, before);
}

}  // namespace
}  // namespace uroce::test
