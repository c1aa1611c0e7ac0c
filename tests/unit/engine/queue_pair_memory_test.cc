#include <gtest/gtest.h>

#include "counted_heap.h"
#include "engine/engine.h"
#include "engine/queue_pairs.h"
#include "uroce/memory_port.h"

namespace uroce::test {
namespace {

void connect(Engine& engine, Qp& qp) {
  QpAttributes attributes;
  attributes.av.sgid_index = 1;
  attributes.av.dgid = IpAddress::v4(0x0A000001);
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    attributes.state = state;
    ASSERT_EQ(engine.modify_qp(qp, attributes, required_attributes(qp.type(), qp.state(), state), Instant{0}),
              ModifyResult::kOk);
  }
}

/// What a queue pair takes is multiplied by their number, and by that of the programs.
TEST(QueuePairMemory, OfAConnectedQueuePairWith64SlotsEachWay) {
  constexpr uint64_t kMost = 9600;
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
  init.cap = {64, 64, 1, 1, 0};
  uint64_t taken = 0;
  for (int i = 0; i < 2; i++) {  // the first finds the engine's own tables empty
    const uint64_t before = heap.bytes;
    Qp* const qp = engine.create_qp(init, nullptr);
    ASSERT_NE(qp, nullptr);
    connect(engine, *qp);
    taken = heap.bytes - before;
  }
  EXPECT_LE(taken, kMost);
}

}  // namespace
}  // namespace uroce::test
