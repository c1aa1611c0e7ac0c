// One of several endpoints of a process, with one queue pair and memory to write from and into.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dpdk/endpoint.h"
#include "engine/object_tables.h"
#include "engine/queue_pairs.h"
#include "memif_end.h"
#include "transport/completion_queue.h"
#include "transport/memory_table.h"
#include "transport/observer.h"
#include "transport/qp.h"
#include "transport/qp_init.h"

namespace uroce {

class EndpointOnWire {
 public:
  static constexpr uint32_t kBytes = 150'000;  // many packets, and not a whole number of them

  /// `port`: as a user writes it. `error` has the line with which `open` fails.
  explicit EndpointOnWire(const std::string& port, Progress progress = Progress::kAuto) {
    config.port = port;
    config.progress = progress;
    config.hugepages = Hugepages::kNo;
  }

  /// At an end of a wire of DPDK's shared memory driver.
  EndpointOnWire(unsigned wire, unsigned end, Progress progress = Progress::kAuto)
      : EndpointOnWire(memif_end(wire, end), progress) {
    config.addresses = {{IpAddress::v4(0xc6120001u + end), 24, 0}};
  }

  bool open() {
    endpoint = Endpoint::open(config, observer_, error);
    if (!endpoint) return false;
    const EngineLock owner(*endpoint);
    Engine& engine = endpoint->engine();
    const PdId pd = engine.objects().allocate_pd();
    key_ = engine.memory().register_region(pd, in.data(), kBytes, address(in), kLocalWrite | kRemoteWrite);
    out_key_ = engine.memory().register_region(pd, out.data(), kBytes, address(out), kLocalWrite);
    cq_ = engine.objects().create_cq(64, nullptr);
    QpInit init;
    init.pd = pd;
    init.send_cq = init.recv_cq = cq_;
    init.cap = {16, 1, 1, 1, 0};
    qp_ = engine.create_qp(init, nullptr);
    return true;
  }

  void connect(EndpointOnWire& peer) {
    peer_address_ = address(peer.in);
    peer_key_ = peer.key_;
    QpAttributes a;
    a.access = kRemoteWrite;
    a.av.dgid = peer.endpoint->identity().addresses.at(0).ip;
    a.av.sgid_index = 1;
    a.dest_qpn = peer.qp_->qpn();
    a.timeout = 17;  // half a second: sanitizers and full machines are slow
    a.retry_cnt = 7;
    const EngineLock owner(*endpoint);
    Engine& engine = endpoint->engine();
    a.path_mtu_bytes = engine.qps().active_mtu_bytes();
    const auto set = [&](QpState state, uint32_t mask) {
      a.state = state;
      EXPECT_EQ(engine.modify_qp(*qp_, a, kAttrState | mask, endpoint->now()), ModifyResult::kOk);
    };
    set(QpState::kInit, kAttrPkeyIndex | kAttrPort | kAttrAccessFlags);
    set(QpState::kRtr, kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn | kAttrMaxDestRdAtomic | kAttrMinRnrTimer);
    set(QpState::kRts, kAttrSqPsn | kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrMaxQpRdAtomic);
  }

  /// Fills memory with bytes that depend on `seed`.
  void fill(uint32_t seed) {
    for (uint32_t i = 0; i < kBytes; i++) out[i] = static_cast<uint8_t>((i * 2654435761u + seed) >> 13);
  }

  /// Writes all of `out` to the peer's `in`, `times` times, and drives until all are complete.
  WcStatus write(int times) {
    WcStatus status = WcStatus::kSuccess;
    for (int left = times, posted = 0; left > 0 && status == WcStatus::kSuccess;) {
      const EngineLock owner(*endpoint);
      for (; posted < times && posted - (times - left) < 4; posted++) post();
      endpoint->drive();
      cq_->drain(16, [&](const Completion& completion) {
        left--;
        if (completion.status != WcStatus::kSuccess) status = completion.status;
      });
    }
    return status;
  }

  /// The received bytes. The caller owns the engine for a moment, so that the compiler and ThreadSanitizer see the
  /// order.
  std::vector<uint8_t> received() {
    const EngineLock owner(*endpoint);
    return in;
  }

  bool has_received(const std::vector<uint8_t>& bytes) {
    const EngineLock owner(*endpoint);
    return in == bytes;
  }

  EndpointConfig config;
  std::string error;
  std::vector<uint8_t> in = std::vector<uint8_t>(kBytes);
  std::vector<uint8_t> out = std::vector<uint8_t>(kBytes);

 private:
  Observer observer_;

 public:
  std::unique_ptr<Endpoint> endpoint;  // goes first: its engine uses the others

 private:
  static uint64_t address(const std::vector<uint8_t>& memory) { return reinterpret_cast<uint64_t>(memory.data()); }

  void post() {
    const Sge sge{address(out), kBytes, out_key_};
    SendWr wr;
    wr.opcode = WrOpcode::kRdmaWrite;
    wr.flags = kSendSignaled;
    wr.sges = &sge;
    wr.num_sge = 1;
    wr.remote_addr = peer_address_;
    wr.rkey = peer_key_;
    EXPECT_EQ(endpoint->engine().post_send(*qp_, wr, endpoint->now()), PostResult::kOk);
  }

  CompletionQueue* cq_ = nullptr;
  Qp* qp_ = nullptr;
  uint32_t key_ = 0;
  uint32_t out_key_ = 0;
  uint64_t peer_address_ = 0;
  uint32_t peer_key_ = 0;
};

}  // namespace uroce
