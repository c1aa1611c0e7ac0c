// What a script acts on: one engine, its objects by the script's numbers, and a port whose other end is the script.
//
// Time stands still until `step`. Everything that the engine sends, completes or reports is kept in order.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/engine.h"
#include "script/manager.h"
#include "script/script.h"
#include "script/script_observer.h"
#include "script/script_qp.h"
#include "uroce/memory_port.h"

namespace uroce::script {

using Bytes = std::vector<uint8_t>;

inline constexpr MacAddress kOurMac{{0x02, 0, 0, 0, 0, 1}};
inline constexpr MacAddress kPeerMac{{0x02, 0, 0, 0, 0, 2}};
inline constexpr uint32_t kQkey = 0x11111111;
inline constexpr uint32_t kRemoteKey = 0xabcd;
inline constexpr uint64_t kRemoteAddress = 0x5000;

struct SentFrame {
  Instant at;
  Bytes frame;
};

struct Region {
  std::unique_ptr<uint8_t[]> storage;
  uint8_t* memory = nullptr;
  uint64_t length = 0;
  uint64_t iova = 0;
  uint32_t key = 0;
  int64_t fill = 0;  // the pattern with which it is filled at the beginning
};

class Testbench {
 public:
  explicit Testbench(const EngineConfig& config);

  // Objects. Each function returns why the object cannot be made, or an empty string.
  std::string add_qp(const Statement& statement);
  std::string add_mr(const Statement& statement);
  std::string add_mw(const Statement& statement);
  std::string add_srq(const Statement& statement);
  ModifyResult modify(ScriptQp& qp, const Statement& statement, QpState to);
  ModifyResult set(ScriptQp& qp, const Statement& statement);
  void destroy(ScriptQp& qp);
  /// The MAC of the sender of these packets becomes known.
  void resolve(const Route& from_peer);
  /// How packets of the peer come, without a QP; its MAC is known from then on.
  const Route& peer_path(bool ipv6);

  ScriptQp& qp(int64_t id) { return *qps_.at(static_cast<uint32_t>(id)); }
  ScriptQps& qps() { return qps_; }
  ScriptQp* qp_of_peer(uint32_t dest_qpn);
  Region& region(uint32_t id) { return regions_.at(id); }
  const std::map<uint32_t, Region>& regions() const { return regions_; }
  uint32_t& window_key(uint32_t id) { return windows_.at(id); }
  PdId pd(int64_t id);

  // Time.
  Instant now() const { return now_; }
  /// Turns the engine until it has nothing more to do at this instant.
  void turn();
  /// One step towards `until`: the engine's next timer, or `until` itself. False when time stands at `until`.
  bool step(Instant until);

  Engine& engine() { return engine_; }
  Manager& manager() { return manager_; }
  MemoryPort& port() { return port_; }
  /// What the engine has sent, for the caller to take away.
  std::deque<SentFrame>& sent() { return sent_; }
  /// The errors that the engine reported, with their causes, in order.
  const std::vector<std::string>& reasons() const { return observer_.reasons(); }
  bool stuck() const { return stuck_; }
  const EngineConfig& config() const { return config_; }

 private:
  uint32_t turn_once();
  void collect();

  EngineConfig config_;
  SeededRandom random_{1};
  MemoryPort port_;
  Instant now_ = kStart;
  ScriptQps qps_;
  ScriptObserver observer_{qps_, now_};
  Engine engine_;
  Manager manager_{engine_, random_};
  std::map<bool, Route> peer_paths_;
  std::map<uint32_t, Region> regions_;
  std::map<uint32_t, uint32_t> windows_;
  std::map<uint32_t, SharedReceiveQueue*> srqs_;
  std::map<int64_t, PdId> pds_;
  std::deque<SentFrame> sent_;
  uint32_t late_steps_ = 0;  // steps with a timer that stayed due
  bool stuck_ = false;
};

/// "read,write,atomic,local,bind", "all", "none" as Access bits; nothing when a word is unknown.
std::optional<uint32_t> access_of(std::string_view text);

}  // namespace uroce::script
