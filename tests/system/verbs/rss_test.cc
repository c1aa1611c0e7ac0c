// Receive work queues, tables of them, and queue pairs that share frames among them by a hash.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "raw_fixture.h"

namespace {

using namespace verbs_test;

struct EndWq {
  void operator()(ibv_wq* p) const { EXPECT_EQ(ibv_destroy_wq(p), 0); }
};
struct EndTable {
  void operator()(ibv_rwq_ind_table* p) const { EXPECT_EQ(ibv_destroy_rwq_ind_table(p), 0); }
};
using OwnedWq = std::unique_ptr<ibv_wq, EndWq>;
using OwnedTable = std::unique_ptr<ibv_rwq_ind_table, EndTable>;

// The key of the published vectors.
constexpr uint8_t kKey[] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
                            0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
                            0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

class RssTest : public RawPacketTest {
 protected:
  ibv_wq_init_attr wq_attr() {
    ibv_wq_init_attr attr{};
    attr.wq_type = IBV_WQT_RQ;
    attr.max_wr = 16;
    attr.max_sge = 2;
    attr.pd = pd_.get();
    attr.cq = recv_cq_.get();
    return attr;
  }
  OwnedWq make_wq() {
    ibv_wq_init_attr attr = wq_attr();
    OwnedWq wq(ibv_create_wq(device(), &attr));
    EXPECT_NE(wq, nullptr) << errno;
    return wq;
  }
  static int go(ibv_wq* wq, ibv_wq_state state) {
    ibv_wq_attr attr{};
    attr.attr_mask = IBV_WQ_ATTR_STATE;
    attr.wq_state = state;
    return ibv_modify_wq(wq, &attr);
  }
  int post(ibv_wq* wq, uint64_t wr_id, ibv_sge sge) {
    ibv_recv_wr wr{wr_id, nullptr, &sge, 1}, *bad = nullptr;
    return ibv_post_wq_recv(wq, &wr, &bad);
  }
  OwnedTable make_table(std::vector<ibv_wq*> queues, uint32_t log) {
    ibv_rwq_ind_table_init_attr attr{log, queues.data(), 0};
    return OwnedTable(ibv_create_rwq_ind_table(device(), &attr));
  }
  ibv_qp_init_attr_ex rss_attr(ibv_rwq_ind_table* table) {
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_RAW_PACKET;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    attr.pd = pd_.get();
    attr.rwq_ind_tbl = table;
    attr.rx_hash_conf.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ;
    attr.rx_hash_conf.rx_hash_key_len = sizeof kKey;
    attr.rx_hash_conf.rx_hash_key = key_;
    attr.rx_hash_conf.rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4;
    return attr;
  }

  uint8_t key_[sizeof kKey];
  void SetUp() override {
    RawPacketTest::SetUp();
    std::copy_n(kKey, sizeof kKey, key_);
    make_raw_pair();
  }
};

TEST_F(RssTest, TheDeviceSaysWhatItHas) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(device(), nullptr, &attr), 0);
  EXPECT_EQ(attr.rss_caps.supported_qpts, 1u << IBV_QPT_RAW_PACKET);
  EXPECT_EQ(attr.rss_caps.rx_hash_function, IBV_RX_HASH_FUNC_TOEPLITZ);
  EXPECT_EQ(attr.rss_caps.rx_hash_fields_mask, 0xFFu);
  EXPECT_EQ(attr.rss_caps.max_rwq_indirection_table_size, 512u);
  EXPECT_GT(attr.rss_caps.max_rwq_indirection_tables, 0u);
  EXPECT_GT(attr.max_wq_type_rq, 0u);
  EXPECT_EQ(attr.raw_packet_caps, 0u) << "no checksums, no FCS, no stripping of tags";
  EXPECT_NE(attr.orig_attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING, 0u);
}

TEST_F(RssTest, ThereAreAsManyTablesAsTheDeviceSaysAndAgainWhenTheyAreGone) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(device(), nullptr, &attr), 0);
  const OwnedWq wq = make_wq();
  for (int round = 0; round < 2; round++) {
    std::vector<OwnedTable> all;
    while (OwnedTable one = make_table({wq.get()}, 0)) all.push_back(std::move(one));
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(all.size(), attr.rss_caps.max_rwq_indirection_tables) << round;
  }
}

TEST_F(RssTest, PublishedVectorsChooseTheQueue) {
  // Source, destination and the lowest two bits of the published hash value.
  constexpr struct {
    uint32_t source, destination, hash;
  } kVectors[] = {{0x420995bb, 0xa18e6450, 0x323e8fc2},
                  {0xc75c6f02, 0x41458c53, 0xd718262a},
                  {0x1813c65f, 0x0c16cfb8, 0xd2d0a5de},
                  {0x261bcd1e, 0xd18ea306, 0x82989176},
                  {0x9927a3bf, 0xcabc7f02, 0x5d1809c5}};
  std::vector<OwnedWq> owned;
  std::vector<ibv_wq*> queues;
  for (int i = 0; i < 4; i++) {
    owned.push_back(make_wq());
    queues.push_back(owned.back().get());
    ASSERT_EQ(go(queues.back(), IBV_WQS_RDY), 0);
  }
  const OwnedTable table = make_table(queues, 2);
  ASSERT_NE(table, nullptr);
  ibv_qp_init_attr_ex attr = rss_attr(table.get());
  const Owned<ibv_qp> qp(ibv_create_qp_ex(device(), &attr));
  ASSERT_NE(qp, nullptr) << errno;
  const Steered flow = steer(qp.get());
  for (const auto& vector : kVectors) {
    for (ibv_wq* const wq : queues) ASSERT_EQ(post(wq, 1, b_.sge(0, 2048)), 0);
    write_udp(a_, 2000, vector.destination);
    const uint32_t source = htonl(vector.source);
    std::memcpy(a_.data() + 26, &source, 4);
    ASSERT_EQ(send(a_.sge(0, 64)), 0);
    EXPECT_EQ(poll(recv_cq_.get(), 1)[0].qp_num, queues[vector.hash & 3]->wq_num) << std::hex << vector.hash;
  }
  EXPECT_EQ(ibv_destroy_rwq_ind_table(table.get()), EBUSY);
  EXPECT_EQ(ibv_destroy_wq(queues[0]), EBUSY);
}

TEST_F(RssTest, AWorkQueueWithoutRoomForItsCompletions) {
  const Owned<ibv_cq> small(ibv_create_cq(device(), 1, nullptr, nullptr, 0));
  ibv_wq_init_attr init = wq_attr();
  init.cq = small.get();
  const OwnedWq wq(ibv_create_wq(device(), &init));
  ASSERT_NE(wq, nullptr) << errno;
  ASSERT_EQ(go(wq.get(), IBV_WQS_RDY), 0);
  const OwnedTable table = make_table({wq.get()}, 0);
  ibv_qp_init_attr_ex attr = rss_attr(table.get());
  const Owned<ibv_qp> qp(ibv_create_qp_ex(device(), &attr));
  ASSERT_NE(qp, nullptr) << errno;
  const Steered flow = steer(qp.get());
  write_udp(a_, 2000);
  for (int i = 0; i < 3; i++) ASSERT_EQ(post(wq.get(), 1, b_.sge(0, 2048)), 0);
  for (int i = 0; i < 3; i++) ASSERT_EQ(send(a_.sge(0, 64)), 0);
  ibv_async_event event = wait_for(IBV_EVENT_WQ_FATAL, wq.get());
  ibv_ack_async_event(&event);
}

TEST_F(RssTest, StatesOfAWorkQueue) {
  const OwnedWq wq = make_wq();
  EXPECT_EQ(wq->state, IBV_WQS_RESET);
  EXPECT_EQ(post(wq.get(), 1, b_.sge(0, 64)), EINVAL) << "not ready";
  EXPECT_EQ(go(wq.get(), IBV_WQS_ERR), EINVAL);
  EXPECT_EQ(go(wq.get(), IBV_WQS_RDY), 0);
  EXPECT_EQ(wq->state, IBV_WQS_RDY);
  EXPECT_EQ(post(wq.get(), 5, b_.sge(0, 64)), 0);
  ibv_wq_attr attr{};
  attr.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE;
  attr.wq_state = IBV_WQS_ERR;
  attr.curr_wq_state = IBV_WQS_RESET;
  EXPECT_EQ(ibv_modify_wq(wq.get(), &attr), EINVAL) << "it is not in that state";
  EXPECT_EQ(go(wq.get(), IBV_WQS_ERR), 0);
  const ibv_wc flushed = poll(recv_cq_.get(), 1)[0];
  EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(flushed.wr_id, 5u);
  EXPECT_EQ(flushed.qp_num, wq->wq_num);
  EXPECT_EQ(go(wq.get(), IBV_WQS_RDY), EINVAL);
  EXPECT_EQ(go(wq.get(), IBV_WQS_RESET), 0);
  EXPECT_EQ(go(wq.get(), IBV_WQS_RDY), 0);
  attr.attr_mask = IBV_WQ_ATTR_FLAGS;
  attr.flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING;
  EXPECT_EQ(ibv_modify_wq(wq.get(), &attr), EOPNOTSUPP);
}

TEST_F(RssTest, WrongAttributesAreRefused) {
  const auto wq_with = [this](auto change) {
    ibv_wq_init_attr attr = wq_attr();
    change(attr);
    errno = 0;
    EXPECT_EQ(ibv_create_wq(device(), &attr), nullptr);
    return errno;
  };
  EXPECT_EQ(wq_with([](auto& a) { a.cq = nullptr; }), EINVAL);
  EXPECT_EQ(wq_with([](auto& a) { a.pd = nullptr; }), EINVAL);
  EXPECT_EQ(wq_with([](auto& a) { a.max_wr = 0; }), EINVAL);
  EXPECT_EQ(wq_with([](auto& a) { a.max_sge = 1000; }), EINVAL);
  EXPECT_EQ(wq_with([](auto& a) { a.comp_mask = 2; }), EINVAL);
  EXPECT_EQ(wq_with([](auto& a) { a.comp_mask = 1, a.create_flags = IBV_WQ_FLAGS_SCATTER_FCS; }), EOPNOTSUPP);
  const OwnedWq wq = make_wq();
  EXPECT_EQ(make_table({nullptr}, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(make_table({wq.get()}, 10), nullptr) << "too large";
  const OwnedTable table = make_table({wq.get(), wq.get()}, 1);
  ASSERT_NE(table, nullptr);
  const auto qp_with = [&](auto change) {
    ibv_qp_init_attr_ex attr = rss_attr(table.get());
    change(attr);
    errno = 0;
    EXPECT_EQ(ibv_create_qp_ex(device(), &attr), nullptr);
    return errno;
  };
  EXPECT_EQ(qp_with([](auto& a) { a.qp_type = IBV_QPT_UD; }), EINVAL);
  EXPECT_EQ(qp_with([](auto& a) { a.rwq_ind_tbl = nullptr; }), EINVAL);
  EXPECT_EQ(qp_with([](auto& a) { a.rx_hash_conf.rx_hash_key_len = 39; }), EINVAL);
  EXPECT_EQ(qp_with([](auto& a) { a.rx_hash_conf.rx_hash_function = 2; }), EOPNOTSUPP);
  EXPECT_EQ(qp_with([](auto& a) { a.rx_hash_conf.rx_hash_fields_mask = IBV_RX_HASH_INNER; }), EOPNOTSUPP);
  EXPECT_EQ(qp_with([](auto& a) { a.comp_mask &= ~uint32_t{IBV_QP_INIT_ATTR_RX_HASH}; }), EINVAL);
  ibv_qp_init_attr_ex good = rss_attr(table.get());
  const Owned<ibv_qp> qp(ibv_create_qp_ex(device(), &good));
  ASSERT_NE(qp, nullptr);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_PORT), EOPNOTSUPP);
}

}  // namespace
