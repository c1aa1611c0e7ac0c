// Hands an endpoint's frames to `uroce capture`, without ever waiting for it.
//
// It ends when its reader is gone: `ended` checks that, and so does a frame that finds no room.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/capture.h"
#include "host/capture_meeting.h"
#include "host/capture_ring.h"

namespace uroce {

class LiveCapture final : public Capture {
 public:
  /// `name`: that of the `uroce capture`. May be called by any thread; allocates. Returns nullptr, with one line in
  /// `error`, when that fails.
  static std::unique_ptr<LiveCapture> create(const std::string& name, const std::string& port, std::string& error);

  const std::string& name() const { return connection_.name(); }

  // To be called by the engine's owner.
  void on_frame(Direction direction, Instant now, std::span<const uint8_t> frame) override {
    take(direction == Direction::kSent, 0, now, frame);
  }
  void on_sent(uint32_t qpn, Instant now, std::span<const uint8_t> frame) override { take(true, qpn, now, frame); }
  /// True when there is no reader any more.
  bool ended() const { return connection_.lost(); }
  /// After that: removes what was left. May be called by any thread.
  void clean_up() const { connection_.clean_up(); }

  /// In the child of a fork: it belongs to the parent.
  void abandon();

 private:
  LiveCapture() = default;
  void take(bool sent, uint32_t qpn, Instant now, std::span<const uint8_t> frame);

  static constexpr Duration kLookForReader = milliseconds(500);

  CaptureRing ring_;
  CaptureConnection connection_;
  Instant next_look_{0};
  bool deaf_ = false;
};

}  // namespace uroce
