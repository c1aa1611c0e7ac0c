// What a script acts on: one engine, its objects by the script's numbers, and a port whose other end is the script.
//
// Time stands still until `advance_to`. Everything that the engine sends, completes or reports is kept in order.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/engine.h"
#include "script/script.h"
#include "wire/path_header.h"

namespace uroce::script {

using Bytes = std::vector<uint8_t>;

inline constexpr Instant kStart{1'000'000'000};  // the script's time 0
inline constexpr MacAddress kOurMac{{0x02, 0, 0, 0, 0, 1}};
inline constexpr MacAddress kPeerMac{{0x02, 0, 0, 0, 0, 2}};
inline constexpr uint32_t kQkey = 0x11111111;
inline constexpr uint32_t kRemoteKey = 0xabcd;
inline constexpr uint64_t kRemoteAddress = 0x5000;

class ScriptPort final : public Port {
 public:
  struct Sent {
    Instant at;
    Bytes frame;
  };

  uint32_t receive(RxFrame* frames, uint32_t max) override;
  void release_rx(RxFrame* frames, uint32_t count) override;
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override;
  void send(TxFrame* frames, uint32_t count) override;

  void set_frame_bytes(uint32_t bytes);
  bool has_received() const { return !received_.empty(); }
  void deliver(Bytes frame) { received_.push_back(std::move(frame)); }

  Instant now{0};
  bool full = false;
  std::deque<Sent> sent;

 private:
  std::deque<Bytes> received_;
  uint32_t frame_bytes_ = 0;
  std::vector<Bytes> buffers_;
};

struct SeenCompletion {
  Instant at;
  Completion completion;
};

/// A QP, and what the script said about it.
struct ScriptQp {
  uint32_t id = 0;
  Qp* qp = nullptr;
  CompletionQueue* cq = nullptr;
  QpAttributes attributes;
  uint32_t peer_qpn = 0;
  PathSpec from_peer;  // of the peer's packets
  QpState expected_state = QpState::kReset;
  SharedReceiveQueue* srq = nullptr;
  std::unique_ptr<AddressHandle> ah;  // UD
  std::deque<SeenCompletion> completions;
  std::deque<AsyncEvent> events;
};

struct Region {
  std::unique_ptr<uint8_t[]> storage;
  uint8_t* memory = nullptr;
  uint64_t length = 0;
  uint64_t iova = 0;
  uint32_t key = 0;
  int64_t fill = 0;  // the pattern with which it is filled at the beginning
};

class Testbench final : private Observer {
 public:
  explicit Testbench(const EngineConfig& config);
  ~Testbench() override;

  // Objects. Each function returns why the object cannot be made, or an empty string.
  std::string add_qp(const Statement& statement);
  std::string add_mr(const Statement& statement);
  std::string add_mw(const Statement& statement);
  std::string add_srq(const Statement& statement);
  ModifyResult modify(ScriptQp& qp, const Statement& statement, QpState to);
  ModifyResult set(ScriptQp& qp, const Statement& statement);
  void destroy(ScriptQp& qp);
  void resolve(ScriptQp& qp);

  ScriptQp& qp(int64_t id) { return *qps_.at(static_cast<uint32_t>(id)); }
  bool has_qp(int64_t id) const { return qps_.contains(static_cast<uint32_t>(id)); }
  std::map<uint32_t, std::unique_ptr<ScriptQp>>& qps() { return qps_; }
  ScriptQp* qp_of_peer(uint32_t dest_qpn);
  Region& region(uint32_t id) { return regions_.at(id); }
  const std::map<uint32_t, Region>& regions() const { return regions_; }
  uint32_t window_key(uint32_t id) const { return windows_.at(id); }
  void set_window_key(uint32_t id, uint32_t key) { windows_.at(id) = key; }
  SharedReceiveQueue* srq(int64_t id) { return srqs_.at(static_cast<uint32_t>(id)); }
  PdId pd(int64_t id);

  // Time.
  Instant now() const { return port_.now; }
  /// Turns the engine until it has nothing more to do at this instant.
  void turn();
  /// One step towards `until`: the engine's next timer, or `until` itself. False when time stands at `until`.
  bool step(Instant until);

  Engine& engine() { return engine_; }
  ScriptPort& port() { return port_; }
  /// The errors that the engine reported, with their causes, in order.
  const std::vector<std::string>& reasons() const { return reasons_; }
  bool stuck() const { return stuck_; }
  const EngineConfig& config() const { return config_; }

 private:
  void on_qp_event(Qp& qp, AsyncEvent event) override;
  void on_srq_limit(SharedReceiveQueue& srq) override;
  void on_cq_error(CompletionQueue& cq) override;
  void on_error_completion(const Qp& qp, const Completion& completion) override;
  void on_responder_error(const Qp& qp, Cause cause) override;
  uint32_t id_of(const Qp& qp) const;
  void collect();

  EngineConfig config_;
  SeededRandom random_{1};
  ScriptPort port_;
  Engine engine_;
  std::map<uint32_t, std::unique_ptr<ScriptQp>> qps_;
  std::map<uint32_t, Region> regions_;
  std::map<uint32_t, uint32_t> windows_;
  std::map<uint32_t, SharedReceiveQueue*> srqs_;
  std::map<int64_t, PdId> pds_;
  std::vector<std::string> reasons_;
  uint32_t late_steps_ = 0;  // steps with a timer that stayed due
  bool stuck_ = false;
};

/// "read,write,atomic,local,bind", "all", "none" as Access bits; nothing when a word is unknown.
std::optional<uint32_t> access_of(std::string_view text);

}  // namespace uroce::script
