// Queues of QPs: each once, in the order in which they came.
#include "engine/qp_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/random.h"
#include "transport/completion_queue.h"
#include "transport/counters.h"
#include "transport/memory_table.h"
#include "transport/observer.h"
#include "transport/qp_init.h"
#include "transport/transport_env.h"

namespace uroce::test {
namespace {

class QpQueueTest : public testing::Test, private Observer {
 protected:
  QpQueueTest() {
    for (uint32_t index = 0; index < 4; index++) {
      QpInit init;
      init.send_cq = init.recv_cq = &cq_;
      qps_.push_back(std::make_unique<Qp>(init, 100 + index, index, 1024, env_, nullptr));
    }
  }
  std::vector<uint32_t> drain() {
    std::vector<uint32_t> order;
    for (; !queue_.empty(); queue_.pop()) order.push_back(queue_.front().index());
    return order;
  }

  Counters counters_;
  SeededRandom random_{1};
  MemoryTable memory_{4, random_};
  TransportEnv env_{memory_, counters_, *this};
  CompletionQueue cq_{4, *this};
  std::vector<std::unique_ptr<Qp>> qps_;
  QpQueue queue_{3, 4};
};

TEST_F(QpQueueTest, KnowsWhoIsInIt) {
  queue_.push(*qps_[2]);
  EXPECT_TRUE(queue_.contains(*qps_[2]));
  EXPECT_FALSE(queue_.contains(*qps_[1]));
  queue_.pop();
  EXPECT_FALSE(queue_.contains(*qps_[2]));
}

TEST_F(QpQueueTest, FirstInFirstOut) {
  for (uint32_t index : {3u, 0u, 2u}) queue_.push(*qps_[index]);
  EXPECT_TRUE(queue_.full());
  EXPECT_EQ(queue_.size(), 3u);
  EXPECT_EQ(drain(), (std::vector<uint32_t>{3, 0, 2}));
}

TEST_F(QpQueueTest, WhoIsTakenOutLeavesTheOthersInOrder) {
  for (uint32_t index : {3u, 0u, 2u}) queue_.push(*qps_[index]);
  queue_.remove(*qps_[0]);
  queue_.remove(*qps_[1]);
  EXPECT_FALSE(queue_.contains(*qps_[0]));
  EXPECT_EQ(drain(), (std::vector<uint32_t>{3, 2}));
}

TEST_F(QpQueueTest, WhoIsPutFirstLeavesTheOthersInOrder) {
  for (uint32_t index : {3u, 0u, 2u}) queue_.push(*qps_[index]);
  queue_.put_first(*qps_[2]);
  EXPECT_EQ(drain(), (std::vector<uint32_t>{2, 3, 0}));
}

}  // namespace
}  // namespace uroce::test
