// A stream of WRITEs between two hosts, and what of it arrives.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "sim/testbed.h"
#include "transport/counters.h"

namespace uroce::sim {

struct Path {
  Duration delay = microseconds(6);
  uint64_t bits_per_second = 100'000'000'000;
  uint32_t window_packets = 128;
  uint32_t mtu = 4096;
  uint8_t timeout = 8;
  LossRecovery recovery = LossRecovery::kAuto;
  uint32_t reorder_packets = 1024;
};

inline EngineConfig config_of(const Path& path) {
  EngineConfig config = simple_config(1);
  config.window_packets = path.window_packets;
  config.loss_recovery = path.recovery;
  config.reorder_packets = path.reorder_packets;
  return config;
}

/// WRITEs of `message_bytes` each from a to b, without a pause between them.
class Stream {
 public:
  Stream(uint64_t seed, const Path& path, uint32_t message_bytes, uint32_t queue)
      : bed_(seed, {path.delay, path.bits_per_second, {}}, config_of(path)), bytes_(message_bytes) {
    QpOptions options;
    options.cap = {queue, 16, 1, 1, 0};
    options.attributes.path_mtu_bytes = path.mtu;
    options.attributes.timeout = path.timeout;
    bed_.connect(a_, b_, options);
    near_ = a_.buffer(message_bytes);
    far_ = b_.buffer(message_bytes);
    sge_ = near_.sge();
    EXPECT_TRUE(bed_.world.run_until_idle());
    bed_.a.set_program([this] { program(); });
  }

  /// Loss of frames that `a` sends, and of those that `b` sends back.
  void lose(double there, double back) {
    set_loss(*bed_.cable.a_to_b, there);
    set_loss(*bed_.cable.b_to_a, back);
  }
  /// Loses the n-th frame that `a` sends, and no other.
  void lose_frame(uint64_t n) {
    bed_.cable.a_to_b->set_drop_rule(drop_nth(n, [](std::span<const uint8_t>) { return true; }));
  }
  /// Bits per second that completed in `measured`, after a run-up of `before`.
  double goodput(Duration before, Duration measured) {
    bed_.a.wake();
    bed_.world.run_for(before);
    const uint64_t from = completed_;
    bed_.world.run_for(measured);
    EXPECT_TRUE(failures_.empty());
    return static_cast<double>((completed_ - from) * bytes_) * 8e9 / static_cast<double>(measured.ns);
  }
  const Counters& counters() { return bed_.a.engine().counters(); }

 private:
  static void set_loss(Link& link, double share) {
    fabric::ImpairmentConfig faults;
    faults.loss = share;
    link.set_impairments(faults);
  }
  void program() {
    for (const Completion& c : a_.sent()) {
      completed_++;
      if (c.status != WcStatus::kSuccess) failures_.push_back(c);
    }
    SendWr wr;
    wr.opcode = WrOpcode::kRdmaWrite;
    wr.flags = kSendSignaled;
    wr.sges = &sge_;
    wr.num_sge = 1;
    wr.remote_addr = far_.addr();
    wr.rkey = far_.key;
    bool posted = false;
    while (failures_.empty() && a_.engine().post_send(*a_.qp, wr, a_.host->now()) == PostResult::kOk) posted = true;
    if (posted) bed_.a.wake();
  }

  Testbed bed_;
  Side a_;
  Side b_;
  Buffer near_;
  Buffer far_;
  Sge sge_;
  uint32_t bytes_;
  uint64_t completed_ = 0;
  std::vector<Completion> failures_;
};

/// The goodput as a part of that without loss.
inline double share(const Path& path, double there, double back, Duration measured, uint32_t message_bytes,
                    uint32_t queue) {
  const Duration before{measured.ns / 10};
  Stream whole(1, path, message_bytes, queue);
  const double most = whole.goodput(before, measured);
  Stream lossy(2, path, message_bytes, queue);
  lossy.lose(there, back);
  const double rest = lossy.goodput(before, measured);
  std::printf(
      "loss %g: %.2f of %.2f Gb/s, %.4f; %llu sent again, %llu by selective repeat, %llu spurious, %llu probes, "
      "%llu timeouts\n",
      there, rest / 1e9, most / 1e9, rest / most, static_cast<unsigned long long>(lossy.counters().retransmits),
      static_cast<unsigned long long>(lossy.counters().selective_retransmits),
      static_cast<unsigned long long>(lossy.counters().spurious_retransmits),
      static_cast<unsigned long long>(lossy.counters().tail_loss_probes),
      static_cast<unsigned long long>(lossy.counters().local_ack_timeout_err));
  return rest / most;
}

}  // namespace uroce::sim
