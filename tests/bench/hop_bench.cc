// What a message of 8 bytes costs between two programs of a segment, apart from the way from core to core: two engines
// in one process, driven as a program in ibv_poll_cq drives its own.
//
//   hop_bench [HOPS]
//
// Prints nanoseconds per hop (half a round trip). "one thread": both ends on one core, whose caches have everything:
// what is left is the work. "two threads": each on a core of its own, as two programs are.
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "engine/engine.h"
#include "engine/qpn_blocks.h"
#include "segment/segment_port.h"
#include "sim/recording_observer.h"

namespace uroce {
namespace {

constexpr uint32_t kMessageBytes = 8;
constexpr uint32_t kDepth = 64;

/// Of both ends. Counting instructions makes everything slow, so that timers would run that do not otherwise: with one
/// thread every look at the clock is a step.
struct BenchClock {
  bool steps = false;
  Instant stepped{0};
};
BenchClock bench_clock;

Instant now() {
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

/// One program: an engine on the segment, with a queue pair.
class Program {
 public:
  Program(const std::string& directory, uint8_t last) : ip_(IpAddress::v4(0x0A000000u + last)), random_(last) {
    segment::SegmentOptions options;
    options.directory = directory;
    options.card.host = "host" + std::to_string(last);
    options.card.mac = {{2, 0, 0, 0, 0, last}};
    options.card.addresses = {{ip_, 24, 0}};
    options.card.pid = getpid();
    std::string error;
    port_ = segment::SegmentPort::join(options, error);
    if (!port_) {
      std::fprintf(stderr, "%s\n", error.c_str());
      std::exit(1);
    }
    blocks_.emplace(*port_);
    EngineConfig config;
    config.mac = options.card.mac;
    config.addresses = options.card.addresses;
    config.qpn_blocks = &*blocks_;
    engine_ = std::make_unique<Engine>(config, *port_, random_, observer_);
    QpInit init;
    init.type = QpType::kRc;
    init.pd = engine_->objects().allocate_pd();
    init.send_cq = send_cq_ = engine_->objects().create_cq(4 * kDepth, nullptr);
    init.recv_cq = recv_cq_ = engine_->objects().create_cq(4 * kDepth, nullptr);
    init.cap = {kDepth, kDepth, 1, 1, 64};
    qp_ = engine_->create_qp(init, nullptr);
    key_ = engine_->memory().register_region(init.pd, buffer_, sizeof buffer_, address(), kLocalWrite);
  }

  void connect(const Program& peer) {
    QpAttributes a;
    a.path_mtu_bytes = 1024;
    a.av.sgid_index = 1;
    a.av.dgid = peer.ip_;
    a.dest_qpn = peer.qp_->qpn();
    a.timeout = 14;
    a.retry_cnt = 7;
    a.rnr_retry = 7;
    modify(a, QpState::kInit, kAttrPkeyIndex | kAttrPort | kAttrAccessFlags);
    modify(a, QpState::kRtr,
           kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn | kAttrMaxDestRdAtomic | kAttrMinRnrTimer);
    modify(a, QpState::kRts, kAttrSqPsn | kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrMaxQpRdAtomic);
  }

  void turn() {
    const Instant at = now();
    port_->on_turn(at);
    engine_->turn(at);
  }

  void receive_one() {
    const Sge sge{address(), kMessageBytes, key_};
    if (engine_->post_recv(*qp_, RecvWr{0, &sge, 1}, now()) != PostResult::kOk) std::abort();
  }

  void post_send() {
    const Sge sge{address(), kMessageBytes, key_};
    SendWr wr;
    wr.opcode = WrOpcode::kSend;
    wr.sges = &sge;
    wr.num_sge = 1;
    wr.flags = kSendSignaled | kSendInline;
    const Instant at = now();
    if (engine_->post_send(*qp_, wr, at) != PostResult::kOk) std::abort();
    engine_->transmit(at);
  }

  /// How many sends and receives have completed by now.
  uint32_t sends() { return poll(*send_cq_); }
  uint32_t receives() { return poll(*recv_cq_); }

 private:
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
  alignas(64) uint8_t buffer_[64] = {};
};

/// Until everything that was sent has been acknowledged.
void settle(Program& a, Program& b) {
  for (int i = 0; i < 10'000; i++) {
    for (Program* program : {&a, &b}) {
      program->turn();
      program->sends();
    }
  }
}

/// A ping-pong of SENDs. The answer brings the acknowledgement with it.
[[gnu::noinline]] double one_thread(Program& a, Program& b, uint32_t hops) {
  const auto begin = std::chrono::steady_clock::now();
  for (uint32_t i = 0; i < hops; i++) {
    Program& from = i % 2 == 0 ? a : b;
    Program& to = i % 2 == 0 ? b : a;
    from.post_send();
    while (to.receives() == 0) to.turn();
    to.receive_one();
    to.sends();
  }
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
  return time.count() / hops;
}

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/// Each end waits for its own send to complete before it looks for the answer, as perftest does.
void ping_pong(Program& program, bool first, uint32_t rounds) {
  for (uint32_t i = 0; i < rounds; i++) {
    if (first) {
      program.post_send();
      while (program.sends() == 0) program.turn();
    }
    while (program.receives() == 0) program.turn();
    program.receive_one();
    if (first) continue;
    program.post_send();
    while (program.sends() == 0) program.turn();
  }
}

double two_threads(Program& a, Program& b, uint32_t hops) {
  std::atomic<int> at_work{2};
  double ns = 0;
  const auto take_part = [&](Program& program, bool first) {
    pin(first ? 0 : 1);
    const auto begin = std::chrono::steady_clock::now();
    ping_pong(program, first, hops / 2);
    if (first) ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
    for (at_work--; at_work != 0;) program.turn();  // the other's last message wants an acknowledgement
  };
  std::thread other(take_part, std::ref(b), false);
  take_part(a, true);
  other.join();
  return ns / hops;
}

int run(uint32_t hops) {
  char directory[] = "/tmp/uroce-hop-XXXXXX";
  if (mkdtemp(directory) == nullptr) return 1;
  {
    Program a(directory, 1);
    Program b(directory, 2);
    a.connect(b);
    b.connect(a);
    for (uint32_t i = 0; i < kDepth / 2; i++) {
      a.receive_one();
      b.receive_one();
    }
    settle(a, b);
    bench_clock = {true, now()};
    one_thread(a, b, hops / 10);
    double best = 1e9;
    for (int round = 0; round < 20; round++) best = std::min(best, one_thread(a, b, hops));
    std::printf("one thread   %.0f ns per hop\n", best);
    const Instant stepped = now();
    bench_clock.steps = false;
    while (now() < stepped) {  // time does not go back
    }
    settle(a, b);
    best = 1e9;
    for (int round = 0; round < 20; round++) best = std::min(best, two_threads(a, b, hops));
    std::printf("two threads  %.0f ns per hop\n", best);
  }
  std::filesystem::remove_all(directory);
  return 0;
}

}  // namespace
}  // namespace uroce

int main(int argc, char** argv) {
  return uroce::run(static_cast<uint32_t>(argc > 1 ? std::strtoul(argv[1], nullptr, 0) : 20'000));
}
