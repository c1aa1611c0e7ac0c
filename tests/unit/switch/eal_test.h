// Tests that need EAL: started once, with a pool of frames.
#pragma once

#include <gtest/gtest.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>

#include <string>

#include "dpdk/eal.h"
#include "dpdk/packet_pool.h"
#include "temporary_directory.h"

namespace uroce::netswitch {

class EalTest : public testing::Test {
 protected:
  static constexpr uint32_t kFrameBytes = 4352;

  static void SetUpTestSuite() {
    if (pool_ != nullptr) return;
    static const TemporaryRuntimeDir directory;
    EalOptions eal;
    eal.hugepages = Hugepages::kNo;
    std::string error;
    ASSERT_TRUE(start_eal(eal, error)) << error;
    RTE_PER_LCORE(_lcore_id) = rte_get_main_lcore();
    PacketPoolShape shape;
    shape.name = "test";
    shape.mbufs = 255;
    shape.frame_bytes = kFrameBytes;
    pool_ = make_packet_pool(shape, error);
    ASSERT_NE(pool_, nullptr) << error;
  }
  void SetUp() override { free_before_ = rte_mempool_avail_count(pool_); }
  /// Every buffer has to be back.
  void expect_all_free() const { EXPECT_EQ(rte_mempool_avail_count(pool_), free_before_); }

  static rte_mbuf* frame(uint32_t bytes, uint8_t fill = 0) {
    rte_mbuf* const mbuf = rte_pktmbuf_alloc(pool_);
    mbuf->data_len = static_cast<uint16_t>(bytes);
    mbuf->pkt_len = bytes;
    memset(rte_pktmbuf_mtod(mbuf, uint8_t*), fill, bytes);
    return mbuf;
  }

  static inline rte_mempool* pool_ = nullptr;
  unsigned free_before_ = 0;
};

}  // namespace uroce::netswitch
