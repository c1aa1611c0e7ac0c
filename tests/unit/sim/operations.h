// Every operation of a service between two simulated hosts, drawn from a seed, and the sums of such a run: a small
// driver that stays as it is, so that the sums change with the engine's behaviour alone. What is right is the business
// of tests/verbs_model; here nothing may fail.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "base/random.h"
#include "engine/address_table.h"
#include "sim/testbed.h"
#include "transport/address_handle.h"
#include "transport/counters.h"
#include "transport/memory_table.h"
#include "transport/qp.h"

namespace uroce::sim {

class Operations {
 public:
  struct What {
    QpType type = QpType::kRc;
    uint64_t seed = 1;
    uint64_t each = 2000;  // operations of either side
    fabric::ImpairmentConfig faults = {};
    LossRecovery recovery = LossRecovery::kGoBackN;
  };

  explicit Operations(const What& what) : what_(what), bed_(what.seed) {
    QpOptions options;
    options.type = what.type;
    options.cap = {kDepth, kReceives, 4, 4, 64};
    options.recovery_a = options.recovery_b = what.recovery;
    options.psn_a = Psn(0xFFFF00);
    bed_.connect(ends_[0].side, ends_[1].side, options);
    for (unsigned i = 0; i < 2; i++) prepare(i);
    // No losses before the MAC addresses are known: they are not the subject here.
    good_ = bed_.world.run_until_idle();
    bed_.cable.set(what.faults);
    bed_.a.set_program([this] { program(0); });
    bed_.b.set_program([this] { program(1); });
  }
  ~Operations() {
    for (End& end : ends_) {
      if (end.ah) end.side.engine().destroy_ah(end.ah.get());
    }
  }

  /// The sums, or an error.
  std::string run() {
    const Instant start = bed_.world.now();
    const auto done = [this] { return !good_ || (ends_[0].done == what_.each && ends_[1].done == what_.each); };
    while (!bed_.world.run_until(done, microseconds(100)) && bed_.world.now() - start < milliseconds(60'000)) {
      bed_.world.run_for(microseconds(10));
    }
    if (!done() || !bed_.world.run_until_idle()) return "never ends";
    if (!good_) return "a work request failed";
    char text[200];
    std::snprintf(text, sizeof text,
                  "%" PRIu64 " events, %" PRIu64 " bytes, %" PRIu64 " messages, %" PRIu64 " again, %" PRIu64
                  " SACKs, %" PRIu64 " NAKs, %" PRIu64 " lost, %.9f s",
                  bed_.world.events().handled(), sum(&Counters::tx_bytes), messages_, sum(&Counters::retransmits),
                  sum(&Counters::tx_sack), sum(&Counters::sent_naks), lost(),
                  static_cast<double>((bed_.world.now() - start).ns) / 1e9);
    return text;
  }

 private:
  static constexpr uint32_t kDepth = 32;
  static constexpr uint32_t kReceives = 48;
  static constexpr uint32_t kMaxBytes = 8192;

  enum class Window : uint8_t { kFree, kBinding, kBound, kInvalidating };
  struct End {
    Side side;
    Buffer memory;   // source and target
    Buffer landing;  // receives, READs and results of atomics all go there
    std::unique_ptr<AddressHandle> ah;
    SeededRandom random{0};
    uint64_t posted = 0;
    uint64_t done = 0;
    uint32_t key = 0;  // of a window
    Window window = Window::kFree;
  };

  uint64_t sum(uint64_t Counters::*counter) {
    return bed_.a.engine().counters().*counter + bed_.b.engine().counters().*counter;
  }
  uint64_t lost() const { return bed_.cable.a_to_b->faults().lost + bed_.cable.b_to_a->faults().lost; }

  void prepare(unsigned number) {
    End& end = ends_[number];
    end.random = SeededRandom(what_.seed + number);
    end.memory = end.side.buffer(2 * kMaxBytes);
    end.landing = end.side.buffer(kMaxBytes + kGrhBytes);
    end.key = end.side.engine().memory().allocate_window(end.side.pd, true);
    for (uint32_t i = 0; i < kReceives; i++) receive(end);
    AddressVector av;
    av.sgid_index = 1;
    av.dgid = ends_[1 - number].side.engine().addresses().gids()[1].ip;
    end.ah = end.side.engine().create_ah(end.side.pd, av, end.side.host->now());
  }

  void receive(End& end) {
    const Sge sge = end.landing.sge();
    good_ &= end.side.engine().post_recv(*end.side.qp, {0, &sge, 1}, end.side.host->now()) == PostResult::kOk;
  }

  void program(unsigned number) {
    End& end = ends_[number];
    for (const Completion& c : end.side.sent()) {
      good_ &= c.status == WcStatus::kSuccess;
      end.done++;
      if (c.opcode == WcOpcode::kBindMw) end.window = Window::kBound;
      if (c.opcode == WcOpcode::kLocalInv) end.window = Window::kFree;
    }
    for (const Completion& c : end.side.received()) {
      good_ &= c.status == WcStatus::kSuccess;
      messages_++;
      if ((c.flags & kWcWithInv) != 0) end.window = Window::kFree;
      receive(end);
    }
    for (uint32_t count = end.random.below(4); good_ && count > 0; count--) {
      if (end.posted < what_.each && end.posted - end.done < kDepth) post(end, ends_[1 - number]);
    }
  }

  WrOpcode draw_opcode(End& end, End& peer) {
    using enum WrOpcode;
    constexpr WrOpcode kOfRc[] = {kSend,        kSendWithImm, kRdmaWrite,   kRdmaWriteWithImm,
                                  kRdmaRead,    kRdmaRead,    kCompareSwap, kFetchAdd,
                                  kAtomicWrite, kFlush,       kBindMw,      kSendWithInv};
    constexpr WrOpcode kOfUc[] = {kSend, kSendWithImm, kRdmaWrite, kRdmaWriteWithImm};
    if (what_.type == QpType::kUd) return end.random.below(2) == 0 ? kSend : kSendWithImm;
    if (what_.type == QpType::kUc) return kOfUc[end.random.below(4)];
    const WrOpcode opcode = kOfRc[end.random.below(12)];
    if (opcode == kSendWithInv && peer.window != Window::kBound) return kSend;
    if (opcode != kBindMw || end.window == Window::kFree) return opcode;
    return end.window == Window::kBound && end.random.below(4) == 0 ? kLocalInv : kRdmaWrite;
  }

  uint32_t draw_length(End& end) {
    const uint32_t most = what_.type == QpType::kUd ? end.side.qp->attributes().path_mtu_bytes : kMaxBytes;
    return end.random.below(end.random.below(3) == 0 ? most + 1 : 300);
  }

  void post(End& end, End& peer) {
    SendWr wr;
    wr.opcode = draw_opcode(end, peer);
    wr.flags = kSendSignaled;
    const uint32_t length = draw_length(end);
    const bool lands = wr.opcode == WrOpcode::kRdmaRead;
    const bool atomic = wr.opcode == WrOpcode::kCompareSwap || wr.opcode == WrOpcode::kFetchAdd;
    Sge sge = lands || atomic ? end.landing.sge(0, atomic ? 8 : length) : end.memory.sge(0, length);
    wr.sges = &sge;
    wr.num_sge = 1;
    wr.imm_or_rkey = static_cast<uint32_t>(end.posted);
    wr.remote_addr = peer.memory.addr(kMaxBytes);
    wr.rkey = peer.memory.key;
    wr.compare_add = wr.swap = end.posted;
    wr.ah = end.ah.get();
    wr.remote_qpn = peer.side.qp->qpn();
    wr.remote_qkey = 0x11111111;
    add_window(wr, end, peer);
    if (wr.opcode == WrOpcode::kFlush || wr.opcode == WrOpcode::kAtomicWrite) wr.num_sge = 0;
    good_ &= end.side.engine().post_send(*end.side.qp, wr, end.side.host->now()) == PostResult::kOk;
    end.posted++;
  }

  static void add_window(SendWr& wr, End& end, End& peer) {
    if (wr.opcode == WrOpcode::kBindMw) {
      const uint32_t next = (end.key & ~0xFFu) | ((end.key + 1) & 0xFFu);
      wr.bind = {end.key, next, end.memory.key, end.memory.addr(), 100, kRemoteRead | kRemoteWrite};
      end.key = next;
      end.window = Window::kBinding;
    } else if (wr.opcode == WrOpcode::kLocalInv) {
      wr.imm_or_rkey = end.key;
      end.window = Window::kInvalidating;
    } else if (wr.opcode == WrOpcode::kSendWithInv) {
      wr.imm_or_rkey = peer.key;
      peer.window = Window::kInvalidating;
    }
  }

  const What what_;
  Testbed bed_;
  End ends_[2];
  uint64_t messages_ = 0;
  bool good_ = true;
};

}  // namespace uroce::sim
