// What a queue pair takes of memory is multiplied by their number, and by that of the programs. Each service has a
// budget, at most 200 bytes above what it takes (doc/performance.md), so that a word more in each slot is too much.
#include <gtest/gtest.h>

#include "base/random.h"
#include "counted_heap.h"
#include "engine/engine.h"
#include "engine/object_tables.h"
#include "engine/queue_pairs.h"
#include "transport/observer.h"
#include "transport/qp.h"
#include "transport/qp_init.h"
#include "uroce/memory_port.h"

namespace uroce::test {
namespace {

struct Budget {
  const char* name;
  QpType type;
  bool shared;    // its receives are those of a shared queue
  uint64_t most;  // bytes
};

constexpr Budget kBudgets[] = {
    {"Rc", QpType::kRc, false, 13320},
    {"RcWithASharedQueue", QpType::kRc, true, 11800},
    {"Uc", QpType::kUc, false, 10300},
    {"Ud", QpType::kUd, false, 10100},
    {"UdWithASharedQueue", QpType::kUd, true, 8600},
    {"RawPacket", QpType::kRawPacket, false, 10100},
    {"XrcInitiator", QpType::kXrcSend, false, 8600},
    {"XrcTarget", QpType::kXrcRecv, false, 5220},
};

/// As the verbs library creates them: room for 16 bytes of inline data, whether the program asks for it or not, and
/// 16 READs and atomics at a time in both directions, as connection management agrees on.
class QueuePairMemory : public testing::TestWithParam<Budget> {
 protected:
  static constexpr uint32_t kSlots = 64;
  static constexpr uint32_t kInlineAlways = 16;
  static constexpr uint8_t kReads = 16;

  static EngineConfig config() {
    EngineConfig config;
    config.mac = MacAddress{{2, 0, 0, 0, 0, 1}};
    config.addresses = {{IpAddress::v4(0x0A000001), 24, 0}};
    return config;
  }
  QpInit init() {
    QpInit init;
    init.type = GetParam().type;
    if (init.type == QpType::kXrcRecv) {  // only its domain
      init.xrcd = engine_.objects().xrc_domains().open();
      return init;
    }
    init.pd = engine_.objects().allocate_pd();
    init.send_cq = engine_.objects().create_cq(16, nullptr);
    init.cap = {kSlots, 0, 1, 0, kInlineAlways};
    if (init.type == QpType::kXrcSend) return init;
    init.recv_cq = init.send_cq;
    if (GetParam().shared) {
      init.srq = engine_.objects().create_srq(init.pd, kSlots, 1, nullptr);
    } else {
      init.cap.max_recv_wr = kSlots;
      init.cap.max_recv_sge = 1;
    }
    return init;
  }
  void connect(Qp& qp) {
    QpAttributes attributes;
    attributes.av.sgid_index = 1;
    attributes.av.dgid = IpAddress::v4(0x0A000001);
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = kReads;
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      attributes.state = state;
      ASSERT_EQ(engine_.modify_qp(qp, attributes, required_attributes(qp.type(), qp.state(), state), Instant{0}),
                ModifyResult::kOk);
    }
  }

  MemoryPort port_;
  SeededRandom random_{1};
  Observer observer_;
  Engine engine_{config(), port_, random_, observer_};
};

INSTANTIATE_TEST_SUITE_P(Services, QueuePairMemory, testing::ValuesIn(kBudgets),
                         [](const auto& service) { return service.param.name; });

TEST_P(QueuePairMemory, OfOneThatIsConnectedWith64SlotsEachWay) {
  const QpInit created_as = init();
  uint64_t taken = 0;
  for (int i = 0; i < 2; i++) {  // the first finds the engine's own tables empty
    const uint64_t before = heap.bytes;
    Qp* const qp = engine_.create_qp(created_as, nullptr);
    ASSERT_NE(qp, nullptr);
    connect(*qp);
    taken = heap.bytes - before;
  }
  EXPECT_LE(taken, GetParam().most);
}

}  // namespace
}  // namespace uroce::test
