// One of the two hosts: its engine's queue pairs and memory, the program that posts the scenario's work requests, and
// everything that can be seen of it. It does not know in which world it lives.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/capture.h"
#include "engine/engine.h"
#include "scenario.h"
#include "transport/completion_queue.h"

namespace uroce::twin {

/// What a host saw. Frames are whole, from Ethernet header to iCRC, in separate lists for each queue pair and
/// direction: how queue pairs interleave depends on the machine.
struct Seen {
  struct Key {
    bool sent;
    uint32_t dest_qp;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::vector<std::vector<uint8_t>>> frames;
  std::vector<std::vector<std::string>> completions;  // of each flow
  std::vector<std::vector<uint8_t>> memory;           // of each flow
  std::string errors;                                 // empty when all work requests succeeded
  uint64_t retransmits = 0;
};

class End final : private Capture {
 public:
  /// The host's addresses are in it.
  static EngineConfig config_of(const Scenario& scenario, bool is_b);
  /// Seed of the engine's random numbers, so that queue pair numbers, keys and UDP ports are the same in both worlds.
  static uint64_t seed_of(bool is_b) { return is_b ? 22 : 11; }

  End(Engine& engine, const Scenario& scenario, bool is_b);
  ~End() override;

  /// Once both exist: exchanges addresses, queue pairs and keys, and connects.
  static void connect(End& a, End& b, Instant now);
  void start();
  /// To be called after each turn of the engine. True when it posted something.
  bool work(Instant now);
  bool done() const { return flows_left_ == 0; }
  Seen take_seen();

 private:
  struct Lane {
    const Flow* flow;
    bool asks;
    Qp* qp = nullptr;
    std::vector<uint8_t> memory;
    uint32_t key = 0;
    uint32_t peer_key = 0;
    size_t round = 0;
    size_t open = 0;           // work requests of the round
    size_t posted = 0;         // work requests, or receives
    uint32_t offset = 0;       // of the next work request
    uint32_t recv_offset = 0;  // of the next receive
    std::vector<Op> expected;  // operations that take a receive
  };
  void on_frame(Direction direction, Instant now, std::span<const uint8_t> frame) override;
  void add_lane(const Flow& flow, size_t number);
  void post_round(Lane& lane);
  void post_receive(Lane& lane);
  bool on_completion(const Completion& completion);

  Engine& engine_;
  bool is_b_;
  uint8_t timeout_;  // 4.2 ms; 67 ms on a long cable
  PdId pd_;
  CompletionQueue* cq_;
  std::vector<Lane> lanes_;
  size_t flows_left_ = 0;
  uint64_t receives_missed_ = 0;
  Instant now_{0};  // of the last call of work()
  Seen seen_;
};

}  // namespace uroce::twin
