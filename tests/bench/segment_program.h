// Two programs of a segment in one process: an engine each, with a queue pair, driven as a program in ibv_poll_cq
// drives its own. What the way from core to core costs is left out.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "engine/object_tables.h"
#include "engine/qpn_blocks.h"
#include "segment/segment_port.h"
#include "sim/recording_observer.h"
#include "transport/completion_queue.h"
#include "transport/memory_table.h"
#include "transport/qp.h"
#include "transport/qp_init.h"

namespace uroce::bench {

inline constexpr uint32_t kDepth = 64;

/// The clock of both ends. Counting instructions slows everything down, so that timers would fire that do not
/// otherwise: with one thread every look at the clock can be a fixed step.
struct BenchClock {
  bool steps = false;
  Instant stepped{0};
};
inline BenchClock bench_clock;

inline Instant now() {
  if (bench_clock.steps) return bench_clock.stepped = bench_clock.stepped + nanoseconds(100);
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return Instant{std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()};
}

class Blocks final : public QpnBlocks {
 public:
  explicit Blocks(segment::SegmentPort& port) : port_(port) {}
  std::optional<uint32_t> take() override { return port_.take_block(); }

 private:
  segment::SegmentPort& port_;
};

/// One program: an engine on the segment, with a queue pair. Its messages have `message_bytes`.
class Program {
 public:
  Program(const std::string& directory, uint8_t last, QpType type = QpType::kRc, uint32_t message_bytes = 8)
      : type_(type), message_bytes_(message_bytes), ip_(IpAddress::v4(0x0A000000u + last)), random_(last) {
    segment::SegmentOptions options;
    options.directory = directory;
    options.record.host = "host" + std::to_string(last);
    options.record.mac = {{2, 0, 0, 0, 0, last}};
    options.record.addresses = {{ip_, 24, 0}};
    options.record.pid = getpid();
    std::string error;
    port_ = segment::SegmentPort::join(options, error);
    if (!port_) {
      std::fprintf(stderr, "%s\n", error.c_str());
      std::exit(1);
    }
    blocks_.emplace(*port_);
    EngineConfig config;
    config.mac = options.record.mac;
    config.addresses = options.record.addresses;
    config.qpn_blocks = &*blocks_;
    engine_ = std::make_unique<Engine>(config, *port_, random_, observer_);
    QpInit init;
    init.type = type_;
    init.pd = engine_->objects().allocate_pd();
    init.send_cq = send_cq_ = engine_->objects().create_cq(4 * kDepth, nullptr);
    init.recv_cq = recv_cq_ = engine_->objects().create_cq(4 * kDepth, nullptr);
    init.cap = {kDepth, kDepth, 1, 1, kInlineMost};
    qp_ = engine_->create_qp(init, nullptr);
    key_ = engine_->memory().register_region(init.pd, buffer_, sizeof buffer_, address(), kLocalWrite);
  }

  void connect(const Program& peer) {
    QpAttributes a;
    a.path_mtu_bytes = message_bytes_ <= 1024 ? 1024 : 4096;
    a.av.sgid_index = 1;
    a.av.dgid = peer.ip_;
    a.dest_qpn = peer.qp_->qpn();
    a.timeout = 14;
    a.retry_cnt = 7;
    a.rnr_retry = 7;
    modify(a, QpState::kInit, kAttrPkeyIndex | kAttrPort | kAttrAccessFlags);
    const bool reliable = type_ == QpType::kRc;
    modify(
        a, QpState::kRtr,
        kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn | (reliable ? kAttrMaxDestRdAtomic | kAttrMinRnrTimer : 0));
    modify(a, QpState::kRts,
           kAttrSqPsn | (reliable ? kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrMaxQpRdAtomic : 0));
  }

  void turn() {
    const Instant at = now();
    port_->on_turn(at);
    engine_->turn(at);
  }

  void receive_one() {
    const Sge sge{address(), message_bytes_, key_};
    if (engine_->post_recv(*qp_, RecvWr{0, &sge, 1}, now()) != PostResult::kOk) std::abort();
  }

  void post_send() {
    const Sge sge{address(), message_bytes_, key_};
    SendWr wr;
    wr.opcode = WrOpcode::kSend;
    wr.sges = &sge;
    wr.num_sge = 1;
    wr.flags = message_bytes_ <= kInlineMost ? kSendSignaled | kSendInline : kSendSignaled;
    const Instant at = now();
    if (engine_->post_send(*qp_, wr, at) != PostResult::kOk) std::abort();
    engine_->transmit(at);
  }

  /// How many sends and receives have completed so far.
  uint32_t sends() { return poll(*send_cq_); }
  uint32_t receives() { return poll(*recv_cq_); }

 private:
  static constexpr uint32_t kInlineMost = 64;
  static constexpr uint32_t kMessageMost = 4096;

  uint64_t address() const { return reinterpret_cast<uint64_t>(buffer_); }
  static uint32_t poll(CompletionQueue& cq) {
    return cq.drain(1, [](const Completion& completion) {
      if (completion.status != WcStatus::kSuccess) std::abort();
    });
  }
  void modify(QpAttributes a, QpState state, uint32_t mask) {
    a.state = state;
    if (engine_->modify_qp(*qp_, a, mask | kAttrState, now()) != ModifyResult::kOk) std::abort();
  }

  const QpType type_;
  const uint32_t message_bytes_;
  const IpAddress ip_;
  SeededRandom random_;
  sim::RecordingObserver observer_;
  std::unique_ptr<segment::SegmentPort> port_;
  std::optional<Blocks> blocks_;
  std::unique_ptr<Engine> engine_;
  CompletionQueue* send_cq_ = nullptr;
  CompletionQueue* recv_cq_ = nullptr;
  Qp* qp_ = nullptr;
  uint32_t key_ = 0;
  alignas(64) uint8_t buffer_[kMessageMost] = {};
};

/// Half a round trip of a ping-pong of SENDs on one thread. The answer carries the acknowledgement.
inline void hop(Program& from, Program& to) {
  from.post_send();
  while (to.receives() == 0) to.turn();
  to.receive_one();
  to.sends();
}

inline void hops_on_one_thread(Program& a, Program& b, uint32_t hops) {
  for (uint32_t i = 0; i < hops; i++) i % 2 == 0 ? hop(a, b) : hop(b, a);
}

/// Until all messages are acknowledged.
inline void settle(Program& a, Program& b) {
  for (int i = 0; i < 10'000; i++) {
    for (Program* program : {&a, &b}) {
      program->turn();
      program->sends();
    }
  }
}

}  // namespace uroce::bench
