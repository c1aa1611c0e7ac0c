// wire=port:NAME with net_ring as the other port, whose two sides the test holds.
#include <rte_eth_ring.h>
#include <rte_ring.h>

#include "tests/unit/pmd/driver_rig.h"

namespace mqnic::test {
namespace {

class PortWire : public DriverRig {
 protected:
  static constexpr char kCard[] = "net_mqnic_wired";

  void SetUp() override {
    DriverRig::SetUp();
    to_card_ = rte_ring_create("to_card", 256, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
    from_card_ = rte_ring_create("from_card", 256, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
    other_ = rte_eth_from_rings("cable", &to_card_, 1, &from_card_, 1, 0);
    ASSERT_GE(other_, 0);
  }
  void TearDown() override {
    rte_vdev_uninit("net_ring_cable");
    rte_ring_free(to_card_);
    rte_ring_free(from_card_);
    DriverRig::TearDown();
  }

  rte_ring* to_card_ = nullptr;
  rte_ring* from_card_ = nullptr;
  int other_ = -1;
};

TEST_F(PortWire, FramesPassBothWays) {
  char name[RTE_ETH_NAME_MAX_LEN];
  ASSERT_EQ(rte_eth_dev_get_name_by_port(static_cast<uint16_t>(other_), name), 0);
  EXPECT_LT(rte_vdev_init(kCard, "wire=port:nowhere"), 0);
  ASSERT_EQ(rte_vdev_init(kCard, (std::string("wire=port:") + name).c_str()), 0);
  EXPECT_EQ(rte_eth_dev_get_port_by_name(kCard, &port), 0);
  EXPECT_EQ(rte_eth_dev_count_avail(), 1u);  // the wire has the other one
  ASSERT_EQ(start({.tx_offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS}), 0);
  for (unsigned i = 0; i < 600; ++i) {
    const Bytes frame = make_frame(60 + i, i);
    ASSERT_EQ(send(frame), 1u);
    void* out = nullptr;
    for (int turn = 0; turn < 100 && rte_ring_dequeue(from_card_, &out) != 0; ++turn) receive(0);
    ASSERT_NE(out, nullptr) << i;
    EXPECT_EQ(bytes_of(static_cast<rte_mbuf*>(out)), frame);
    rte_pktmbuf_free(static_cast<rte_mbuf*>(out));
    // In two pieces.
    ASSERT_EQ(rte_ring_enqueue(to_card_, make_chain(frame, {50, static_cast<uint16_t>(10 + i)})), 0);
    const std::vector<Bytes> received = receive(1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0], frame);
  }
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  ASSERT_EQ(rte_vdev_uninit(kCard), 0);
  port = RTE_MAX_ETHPORTS;
}

}  // namespace
}  // namespace mqnic::test
