// What `--loss-recovery auto` costs on a wire that loses nothing: two engines in one thread, and its processor time, so
// that other work on the machine hardly counts.
//
//   recovery_bench [ROUNDS]
//
// Prints nanoseconds of both ends together for one RDMA WRITE, with go-back-N and with auto, which take turns.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/random.h"
#include "engine/bring_up.h"
#include "engine/engine.h"
#include "engine/object_tables.h"
#include "sim/recording_observer.h"
#include "transport/completion_queue.h"
#include "transport/counters.h"
#include "transport/memory_table.h"
#include "transport/qp.h"
#include "transport/qp_init.h"
#include "uroce/memory_port.h"

namespace uroce {
namespace {

constexpr uint32_t kFrames = 256;
constexpr uint32_t kFrameBytes = 4352;
constexpr uint32_t kMessagesInFlight = 128;

double processor_ns() {
  timespec ts{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
  return static_cast<double>(ts.tv_sec) * 1e9 + static_cast<double>(ts.tv_nsec);
}

class Side {
 public:
  Side(LossRecovery recovery, uint8_t number, uint32_t message_bytes)
      : random_(number), memory_(message_bytes), number_(number) {
    EngineConfig config;
    config.mac = mac(number);
    config.addresses = {{IpAddress::v4(0x0A000000u + number), 24, 0}};
    config.loss_recovery = recovery;
    engine_ = std::make_unique<Engine>(config, port_, random_, observer_);
    QpInit init;
    init.type = QpType::kRc;
    init.pd = engine_->objects().allocate_pd();
    init.send_cq = init.recv_cq = cq_ = engine_->objects().create_cq(2 * kMessagesInFlight, nullptr);
    init.cap = {kMessagesInFlight, 1, 1, 1, 0};
    qp_ = engine_->create_qp(init, nullptr);
    key_ = engine_->memory().register_region(init.pd, memory_.data(), message_bytes, address(),
                                             kLocalWrite | kRemoteWrite);
  }

  void connect(const Side& peer, Instant now) {
    QpAttributes a;
    a.path_mtu_bytes = 4096;
    a.av.sgid_index = 1;
    a.av.dgid = IpAddress::v4(0x0A000000u + peer.number_);
    a.dest_qpn = peer.qp_->qpn();
    a.access = kRemoteWrite;
    if (bring_up(*engine_, *qp_, a, QpState::kRts, now) != ModifyResult::kOk) std::abort();
    qp_->on_path_resolved(mac(peer.number_));
    wr_.opcode = WrOpcode::kRdmaWrite;
    wr_.flags = kSendSignaled;
    wr_.remote_addr = peer.address();
    wr_.rkey = peer.key_;
  }

  /// Keeps the queue full. Returns how many requests completed.
  uint32_t pump(Instant now) {
    const Sge sge{address(), static_cast<uint32_t>(memory_.size()), key_};
    wr_.sges = &sge;
    wr_.num_sge = 1;
    while (engine_->post_send(*qp_, wr_, now) == PostResult::kOk) {
    }
    turn(now);
    Completion completions[kMessagesInFlight];
    return cq_->poll(completions);
  }
  void turn(Instant now) { engine_->turn(now); }
  const Counters& counters() const { return engine_->counters(); }
  MemoryPort& port() { return port_; }

 private:
  static MacAddress mac(uint8_t number) { return MacAddress{{2, 0, 0, 0, 0, number}}; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(memory_.data()); }

  SeededRandom random_;
  MemoryPort port_{kFrames, kFrameBytes};
  sim::RecordingObserver observer_;
  std::vector<uint8_t> memory_;
  uint8_t number_;
  std::unique_ptr<Engine> engine_;
  CompletionQueue* cq_ = nullptr;
  Qp* qp_ = nullptr;
  uint32_t key_ = 0;
  SendWr wr_;
};

class Bench {
 public:
  Bench(LossRecovery recovery, uint32_t message_bytes)
      : requester_(recovery, 1, message_bytes), responder_(recovery, 2, message_bytes) {
    MemoryPort::join(requester_.port(), responder_.port());
    requester_.connect(responder_, now_);
    responder_.connect(requester_, now_);
  }

  double ns_per_message(uint32_t messages) {
    const double begin = processor_ns();
    for (uint32_t done = 0; done < messages;) {
      now_ = now_ + microseconds(2);
      done += requester_.pump(now_);
      responder_.turn(now_);
    }
    return (processor_ns() - begin) / messages;
  }
  const Counters& counters() const { return requester_.counters(); }

 private:
  Instant now_{1'000'000'000};
  Side requester_, responder_;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

int run(unsigned rounds) {
  std::printf("%-8s %12s %12s %18s %8s\n", "bytes", "go-back-N ns", "auto ns", "median of ratios", "of best");
  for (const uint32_t bytes : {64u, 4096u, 65536u}) {
    const uint32_t messages = bytes > 4096 ? 200 : 2000;
    Bench plain(LossRecovery::kGoBackN, bytes);
    Bench automatic(LossRecovery::kAuto, bytes);
    plain.ns_per_message(messages);
    automatic.ns_per_message(messages);
    std::vector<double> a, b, ratios;
    for (unsigned i = 0; i < rounds; i++) {
      if (i % 2 == 0) a.push_back(plain.ns_per_message(messages));
      b.push_back(automatic.ns_per_message(messages));
      if (i % 2 != 0) a.push_back(plain.ns_per_message(messages));
      ratios.push_back(b.back() / a.back());
    }
    if (plain.counters().retransmits + automatic.counters().retransmits != 0) std::printf("retransmissions!\n");
    const double best_a = *std::min_element(a.begin(), a.end());
    const double best_b = *std::min_element(b.begin(), b.end());
    std::printf("%-8u %12.1f %12.1f %18.3f %8.3f\n", bytes, median(a), median(b), median(ratios), best_b / best_a);
  }
  return 0;
}

}  // namespace
}  // namespace uroce

int main(int argc, char** argv) {
  return uroce::run(argc > 1 ? static_cast<unsigned>(std::max(1L, std::atol(argv[1]))) : 200);
}
