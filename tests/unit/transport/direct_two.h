// Two queue pairs that copy to and from each other's memory without frames, in one process: what stands for the segment
// is a table of what was shown, which a test can break.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "base/direct_copy.h"
#include "base/random.h"
#include "qp_side.h"
#include "transport/completion_queue.h"
#include "transport/counters.h"
#include "transport/memory_table.h"
#include "transport/qp.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "transport/transport_env.h"

namespace uroce::test {

inline constexpr uint32_t kDirectMemory = 2 << 20;

/// What one side shows, and how the other side gets to it.
class ShownHere final : public DirectCopy, public DirectPeer {
 public:
  // Of the target.
  void show(const ShownRegion& region) override { regions[region.key] = region; }
  void hide_region(uint32_t key) override { waits += regions.erase(key) != 0 ? 1 : 0; }
  std::atomic<uint32_t>* show(const ShownQueuePair& qp) override {
    qps[qp.qpn] = qp;
    return &next_psn;
  }
  void hide_queue_pair(uint32_t qpn) override { waits += qps.erase(qpn) != 0 ? 1 : 0; }
  void pause(bool pause) override { paused = pause; }

  // Of the requester; `other` is what the peer shows.
  DirectPeer* find(const MacAddress& /*mac*/, uint32_t /*qpn*/) override {
    return other == nullptr || paused || other->paused ? nullptr : this;
  }
  bool shows(uint32_t qpn, uint32_t key) const override {
    if (hides_first && looks++ % 2 == 0) return false;
    return other->qps.count(qpn) != 0 && other->regions.count(key) != 0;
  }
  bool begin(uint32_t qpn, uint32_t key, ShownTarget& target, Instant /*now*/) override {
    under_way++;
    const auto qp = other->qps.find(qpn);
    const auto region = other->regions.find(key);
    if (qp == other->qps.end() || region == other->regions.end()) return false;
    target = {qp->second, other->next_psn.load(), region->second};
    return true;
  }
  void end() override { under_way--; }
  bool write(uint64_t to, std::span<const DirectPiece> from, bool ends) override {
    auto* at = reinterpret_cast<uint8_t*>(to);
    return copy(from, ends, [&at](const DirectPiece& piece) {
      std::memcpy(at, piece.memory, piece.bytes);
      at += piece.bytes;
    });
  }
  bool read(uint64_t from, std::span<const DirectPiece> to) override {
    auto* at = reinterpret_cast<const uint8_t*>(from);
    return copy(to, false, [&at](const DirectPiece& piece) {
      std::memcpy(piece.memory, at, piece.bytes);
      at += piece.bytes;
    });
  }

  std::map<uint32_t, ShownRegion> regions;
  std::map<uint32_t, ShownQueuePair> qps;
  std::atomic<uint32_t> next_psn{0};
  ShownHere* other = nullptr;
  bool paused = false;
  bool hides_first = false;  // every other look finds nothing
  mutable uint32_t looks = 0;
  int waits = 0;               // how often something shown was hidden
  int under_way = 0;           // begun and not ended
  int fail_after = -1;         // copies that succeed; -1: all
  std::vector<size_t> copies;  // bytes of each
  std::vector<bool> ended;

 private:
  template <typename F>
  bool copy(std::span<const DirectPiece> pieces, bool ends, F&& f) {
    if (fail_after == 0) return false;
    if (fail_after > 0) fail_after--;
    size_t bytes = 0;
    for (const DirectPiece& piece : pieces) {
      f(piece);
      bytes += piece.bytes;
    }
    copies.push_back(bytes);
    ended.push_back(ends);
    return true;
  }
};

/// One of two connected sides.
class DirectSide : public QpWitness {
 public:
  explicit DirectSide(uint32_t qpn, PdId pd = 1, uint32_t bytes = kDirectMemory)
      : memory(bytes),
        env_{.memory = table, .counters = counters, .observer = *this},
        cq(64, *this),
        qp((table.show_to(&shown), env_.direct = &shown, init(pd)), qpn, 0, 1024, env_, nullptr) {}
  ~DirectSide() override { qp.forget_work(); }

  /// Moves from RESET to `last`, with attributes as `change` sets them.
  template <typename F>
  void connect(const DirectSide& peer, uint32_t own_address, uint32_t peer_address, QpState last, F&& change) {
    QpAttributes a = attributes_towards(peer.qp.qpn());
    change(a);
    bring_up(qp, a, route_between(own_address, peer_address), last, now);
  }
  void connect(const DirectSide& peer, uint32_t own_address, uint32_t peer_address) {
    connect(peer, own_address, peer_address, QpState::kRts, [](QpAttributes&) {});
  }
  bool to_state(QpState state) {
    QpAttributes a;
    a.state = state;
    return qp.modify(a, kAttrState, nullptr, false, now) == ModifyResult::kOk;
  }

  Frames frames() { return frames_of(qp, now); }
  void receive(const Frames& frames) {
    for (const auto& frame : frames) give_frame(qp, frame, now);
  }
  std::vector<Completion> completions() { return completions_of(cq); }

  Counters counters;
  ShownHere shown;
  std::vector<uint8_t> memory;
  Instant now{1000};

 private:
  QpInit init(PdId pd) {
    QpInit init;
    init.pd = pd;
    init.send_cq = init.recv_cq = &cq;
    init.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 1, .max_inline_data = 0};
    return init;
  }
  SeededRandom random_{1};

 public:
  MemoryTable table{64, random_};

 private:
  TransportEnv env_;

 public:
  CompletionQueue cq;
  Qp qp;
};

}  // namespace uroce::test
