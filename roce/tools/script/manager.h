// The part of a script that plays a program with librdmacm: it listens, connects, accepts, rejects, disconnects, and
// receives events.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine_cm/engine_cm.h"
#include "script/field_check.h"
#include "script/script.h"
#include "script/script_qp.h"

namespace uroce::script {

class Manager final : private cm::EventSink {
 public:
  /// Both outlive it.
  Manager(Engine& engine, RandomSource& random);

  struct Seen {
    Instant at;
    cm::Event event;
  };

  /// Carries out a `cm` statement. Returns what differs from what it expects, or an empty string.
  std::string act(const Statement& statement, int64_t round, const ScriptQps& qps, const IpAddress& peer, Instant now);
  /// After a turn of the engine.
  void on_turn(Instant now);
  Instant next_timeout() const { return engine_cm_.next_timeout(); }
  void note_established(uint32_t qpn) { engine_cm_.note_established(qpn); }

  std::deque<Seen>& events() { return events_; }
  /// The script's number of the Id; 0: it has none.
  uint32_t number_of(const cm::Id* id) const;
  bool has(uint32_t number) const { return ids_.contains(number); }
  void name(uint32_t number, cm::Id* id) { ids_[number] = id; }
  const cm::CmCounters& counters() { return engine_cm_.manager().counters(); }
  size_t connections() { return engine_cm_.manager().connection_count(); }

 private:
  bool on_cm_event(const cm::Event& event) override;
  int begin(const Statement& statement, uint32_t number, int64_t round, const cm::ConnParam& param,
            const IpAddress& peer, Instant now);
  int go_on(const Statement& statement, cm::Id& id, int64_t round, const cm::ConnParam& param, Instant now);
  void destroy(uint32_t number, Instant now);

  EngineCm engine_cm_;
  Instant now_{};
  std::deque<Seen> events_;
  std::deque<cm::Event> steps_;  // of an Id on its way to its connection
  std::map<uint32_t, cm::Id*> ids_;
  std::map<const cm::Id*, cm::ConnParam> connecting_;
};

std::optional<cm::EventType> cm_event_of(std::string_view name);
std::string cm_event_name(cm::EventType type);
std::string cm_event_text(const cm::Event& event, const Manager& manager);
/// Compares what happened with `cm_event ...`.
std::vector<FieldCheck> compare_cm_event(const Statement& statement, int64_t round, const cm::Event& event,
                                         const Manager& manager);
bool is_cm_action(std::string_view name);
/// Counters of connection management, with "cm_" before the name.
bool is_cm_counter(std::string_view name);
std::optional<uint64_t> cm_counter(const cm::CmCounters& counters, std::string_view name);
/// Whether such a counter has to be 0 if the script does not mention it.
bool must_be_mentioned(std::string_view name);

}  // namespace uroce::script
