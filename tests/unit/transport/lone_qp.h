// A queue pair without an engine: with the parts below it, and nothing else.
#pragma once

#include <span>
#include <vector>

#include "base/random.h"
#include "qp_side.h"

namespace uroce::test {

/// One side: 64 KiB of memory under one key with all rights, a completion queue, and a QP. Tests hand packets to `qp`
/// and take frames from it.
class LoneQp : public QpWitness {
 public:
  explicit LoneQp(uint32_t qpn, QpType type = QpType::kRc, LossRecovery recovery = LossRecovery::kGoBackN,
                  uint32_t cq_size = 64, uint32_t port_mtu = 1024)
      : env_{.memory = table_, .counters = counters, .observer = *this, .loss_recovery = recovery},
        cq(cq_size, *this),
        qp(init(type), qpn, 0, port_mtu, with_pool(), nullptr) {
    key = table_.register_region(1, memory.data(), memory.size(), 0, 15);
  }

  /// Moves from RESET to RTS, connected to `peer`.
  void connect(const LoneQp& peer, Instant now) {
    bring_up(qp, attributes_towards(peer.qp.qpn()), route_between(0x0A000001, 0x0A000002), QpState::kRts, now);
  }

  /// The first bytes of our memory; WRITE and READ use those of the peer's from 32768 on. Signalled.
  PostResult post(WrOpcode opcode, uint64_t wr_id, uint32_t bytes, const LoneQp& peer, Instant now) {
    const Sge sge{.addr = 0, .length = bytes, .lkey = key};
    SendWr wr;
    wr.wr_id = wr_id;
    wr.opcode = opcode;
    wr.flags = kSendSignaled;
    wr.sges = &sge;
    wr.num_sge = 1;
    wr.remote_addr = 32768;
    wr.rkey = peer.key;
    return qp.post_send(wr, now);
  }

  /// The key for more memory, with all rights.
  uint32_t register_memory(void* at, uint64_t bytes) {
    return table_.register_region(1, at, bytes, reinterpret_cast<uint64_t>(at), 15);
  }

  Frames frames(Instant now) { return frames_of(qp, now); }
  void receive(std::span<const uint8_t> frame, Instant now) { give_frame(qp, frame, now); }
  std::vector<Completion> completions() { return completions_of(cq); }

  void on_bind_error(void* window, const MwBind& bind, uint32_t bound) override {
    bind_errors.push_back({window, bind.new_rkey, bound});
  }

  struct BindError {
    void* window;  // as its user knows it
    uint32_t wanted;
    uint32_t key;  // that it still has
    bool operator==(const BindError&) const = default;
  };
  std::vector<BindError> bind_errors;
  Counters counters;
  std::vector<uint8_t> memory = std::vector<uint8_t>(65536);
  uint32_t key = 0;

 private:
  QpInit init(QpType type) {
    QpInit init;
    init.type = type;
    init.pd = 1;
    init.send_cq = init.recv_cq = &cq;
    init.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    return init;
  }
  TransportEnv& with_pool() {
    pool_.prepare();
    env_.reorder_pool = &pool_;
    return env_;
  }

  SeededRandom random_{1};
  MemoryTable table_{16, random_};
  ReorderPool pool_{64, 1024};
  TransportEnv env_;

 public:
  CompletionQueue cq;
  Qp qp;
};

}  // namespace uroce::test
