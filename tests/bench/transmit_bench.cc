// What congestion control costs a packet on its way out: an engine that sends into the void.
//
//   transmit_bench [PACKETS]
//
// Prints nanoseconds per packet: without an algorithm, with DCQCN before the first CNP, and while a rate is kept.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/random.h"
#include "engine/engine.h"
#include "engine/object_tables.h"
#include "sim/recording_observer.h"
#include "transport/completion_queue.h"
#include "transport/memory_table.h"
#include "transport/qp.h"
#include "transport/qp_init.h"

namespace uroce {
namespace {

constexpr uint32_t kMtu = 256;  // small: the copy of the payload is not to be measured
constexpr uint32_t kMessageBytes = 1 << 20;

/// Not a MemoryPort, which uses its whole memory: here every burst has the same few frames, which stay in the cache and
/// are discarded at once, so that the engine is measured (a MemoryPort costs 2 ns more per packet).
class Void final : public Port {
 public:
  Void() : memory_(kMaxBurst * kFrameBytes) {}
  uint32_t receive(RxFrame* /*frames*/, uint32_t /*max*/) override { return 0; }
  void release_rx(RxFrame* /*frames*/, uint32_t /*count*/) override {}
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override {
    for (uint32_t i = 0; i < max; i++) frames[i] = {memory_.data() + i * kFrameBytes, kFrameBytes, 0, nullptr};
    return max;
  }
  void send(TxFrame* frames, uint32_t count) override {
    for (uint32_t i = 0; i < count; i++) packets += frames[i].bytes != 0 ? 1 : 0;
  }
  uint64_t packets = 0;

 private:
  static constexpr uint32_t kFrameBytes = 1024;
  std::vector<uint8_t> memory_;
};

class Bench {
 public:
  explicit Bench(CongestionAlgorithm algorithm) : memory_(new uint8_t[kMessageBytes]()) {
    EngineConfig config;
    config.mac = MacAddress{{2, 0, 0, 0, 0, 1}};
    config.addresses = {{IpAddress::v4(0x0A000001), 24, 0}};
    config.congestion.algorithm = algorithm;
    config.congestion.link_bits_per_second = 100'000'000'000;
    config.congestion.dcqcn.rpg_time_reset = 1'000'000;  // the rate stays constant
    config.congestion.dcqcn.rpg_byte_reset = 0;
    engine_ = std::make_unique<Engine>(config, port_, random_, observer_);
    QpInit init;
    init.type = QpType::kUc;  // needs no acknowledgements
    init.pd = engine_->objects().allocate_pd();
    init.send_cq = init.recv_cq = cq_ = engine_->objects().create_cq(16, nullptr);
    init.cap = {16, 1, 1, 1, 0};
    qp_ = engine_->create_qp(init, nullptr);
    key_ = engine_->memory().register_region(init.pd, memory_.get(), kMessageBytes, address(), kLocalWrite);
    QpAttributes a;
    a.path_mtu_bytes = kMtu;
    a.av.sgid_index = 1;
    a.av.dgid = IpAddress::v4(0x0A000002);
    a.dest_qpn = 0x123;
    modify(a, QpState::kInit, kAttrPkeyIndex | kAttrPort | kAttrAccessFlags);
    modify(a, QpState::kRtr, kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn);
    modify(a, QpState::kRts, kAttrSqPsn);
    qp_->on_path_resolved(MacAddress{{2, 0, 0, 0, 0, 2}});
  }

  Qp& qp() { return *qp_; }

  double ns_per_packet(uint64_t packets) {
    const Sge sge{address(), kMessageBytes, key_};
    SendWr wr;
    wr.opcode = WrOpcode::kRdmaWrite;
    wr.sges = &sge;
    wr.num_sge = 1;
    wr.flags = kSendSignaled;
    Completion completions[16];
    const uint64_t goal = port_.packets + packets;
    const auto begin = std::chrono::steady_clock::now();
    while (port_.packets < goal) {
      while (engine_->post_send(*qp_, wr, now_) == PostResult::kOk) {
      }
      now_ = now_ + microseconds(5);
      engine_->turn(now_);
      cq_->poll(completions);
    }
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    return time.count() / static_cast<double>(packets);
  }
  Instant now() const { return now_; }

 private:
  uint64_t address() const { return reinterpret_cast<uint64_t>(memory_.get()); }
  void modify(QpAttributes a, QpState state, uint32_t mask) {
    a.state = state;
    if (engine_->modify_qp(*qp_, a, mask | kAttrState, now_) != ModifyResult::kOk) std::abort();
  }

  Void port_;
  SeededRandom random_{1};
  sim::RecordingObserver observer_;
  std::unique_ptr<uint8_t[]> memory_;
  std::unique_ptr<Engine> engine_;
  CompletionQueue* cq_ = nullptr;
  Qp* qp_ = nullptr;
  uint32_t key_ = 0;
  Instant now_{1'000'000'000};
};

int run(uint64_t packets) {
  Bench none(CongestionAlgorithm::kNone);
  Bench idle(CongestionAlgorithm::kDcqcn);
  Bench paced(CongestionAlgorithm::kDcqcn);
  for (Bench* bench : {&none, &idle, &paced}) bench->ns_per_packet(packets / 10);
  paced.qp().on_cnp(paced.now());
  double best[3] = {1e9, 1e9, 1e9};
  for (int round = 0; round < 200; round++) {
    best[0] = std::min(best[0], none.ns_per_packet(packets));
    best[1] = std::min(best[1], idle.ns_per_packet(packets));
    best[2] = std::min(best[2], paced.ns_per_packet(packets));
  }
  std::printf("no algorithm %.1f ns per packet\nDCQCN, no CNP yet %.1f\nDCQCN, keeping to a rate %.1f\n", best[0],
              best[1], best[2]);
  return 0;
}

}  // namespace
}  // namespace uroce

int main(int argc, char** argv) { return uroce::run(argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 10'000); }
