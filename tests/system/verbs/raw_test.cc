// Raw packets: queue pairs that send and receive whole Ethernet frames, from this program to itself.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "raw_fixture.h"

namespace {

using namespace verbs_test;

class RawTest : public RawPacketTest {};

TEST_F(RawTest, AFrameGoesOutAndComesIn) {
  make_raw_pair();
  const Steered flow = steer(right_.get());
  ASSERT_EQ(post_recv(right_.get(), 7, b_.sge(0, 2048)), 0);
  write_frame(a_, 300);
  ASSERT_EQ(send(a_.sge(0, 300)), 0);
  const ibv_wc sent = poll(cq_.get(), 1)[0];
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  const ibv_wc received = poll(recv_cq_.get(), 1)[0];
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.wr_id, 7u);
  EXPECT_EQ(received.byte_len, 300u) << "without FCS";
  EXPECT_EQ(received.qp_num, right_->qp_num);
  EXPECT_EQ(std::memcmp(a_.data(), b_.data(), 300), 0);
}

TEST_F(RawTest, ElementsInlineDataAndPadding) {
  make_raw_pair();
  const Steered flow = steer(right_.get());
  write_frame(a_, 200);
  ibv_sge parts[] = {a_.sge(0, 14), a_.sge(14, 100), a_.sge(114, 86)};
  ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(0, 2048)), 0);
  ASSERT_EQ(send(parts, 3), 0);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].byte_len, 200u);
  EXPECT_EQ(std::memcmp(a_.data(), b_.data(), 200), 0);
  // Shorter than Ethernet's minimum: it is padded with zeros. Inline data need no key.
  ASSERT_EQ(post_recv(right_.get(), 2, b_.sge(0, 2048)), 0);
  ibv_sge small = a_.sge(0, 20);
  small.lkey = 0;
  ASSERT_EQ(send(&small, 1, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].byte_len, 60u);
  EXPECT_EQ(std::memcmp(a_.data(), b_.data(), 20), 0);
  EXPECT_TRUE(std::all_of(b_.data() + 20, b_.data() + 60, [](uint8_t byte) { return byte == 0; }));
}

TEST_F(RawTest, NoFrameAndTooLongAFrameAreLengthErrors) {
  for (const uint32_t bytes : {0u, 13u, 10000u}) {
    make_raw_pair();
    write_frame(a_, 64);
    ASSERT_EQ(send(a_.sge(0, bytes)), 0);
    EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_LOC_LEN_ERR) << bytes;
    EXPECT_EQ(state_of(left_.get()), IBV_QPS_SQE);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    EXPECT_EQ(ibv_modify_qp(left_.get(), &attr, IBV_QP_STATE), 0);
    ASSERT_EQ(send(a_.sge(0, 64)), 0);
    EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS) << "it goes on";
  }
}

/// The device computes no checksums, reports that, and refuses frames that ask for one.
TEST_F(RawTest, AChecksumIsRefused) {
  make_raw_pair();
  write_udp(a_, 2000);
  ibv_sge sge = a_.sge(0, 64);
  EXPECT_EQ(send(&sge, 1, IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM), EINVAL);
  EXPECT_EQ(errno, EINVAL);
  ASSERT_EQ(send(&sge, 1), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS) << "of the second alone";
  expect_nothing(cq_.get());
  ibv_device_attr attr;
  ASSERT_EQ(ibv_query_device(device(), &attr), 0);
  EXPECT_EQ(attr.device_cap_flags & (IBV_DEVICE_RAW_IP_CSUM | IBV_DEVICE_UD_IP_CSUM), 0u);

  ibv_qp_init_attr_ex init{};
  init.send_cq = init.recv_cq = cq_.get();
  init.cap = {4, 4, 1, 1, 64};
  init.qp_type = IBV_QPT_RAW_PACKET;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = pd_.get();
  init.send_ops_flags = IBV_QP_EX_WITH_SEND;
  const Owned<ibv_qp> qp(ibv_create_qp_ex(device(), &init));
  ASSERT_NE(qp, nullptr) << errno;
  to_ready(qp.get());
  ibv_qp_ex* const extended = ibv_qp_to_qp_ex(qp.get());
  for (const unsigned flags : {unsigned{IBV_SEND_IP_CSUM}, 0u}) {
    ibv_wr_start(extended);
    extended->wr_flags = IBV_SEND_SIGNALED | flags;
    ibv_wr_send(extended);
    ibv_wr_set_sge(extended, sge.lkey, sge.addr, sge.length);
    EXPECT_EQ(ibv_wr_complete(extended), flags != 0 ? EINVAL : 0);
  }
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
}

TEST_F(RawTest, AQueuePairKeepsToItsRate) {
  make_raw_pair();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.rate_limit = 2000;  // 64 frames of 1000 bytes take about 260 ms, less the initial burst
  ASSERT_EQ(ibv_modify_qp(left_.get(), &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT), 0);
  ibv_qp_attr now;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(left_.get(), &now, IBV_QP_RATE_LIMIT, &init), 0);
  EXPECT_EQ(now.rate_limit, 2000u);
  write_frame(a_, 1000);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 64; i++) {
    ASSERT_EQ(send(a_.sge(0, 1000)), 0);
    ASSERT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  }
  EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(150));
  ibv_device_attr_ex device_attr{};
  ASSERT_EQ(ibv_query_device_ex(device(), nullptr, &device_attr), 0);
  EXPECT_NE(device_attr.packet_pacing_caps.supported_qpts & (1u << IBV_QPT_RAW_PACKET), 0u);
}

TEST_F(RawTest, AReceiveThatIsTooShortIsALengthError) {
  make_raw_pair();
  const Steered flow = steer(right_.get());
  ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(0, 299)), 0);
  write_frame(a_, 300);
  ASSERT_EQ(send(a_.sge(0, 300)), 0);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(state_of(right_.get()), IBV_QPS_ERR);
}

TEST_F(RawTest, StatesNeedAPortAndNothingElse) {
  Owned<ibv_qp> qp = make_raw();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE), EINVAL);
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_QKEY), EINVAL);
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_PORT), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  EXPECT_EQ(PairTest::post_send(qp.get(), wr, a_.sge(0, 64)), EINVAL) << "not ready";
  attr.qp_state = IBV_QPS_RTR;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE), 0);
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE), 0);
  wr.opcode = IBV_WR_RDMA_WRITE;
  EXPECT_EQ(PairTest::post_send(qp.get(), wr, a_.sge(0, 64)), EINVAL) << "there is only SEND";
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  EXPECT_EQ(PairTest::post_send(qp.get(), wr, a_.sge(0, 64)), EINVAL);
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(post_recv(qp.get(), 3, b_.sge(0, 64)), 0);
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE), 0);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(RawTest, EverybodyGetsABroadcastAndAStrangersFrameNobody) {
  make_raw_pair();
  const Steered left = steer(left_.get(), IBV_FLOW_ATTR_ALL_DEFAULT),
                right = steer(right_.get(), IBV_FLOW_ATTR_MC_DEFAULT);
  ASSERT_EQ(post_recv(left_.get(), 1, b_.sge(0, 2048)), 0);
  ASSERT_EQ(post_recv(right_.get(), 2, b_.sge(2048, 2048)), 0);
  write_frame(a_, 100);
  std::fill_n(a_.data(), 6, uint8_t{0xFF});
  ASSERT_EQ(send(a_.sge(0, 100)), 0);
  for (const ibv_wc& wc : poll(recv_cq_.get(), 2)) EXPECT_EQ(wc.byte_len, 100u);
  ASSERT_EQ(post_recv(left_.get(), 1, b_.sge(0, 2048)), 0);
  std::fill_n(a_.data(), 6, uint8_t{0x06});
  ASSERT_EQ(send(a_.sge(0, 100)), 0);
  expect_nothing(recv_cq_.get());
}

TEST_F(RawTest, AQueuePairWithFlowsIsBusy) {
  make_raw_pair();
  Steered flow = steer(right_.get());
  EXPECT_EQ(ibv_destroy_qp(right_.get()), EBUSY);
  flow = {};
}

TEST_F(RawTest, FlowsOfWrongAttributesAreRefused) {
  make_raw_pair();
  struct Wrong {
    const char* what;
    int error;
    void (*change)(Rule&);
  };
  const Wrong wrongs[] = {
      {"comp_mask", EINVAL, [](Rule& r) { r.attr.comp_mask = 1; }},
      {"type", EINVAL, [](Rule& r) { r.attr.type = unknown_value<ibv_flow_attr_type>(4); }},
      {"port", EINVAL, [](Rule& r) { r.attr.port = 2; }},
      {"flags", EINVAL, [](Rule& r) { r.attr.flags = 1; }},
      {"egress", EOPNOTSUPP, [](Rule& r) { r.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS; }},
      {"size of a spec", EINVAL, [](Rule& r) { r.eth.size -= 4; }},
      {"size 0", EINVAL, [](Rule& r) { r.eth.size = 0; }},
      {"type of a spec", EINVAL, [](Rule& r) { r.eth.type = static_cast<ibv_flow_spec_type>(0x99); }},
      {"inner", EOPNOTSUPP,
       [](Rule& r) { r.eth.type = static_cast<ibv_flow_spec_type>(IBV_FLOW_SPEC_INNER | IBV_FLOW_SPEC_ETH); }},
      {"ESP", EOPNOTSUPP, [](Rule& r) { r.eth.type = IBV_FLOW_SPEC_ESP; }},
      {"a default that looks for something", EINVAL, [](Rule& r) { r.attr.type = IBV_FLOW_ATTR_ALL_DEFAULT; }},
      {"a sniffer that lets see", EINVAL,
       [](Rule& r) {
         r.attr.type = IBV_FLOW_ATTR_SNIFFER;
         r.attr.num_of_specs = 0;
         r.attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
       }},
  };
  for (const Wrong& wrong : wrongs) {
    Rule rule = udp_rule(2000);
    wrong.change(rule);
    errno = 0;
    EXPECT_EQ(ibv_create_flow(right_.get(), &rule.attr), nullptr) << wrong.what;
    EXPECT_EQ(errno, wrong.error) << wrong.what;
  }
  struct {
    Rule rule;
    ibv_flow_spec_tcp_udp again;
  } twice{udp_rule(2000), udp_rule(2000).tcp_udp};
  twice.rule.attr.num_of_specs++;
  twice.rule.attr.size = sizeof twice;
  errno = 0;
  EXPECT_EQ(ibv_create_flow(right_.get(), &twice.rule.attr), nullptr) << "two of one layer";
  EXPECT_EQ(errno, EINVAL);
  const Owned<ibv_qp> connected = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  Rule rule = udp_rule(2000);
  EXPECT_EQ(ibv_create_flow(connected.get(), &rule.attr), nullptr);
  EXPECT_EQ(errno, EINVAL) << "RC has no flows";
}

TEST_F(RawTest, SpecificationsChooseTheQueuePair) {
  make_raw_pair();
  const Steered first = steer_udp(left_.get(), 2000), second = steer_udp(right_.get(), 3000);
  write_udp(a_, 2000);
  ASSERT_EQ(post_recv(left_.get(), 1, b_.sge(0, 2048)), 0);
  ASSERT_EQ(post_recv(right_.get(), 2, b_.sge(0, 2048)), 0);
  ASSERT_EQ(send(a_.sge(0, 64)), 0);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].wr_id, 1u);
  write_udp(a_, 3000);
  ASSERT_EQ(send(a_.sge(0, 64)), 0);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].wr_id, 2u);
  write_udp(a_, 4000);
  ASSERT_EQ(send(a_.sge(0, 64)), 0);
  expect_nothing(recv_cq_.get());
}

TEST_F(RawTest, ATagIsReadFromTheCompletion) {
  ibv_cq_init_attr_ex init{};
  init.cqe = 16;
  init.wc_flags = IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_BYTE_LEN;
  ibv_cq_ex* const cq_ex = ibv_create_cq_ex(device(), &init);
  ASSERT_NE(cq_ex, nullptr);
  const Owned<ibv_cq> tagged(ibv_cq_ex_to_cq(cq_ex));
  make_raw_pair();
  const Owned<ibv_qp> qp = make_raw(tagged.get());
  to_ready(qp.get());
  struct {
    Rule rule;
    ibv_flow_spec_action_tag tag;
  } all{udp_rule(2000), {IBV_FLOW_SPEC_ACTION_TAG, sizeof(ibv_flow_spec_action_tag), 0x1234}};
  all.rule.attr.num_of_specs++;
  all.rule.attr.size = sizeof all;
  const Steered flow(ibv_create_flow(qp.get(), &all.rule.attr));
  ASSERT_NE(flow, nullptr);
  ASSERT_EQ(post_recv(qp.get(), 1, b_.sge(0, 2048)), 0);
  write_udp(a_, 2000);
  ASSERT_EQ(send(a_.sge(0, 64)), 0);
  ibv_poll_cq_attr start{};
  while (ibv_start_poll(cq_ex, &start) == ENOENT) {
  }
  EXPECT_EQ(ibv_wc_read_flow_tag(cq_ex), 0x1234u);
  EXPECT_EQ(ibv_wc_read_byte_len(cq_ex), 64u);
  ibv_end_poll(cq_ex);
}

TEST_F(RawTest, CountersCountAndDropsDrop) {
  make_raw_pair();
  ibv_counters_init_attr init{};
  ibv_counters* const counters = ibv_create_counters(device(), &init);
  ASSERT_NE(counters, nullptr);
  uint64_t values[3] = {};
  EXPECT_EQ(ibv_read_counters(counters, values, 3, 0), EINVAL) << "no flow names it yet";
  ibv_counter_attach_attr bytes{IBV_COUNTER_BYTES, 0, 0}, packets{IBV_COUNTER_PACKETS, 2, 0};
  EXPECT_EQ(ibv_attach_counters_point_flow(counters, &bytes, nullptr), 0);
  EXPECT_EQ(ibv_attach_counters_point_flow(counters, &packets, nullptr), 0);
  ibv_counter_attach_attr unknown{unknown_value<ibv_counter_description>(9), 0, 0}, mask{IBV_COUNTER_BYTES, 0, 1};
  EXPECT_EQ(ibv_attach_counters_point_flow(counters, &unknown, nullptr), ENOTSUP);
  EXPECT_EQ(ibv_attach_counters_point_flow(counters, &mask, nullptr), EINVAL);
  struct {
    Rule rule;
    ibv_flow_spec_counter_action count;
    ibv_flow_spec_action_drop drop;
  } all{udp_rule(2000),
        {IBV_FLOW_SPEC_ACTION_COUNT, sizeof(ibv_flow_spec_counter_action), counters},
        {IBV_FLOW_SPEC_ACTION_DROP, sizeof(ibv_flow_spec_action_drop)}};
  // The parts follow each other without the compiler's padding.
  std::vector<uint8_t> packed(sizeof all.rule + sizeof all.count + sizeof all.drop);
  all.rule.attr.num_of_specs += 2;
  all.rule.attr.size = static_cast<uint16_t>(packed.size());
  std::memcpy(packed.data(), &all.rule, sizeof all.rule);
  std::memcpy(packed.data() + sizeof all.rule, &all.count, sizeof all.count);
  std::memcpy(packed.data() + sizeof all.rule + sizeof all.count, &all.drop, sizeof all.drop);
  Steered flow(ibv_create_flow(right_.get(), reinterpret_cast<ibv_flow_attr*>(packed.data())));
  ASSERT_NE(flow, nullptr);
  EXPECT_EQ(ibv_attach_counters_point_flow(counters, &bytes, nullptr), EBUSY);
  EXPECT_EQ(ibv_attach_counters_point_flow(counters, &bytes, flow.get()), ENOTSUP);
  EXPECT_EQ(ibv_destroy_counters(counters), EBUSY);
  ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(0, 2048)), 0);
  write_udp(a_, 2000);
  for (int i = 0; i < 3; i++) ASSERT_EQ(send(a_.sge(0, 64)), 0);
  expect_nothing(recv_cq_.get());
  EXPECT_EQ(ibv_read_counters(counters, values, 3, IBV_READ_COUNTERS_ATTR_PREFER_CACHED), 0);
  EXPECT_EQ(values[0], 192u);
  EXPECT_EQ(values[1], 0u);
  EXPECT_EQ(values[2], 3u);
  EXPECT_EQ(ibv_read_counters(counters, values, 2, 0), EINVAL) << "no room for the third";
  EXPECT_EQ(ibv_read_counters(counters, values, 3, 8), EINVAL);
  flow = {};
  EXPECT_EQ(ibv_destroy_counters(counters), 0);
}

TEST_F(RawTest, ConnectionsGoOnWhateverFlowsSay) {
  make_raw_pair();
  Rule drop = udp_rule(4791);
  const Steered greedy = steer(right_.get(), IBV_FLOW_ATTR_ALL_DEFAULT),
                wants_roce(ibv_create_flow(right_.get(), &drop.attr));
  ASSERT_NE(wants_roce, nullptr);
  Owned<ibv_qp> a = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {}),
                b = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  connect(a.get(), b->qp_num);
  connect(b.get(), a->qp_num);
  ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(4096, 2048)), 0);
  ASSERT_EQ(post_recv(b.get(), 2, b_.sge(0, 2048)), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(PairTest::post_send(a.get(), wr, a_.sge(0, 1000)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].wr_id, 2u);
  expect_nothing(recv_cq_.get());
}

}  // namespace
