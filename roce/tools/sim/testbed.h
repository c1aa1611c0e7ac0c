// Two simulated hosts on a cable, and helpers that make what a test needs on them.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/world.h"
#include "transport/memory_table.h"

namespace uroce::sim {

inline constexpr uint32_t kAllAccess =
    kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kMwBind | kFlushGlobal;

/// Registered memory.
struct Buffer {
  std::unique_ptr<uint8_t[]> bytes;
  uint32_t size = 0;
  uint32_t key = 0;

  uint8_t* data() const { return bytes.get(); }
  uint64_t addr(uint64_t offset = 0) const { return reinterpret_cast<uint64_t>(bytes.get()) + offset; }
  Sge sge(uint64_t offset, uint32_t length) const { return {addr(offset), length, key}; }
  Sge sge() const { return sge(0, size); }
};

struct QpOptions {
  QpType type = QpType::kRc;
  QpCapabilities cap{128, 128, 4, 4, 256};
  QpAttributes attributes;  // attributes of both sides, except numbers and addresses
  Psn psn_a{0x100};
  Psn psn_b{0x200};
  bool sq_sig_all = false;
  bool ipv6 = false;
  SharedReceiveQueue* srq_a = nullptr;
  SharedReceiveQueue* srq_b = nullptr;
  bool to_rts = true;                      // false: stays in RTR
  std::optional<LossRecovery> recovery_a;  // none: the engine's
  std::optional<LossRecovery> recovery_b;

  QpOptions() {
    attributes.access = kRemoteWrite | kRemoteRead | kRemoteAtomic | kFlushGlobal;
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 4;
    attributes.timeout = 8;  // 1.05 ms
    attributes.min_rnr_timer = 1;
    attributes.qkey = 0x11111111;
  }
};

/// One end of a test's QP.
struct Side {
  Host* host = nullptr;
  PdId pd = 0;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  Qp* qp = nullptr;

  Engine& engine() const { return host->engine(); }
  Buffer buffer(uint32_t size, uint32_t access = kAllAccess) const {
    Buffer b{std::make_unique<uint8_t[]>(size + 1), size, 0};
    b.key = engine().memory().register_region(pd, b.data(), size, b.addr(), access);
    return b;
  }
  /// Registers a buffer again after the engine was replaced.
  void register_again(Buffer& b, uint32_t access = kAllAccess) const {
    b.key = engine().memory().register_region(pd, b.data(), b.size, b.addr(), access);
  }
  PostResult send(const SendWr& wr) const {
    const PostResult result = engine().post_send(*qp, wr, host->now());
    host->wake();
    return result;
  }
  PostResult receive(uint64_t wr_id, std::span<const Sge> sges) const {
    const PostResult result =
        engine().post_recv(*qp, {wr_id, sges.data(), static_cast<uint32_t>(sges.size())}, host->now());
    host->wake();
    return result;
  }
  PostResult receive(uint64_t wr_id, const Sge& sge) const { return receive(wr_id, std::span(&sge, 1)); }
  static std::vector<Completion> drain(CompletionQueue& cq) {
    std::vector<Completion> all(cq.size());
    cq.poll(all);
    return all;
  }
  std::vector<Completion> sent() const { return drain(*send_cq); }
  std::vector<Completion> received() const { return drain(*recv_cq); }
  ModifyResult modify(QpState to) const {
    QpAttributes attributes;
    attributes.state = to;
    return engine().modify_qp(*qp, attributes, kAttrState, host->now());
  }
};

class Testbed {
 public:
  explicit Testbed(uint64_t seed, const LinkConfig& link = {}, const EngineConfig& base = simple_config(1));

  /// PDs, completion queues and a QP on each host, connected to each other.
  void connect(Side& a, Side& b, const QpOptions& options);
  /// Another QP for each, in the PDs and completion queues that they have.
  void add_qps(Side& a, Side& b, const QpOptions& options);
  /// Makes a QP in RESET on one side.
  static void make_qp(Side& side, bool first, const QpOptions& options);
  /// Connects QPs that are in RESET.
  void join(const Side& a, const Side& b, const QpOptions& options);

  World world;
  Host& a;
  Host& b;
  Cable cable;
};

}  // namespace uroce::sim
