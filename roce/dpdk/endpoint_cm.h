// Connection management of an endpoint: what RdmaCm needs of an engine and its NIC, and what these need of it.
//
// It is always there, and costs nothing until it is used: a request for a service without a listener is rejected, even
// by a program that has never used connection management.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "cm/rdma_cm.h"
#include "dpdk/nic.h"
#include "engine/management.h"
#include "engine_cm/delayed_dreqs.h"
#include "engine_cm/engine_services.h"

namespace uroce {

/// All functions are called by the owner of the engine.
class EndpointCm final : private EngineServices, private cm::EventSink, private ManagementSink {
 public:
  /// From now on it gets the engine's datagrams. All arguments outlive it, or `stop`.
  void start(Engine& engine, Nic& nic, RandomSource& random);
  /// To be called before the last turns: tells some more peers that their connections end, as many as one turn can
  /// send.
  cm::Farewells hang_up(Instant now) {
    return manager_ ? manager_->hang_up(now, Management::kWaitingMax / 2) : cm::Farewells::kDone;
  }
  /// Ends connections, and gets no more events.
  void stop();
  /// In the child of a fork: all belongs to the parent.
  void abandon() { static_cast<void>(manager_.release()); }

  /// Made at the first call. It lives as long as the endpoint.
  cm::RdmaCm& manager();
  /// See cm::for_each_listed.
  void for_each_listed(const std::function<void(const cm::ListedId&)>& f) const {
    if (manager_) cm::for_each_listed(*manager_, f);
  }
  const cm::CmCounters& counters() const { return manager_ ? manager_->counters() : kNothingCounted; }
  /// Sets the receiver of events; nullptr: there is none, and requests to services that have a listener are not
  /// answered. `events` is called in turns and must not call back; `go_on`, if given, may: it is called after a turn
  /// when an event was reported since its last call. If it throws bad_alloc, the next turn calls it again.
  void set_events(cm::EventSink* events, std::function<void()> go_on = nullptr) {
    events_ = events;
    go_on_ = std::move(go_on);
    told_ = false;
  }
  /// Data came to a queue pair whose handshake has not ended. May be called during a turn: the connection manager is
  /// told in the next one.
  void note_established(uint32_t qpn) {
    if (manager_) established_.push_back(qpn);
  }
  void on_turn(Instant now) {
    if (!established_.empty() || held_.next_look() <= now) tell_waiting(now);
    if (next_timeout() <= now) manager_->run_timers(now);
  }
  void after_turn() {
    if (!told_) return;
    go_on_();
    told_ = false;
  }
  Instant next_timeout() const {
    if (!established_.empty() || told_) return Instant{};
    return manager_ ? std::min(manager_->next_timeout(), held_.next_look()) : Instant::never();
  }

 private:
  struct Listening {
    uint64_t service_id;
    uint64_t mask;
    bool operator==(const Listening&) const = default;
  };

  void end_with(const segment::LostMember& lost, Instant now);
  void tell_waiting(Instant now);
  void on_mad(const IncomingMad& mad, Instant now) override;
  bool takes_request(uint64_t service_id) override;
  bool on_cm_event(const cm::Event& event) override;

  int claim_service(uint64_t service_id) override { return nic_->claim_service(service_id); }
  void release_service(uint64_t service_id) override { nic_->release_service(service_id); }
  int listen(uint64_t service_id, uint64_t mask) override;
  void unlisten(uint64_t service_id, uint64_t mask) override;
  uint32_t draw_communication_id() override;
  uint32_t random() override { return random_->next_u32(); }

  static constexpr cm::CmCounters kNothingCounted{};

  Nic* nic_ = nullptr;
  RandomSource* random_ = nullptr;
  cm::EventSink* events_ = nullptr;
  std::function<void()> go_on_;
  bool told_ = false;  // an event was reported since `go_on_` was called
  std::vector<Listening> listens_;
  std::vector<uint32_t> established_;  // queue pairs, since the last turn
  DelayedDreqs held_;
  std::unique_ptr<cm::RdmaCm> manager_;
};

}  // namespace uroce
