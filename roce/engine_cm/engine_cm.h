// Connection management beside an engine that no host drives: of packet scripts, replays and simulations. An endpoint
// has its own (roce/dpdk/endpoint_cm.h), since it shares addresses and services with others.
#pragma once

#include <cerrno>
#include <cstdint>
#include <set>
#include <vector>

#include "base/random.h"
#include "cm/rdma_cm.h"
#include "engine/engine.h"
#include "engine/management.h"
#include "engine_cm/engine_services.h"

namespace uroce {

class EngineCm final : private EngineServices, private ManagementSink {
 public:
  /// All outlive it. `first_id`: communication IDs count from there; 0: they are drawn.
  EngineCm(Engine& engine, RandomSource& random, cm::EventSink& sink, uint32_t first_id = 0,
           const cm::CmLimits& limits = {});
  ~EngineCm() override;
  EngineCm(const EngineCm&) = delete;
  EngineCm& operator=(const EngineCm&) = delete;

  cm::RdmaCm& manager() { return manager_; }
  /// Data came to a queue pair that waits for the end of its handshake. May be called in the middle of a turn.
  void note_established(uint32_t qpn) { established_.push_back(qpn); }
  /// After each of the engine's turns.
  void on_turn(Instant now);
  Instant next_timeout() const { return established_.empty() ? manager_.next_timeout() : Instant{}; }
  /// Services that programs hold.
  size_t claimed() const { return claimed_.size(); }

 private:
  void on_mad(const IncomingMad& mad, Instant now) override;
  int claim_service(uint64_t service_id) override { return claimed_.insert(service_id).second ? 0 : EADDRINUSE; }
  void release_service(uint64_t service_id) override { claimed_.erase(service_id); }
  int listen(uint64_t /*service_id*/, uint64_t /*mask*/) override { return 0; }
  void unlisten(uint64_t /*service_id*/, uint64_t /*mask*/) override {}
  uint32_t draw_communication_id() override;
  uint32_t random() override { return random_.next_u32(); }

  RandomSource& random_;
  uint32_t next_id_;
  std::set<uint64_t> claimed_;
  std::vector<uint32_t> established_;  // queue pairs, since the last turn
  cm::RdmaCm manager_;
};

}  // namespace uroce
