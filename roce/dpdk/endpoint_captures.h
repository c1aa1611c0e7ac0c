// The captures of an endpoint's frames: the file that UROCE_PCAP names, and `uroce capture`; both, one, or none.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "dpdk/endpoint.h"
#include "dpdk/live_capture.h"
#include "dpdk/pcapng_writer.h"
#include "engine/capture.h"

namespace uroce {

class EndpointCaptures final : private Capture {
 public:
  /// `endpoint` outlives it.
  explicit EndpointCaptures(Endpoint& endpoint) : endpoint_(endpoint) {}

  /// To be called once there is an engine. Also joins an `uroce capture` of all programs. Returns false, with one line
  /// in `error`, when the file cannot be written.
  bool start(const std::string& pcap_file, std::string& error);
  /// To be called by the endpoint's thread now and then, without the lock.
  void look_after(Instant now);
  /// Before the process ends: captures end, and the file is complete. To be called without the lock.
  void finish();
  /// In the child of a fork: all belongs to the parent.
  void abandon();

  // To be called by the owner of the engine.
  /// Whether there is an `uroce capture` of this name, or, without a name, any.
  bool is_live(const std::string& name = "") const;
  /// `live` captures from now on. Returns the one before, which ended, for the caller to destroy without the lock.
  std::unique_ptr<LiveCapture> attach(std::unique_ptr<LiveCapture> live);

 private:
  void on_frame(Direction direction, Instant now, std::span<const uint8_t> frame) override;
  void on_sent(uint32_t qpn, Instant now, std::span<const uint8_t> frame) override;
  void listen();
  int64_t wall_offset_ns() const;

  static constexpr Duration kLook = milliseconds(100);

  Endpoint& endpoint_;
  std::unique_ptr<PcapngWriter> file_;
  std::unique_ptr<LiveCapture> live_;
  std::atomic<bool> anybody_{false};
  Instant next_look_{0};
};

}  // namespace uroce
