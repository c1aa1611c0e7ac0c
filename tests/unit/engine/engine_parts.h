// The parts of an engine without the engine: each can be called alone. The port is in memory, and nobody answers.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/address_table.h"
#include "engine/engine_config.h"
#include "engine/frame_tap.h"
#include "engine/loopback.h"
#include "engine/management.h"
#include "engine/multicast_groups.h"
#include "engine/neighbours.h"
#include "engine/object_tables.h"
#include "engine/priority_flow_control.h"
#include "engine/qp_schedule.h"
#include "engine/queue_pairs.h"
#include "engine/router.h"
#include "roce_frame.h"
#include "transport/completion_queue.h"
#include "transport/counters.h"
#include "transport/memory_table.h"
#include "transport/observer.h"
#include "transport/qp.h"
#include "transport/qp_init.h"
#include "uroce/memory_port.h"

namespace uroce::test {

class EngineParts : public testing::Test, protected Observer {
 protected:
  static constexpr uint32_t kFrameBytes = 1024;
  static constexpr Instant kNow{1'000'000};
  static constexpr uint8_t kLossless = 3;  // the engine obeys its pauses

  static EngineConfig small_config() {
    EngineConfig config;
    config.mac = ipv4_path().dst_mac;
    config.addresses = {{ipv4_path().dst_ip, 24, 0}, {ipv6_path().dst_ip, 64, 0}};
    config.max_frame_bytes = kFrameBytes;
    config.max_qps = 4;
    config.max_regions = 4;
    config.max_pds = 3;
    config.max_cqs = 3;
    config.max_srqs = 2;
    config.max_ahs = 2;
    config.pfc.lossless = 1u << kLossless;
    config.congestion.algorithm = CongestionAlgorithm::kDcqcn;
    return config;
  }

  EngineParts() { neighbours_.set_static(kPeerIp, 0, kPeerMac); }

  QpInit init(QpType type = QpType::kUc) {
    if (cq_ == nullptr) cq_ = objects_.create_cq(16, nullptr);
    if (pd_ == 0) pd_ = objects_.allocate_pd();
    QpInit init;
    init.type = type;
    init.pd = pd_;
    init.send_cq = init.recv_cq = cq_;
    init.cap = {16, 16, 1, 1, 0};
    return init;
  }
  AddressVector to(const IpAddress& ip, uint8_t traffic_class = 0) {
    AddressVector av;
    av.dgid = ip;
    av.sgid_index = ip.is_v4() ? 1 : 2;
    av.traffic_class = traffic_class;
    return av;
  }
  /// Connected to a QP at that address; unresolved when there is no route to it.
  Qp& connected(const AddressVector& av, QpType type = QpType::kUc, uint32_t dest_qpn = 0x777) {
    Qp& qp = *qps_.create(init(type), nullptr);
    QpAttributes attributes;
    attributes.av = av;
    attributes.path_mtu_bytes = 256;
    attributes.dest_qpn = dest_qpn;
    attributes.qkey = 0x11111111;
    attributes.timeout = timeout_;
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      attributes.state = state;
      const std::optional<Route> path = router_.route(av, 1);
      const bool resolved = path && !path->dst_mac.is_zero();
      const uint32_t mask = required_attributes(type, qp.state(), state);
      EXPECT_EQ(qp.modify(attributes, mask, path ? &*path : nullptr, resolved, kNow), ModifyResult::kOk);
    }
    return qp;
  }
  Qp& connected() { return connected(to(kPeerIp)); }
  /// `count` empty messages, one frame each.
  void post(Qp& qp, int count = 1) {
    SendWr wr;
    wr.opcode = WrOpcode::kSend;
    for (int i = 0; i < count; i++) EXPECT_EQ(qp.post_send(wr, kNow), PostResult::kOk);
    schedule_.update(qp);
  }
  /// A SEND from the peer.
  Bth send_to(const Qp& qp, uint32_t psn = 0) const {
    Bth bth;
    bth.opcode = make_opcode(qp.type() == QpType::kRc ? Service::kRc : Service::kUc, kOpSendOnly);
    bth.pkey = kDefaultPkey;
    bth.dest_qp = qp.qpn();
    bth.psn = Psn(psn);
    return bth;
  }
  static Bytes pause_frame(uint8_t priorities, uint16_t quanta) {
    Pause pause;
    pause.src_mac = kPeerMac;
    pause.priorities = priorities;
    pause.quanta.fill(quanta);
    Bytes frame(100);
    frame.resize(encode_pause(frame, pause));
    return frame;
  }

  static inline const IpAddress kPeerIp = ipv4_path().src_ip;
  static inline const MacAddress kPeerMac = ipv4_path().src_mac;

  const EngineConfig config_ = small_config();
  SeededRandom random_{1};
  Counters counters_;
  MemoryPort port_{64, kFrameBytes};
  AddressTable addresses_{config_.mac, config_.addresses};
  Neighbours neighbours_{config_.mac, addresses_.present(), counters_,
                         [](const IpAddress&, uint16_t, const MacAddress&) {}, [](const NeighbourNews&) {}};
  PriorityFlowControl pfc_{config_.pfc, config_.mac, counters_};
  Loopback loopback_{kFrameBytes};
  FrameTap tap_;
  Management management_{counters_};
  MulticastGroups multicast_{addresses_, loopback_, {config_.mac, random_, counters_, nullptr}};
  ObjectTables objects_{config_, random_, *this};
  QueuePairs qps_{config_, objects_, random_, counters_, *this};
  QpSchedule schedule_{config_.max_qps};
  Router router_{addresses_, neighbours_, loopback_, config_.traffic_class};
  CompletionQueue* cq_ = nullptr;
  PdId pd_ = 0;
  uint8_t timeout_ = QpAttributes{}.timeout;  // of RC QPs
};

}  // namespace uroce::test
