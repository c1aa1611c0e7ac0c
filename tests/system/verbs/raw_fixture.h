// Queue pairs of raw packets in this process, and frames and flows for them.
#pragma once

#include <arpa/inet.h>

#include <cstring>
#include <memory>

#include "verbs_fixture.h"

namespace verbs_test {

/// A value outside the type's range.
template <typename Enum>
Enum unknown_value(uint32_t number) {
  static_assert(sizeof(Enum) == sizeof number);
  Enum value;
  std::memcpy(&value, &number, sizeof value);
  return value;
}

struct EndFlow {
  void operator()(ibv_flow* p) const { EXPECT_EQ(ibv_destroy_flow(p), 0); }
};
using Steered = std::unique_ptr<ibv_flow, EndFlow>;

/// A flow with the three common specifications, including those that match everything.
struct Rule {
  ibv_flow_attr attr;
  ibv_flow_spec_eth eth;
  ibv_flow_spec_ipv4 ipv4;
  ibv_flow_spec_tcp_udp tcp_udp;
};

class RawPacketTest : public PairTest {
 protected:
  static constexpr uint32_t kSource = 0x0A000001, kDestination = 0x0A000002;

  void SetUp() override {
    ibv_gid gid;
    ASSERT_EQ(ibv_query_gid(device(), 1, 0, &gid), 0);
    // GID 0 is the link-local address of the port's MAC.
    const uint8_t mac[] = {
        static_cast<uint8_t>(gid.raw[8] ^ 2), gid.raw[9], gid.raw[10], gid.raw[13], gid.raw[14], gid.raw[15]};
    std::memcpy(mac_, mac, sizeof mac);
  }
  Owned<ibv_qp> make_raw(ibv_cq* recv_cq = nullptr) {
    ibv_qp_init_attr attr{};
    attr.send_cq = cq_.get();
    attr.recv_cq = recv_cq != nullptr ? recv_cq : recv_cq_.get();
    attr.cap = {16, 16, 4, 4, 64};
    attr.qp_type = IBV_QPT_RAW_PACKET;
    Owned<ibv_qp> qp(ibv_create_qp(pd_.get(), &attr));
    EXPECT_NE(qp, nullptr) << errno;
    return qp;
  }
  static void to_ready(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.port_num = 1;
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      attr.qp_state = state;
      ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0)), 0);
    }
  }
  /// Both are ready; `left_` sends.
  void make_raw_pair() {
    left_ = make_raw();
    right_ = make_raw();
    to_ready(left_.get());
    to_ready(right_.get());
  }
  static ibv_qp_state state_of(ibv_qp* qp) {
    ibv_qp_attr attr;
    ibv_qp_init_attr init;
    EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
  }
  int send(ibv_sge* sges, int count, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = flags;
    wr.sg_list = sges;
    wr.num_sge = count;
    return ibv_post_send(left_.get(), &wr, &bad);
  }
  int send(ibv_sge sge) { return send(&sge, 1); }

  /// A frame of an experimental protocol to ourselves.
  void write_frame(Buffer& buffer, uint32_t bytes) const {
    for (uint32_t i = 14; i < bytes; i++) buffer.data()[i] = static_cast<uint8_t>(i * 7);
    std::memcpy(buffer.data(), mac_, 6);
    std::memcpy(buffer.data() + 6, mac_, 6);
    buffer.data()[12] = 0x88;
    buffer.data()[13] = 0xB5;
  }
  /// UDP over IPv4 to ourselves, 64 bytes.
  void write_udp(Buffer& buffer, uint16_t port, uint32_t destination = kDestination) const {
    write_frame(buffer, 64);
    uint8_t* const ip = buffer.data() + 14;
    const uint8_t header[] = {0x45, 0, 0, 50, 0, 1, 0, 0, 64, 17, 0, 0};
    buffer.data()[12] = 8;
    buffer.data()[13] = 0;
    std::memcpy(ip, header, sizeof header);
    const uint32_t addresses[] = {htonl(kSource), htonl(destination)};
    std::memcpy(ip + 12, addresses, sizeof addresses);
    const uint16_t udp[] = {htons(1000), htons(port), htons(30), 0};
    std::memcpy(ip + 20, udp, sizeof udp);
  }

  /// A flow of this type without specifications.
  static Steered steer(ibv_qp* qp, ibv_flow_attr_type type = IBV_FLOW_ATTR_NORMAL) {
    ibv_flow_attr attr{};
    attr.type = type;
    attr.size = sizeof attr;
    attr.port = 1;
    Steered flow(ibv_create_flow(qp, &attr));
    EXPECT_NE(flow, nullptr) << errno;
    return flow;
  }
  static Rule udp_rule(uint16_t port) {
    Rule rule{};
    rule.attr = {0, IBV_FLOW_ATTR_NORMAL, sizeof rule, 0, 3, 1, 0};
    rule.eth.type = IBV_FLOW_SPEC_ETH;
    rule.eth.size = sizeof rule.eth;
    rule.ipv4.type = IBV_FLOW_SPEC_IPV4;
    rule.ipv4.size = sizeof rule.ipv4;
    rule.ipv4.val.dst_ip = htonl(kDestination);
    rule.ipv4.mask.dst_ip = 0xFFFFFFFF;
    rule.tcp_udp.type = IBV_FLOW_SPEC_UDP;
    rule.tcp_udp.size = sizeof rule.tcp_udp;
    rule.tcp_udp.val.dst_port = htons(port);
    rule.tcp_udp.mask.dst_port = 0xFFFF;
    return rule;
  }
  static Steered steer_udp(ibv_qp* qp, uint16_t port) {
    Rule rule = udp_rule(port);
    Steered flow(ibv_create_flow(qp, &rule.attr));
    EXPECT_NE(flow, nullptr) << errno;
    return flow;
  }

  uint8_t mac_[6];
};

}  // namespace verbs_test
