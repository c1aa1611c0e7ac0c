// One engine with one QP that plays one side of a conversation. The caller sets the time and delivers frames; what the
// engine sends is kept, and the engine sends only as many packets as the caller allows.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/engine.h"
#include "replay/player_port.h"
#include "replay/recording.h"
#include "transport/address_handle.h"
#include "transport/completion_queue.h"
#include "transport/observer.h"
#include "transport/qp.h"

namespace uroce::replay {

struct PlayerSetup {
  QpType type = QpType::kRc;
  IpAddress own;
  IpAddress peer;
  QpAttributes attributes;  // av and state are filled in here
  uint32_t send_work_requests = 16;
};

class Player final : private Port, private Observer {
 public:
  Player(const PlayerSetup& setup, PlayerPort& player_port);
  ~Player() override;

  /// Why there is no QP; empty when there is one.
  const std::string& error() const { return error_; }
  Engine& engine() { return *engine_; }
  Qp& qp() { return *qp_; }
  PdId pd() const { return pd_; }
  const AddressHandle* address_handle() const { return ah_.get(); }

  static constexpr uint32_t kNoLimit = UINT32_MAX;
  Instant now() const { return now_; }
  /// Sets the time, which never goes back.
  void set_time(Instant now) { now_ = std::max(now_, now); }
  /// Turns the engine until it has nothing more to do now; at most `packets` are sent.
  void turn(uint32_t packets);
  void deliver(std::span<const uint8_t> frame) { player_port_.deliver(frame); }
  /// The captured packet as the peer would have sent it to our QP, with our keys. A wrong iCRC stays wrong.
  static Bytes readdressed(const Recorded& recorded, uint32_t qpn, uint32_t rkey);

  std::deque<Bytes> sent;
  std::vector<Completion> completions;
  std::vector<std::string> reasons;  // the errors that the engine reported

 private:
  uint32_t receive(RxFrame* frames, uint32_t max) override;
  void release_rx(RxFrame* frames, uint32_t count) override;
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override;
  void send(TxFrame* frames, uint32_t count) override;
  void on_error_completion(const Qp& qp, const Completion& completion) override;
  void on_responder_error(const Qp& qp, Cause cause) override;
  void resolve(const PlayerSetup& setup);
  void connect(const PlayerSetup& setup);

  std::string error_;
  PlayerPort& player_port_;
  SeededRandom random_{1};
  uint32_t allowed_ = 0;
  Instant now_{1'000'000'000};
  std::unique_ptr<Engine> engine_;
  PdId pd_ = 0;
  CompletionQueue* cq_ = nullptr;
  Qp* qp_ = nullptr;
  std::unique_ptr<AddressHandle> ah_;
};

}  // namespace uroce::replay
