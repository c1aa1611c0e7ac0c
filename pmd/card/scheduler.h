// The round-robin TX scheduler (tx_scheduler_rr.v): channels that have been rung wait in a line, and go to its end
// after each packet. A doorbell that comes while the scheduler or the channel is disabled is remembered as "active".
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace mqnic::card {

class Scheduler {
 public:
  Scheduler(unsigned channels, uint8_t default_destination);

  /// The TX queue of this number was rung.
  void doorbell(uint16_t channel);

  /// The channel whose turn it is; none when the scheduler is disabled or no channel waits.
  std::optional<uint16_t> front() {
    if (!enabled_) return std::nullopt;
    while (waiting_ != 0) {
      const uint16_t channel = line_[first_];
      if (channels_[channel].may_send()) return channel;
      drop_front();  // it was disabled in the meantime; it stays active
    }
    return std::nullopt;
  }
  /// True when no channel but the front one waits.
  bool alone() const { return waiting_ == 1; }
  /// The front channel sent a packet.
  void sent() {
    const uint16_t channel = line_[first_];
    if (waiting_ == 1 && channels_[channel].may_send()) return;  // alone in the line, so it stays at the front
    drop_front();
    schedule(channel);
  }
  /// The front channel had nothing to send.
  void idle();

  bool enabled() const { return enabled_; }
  void set_enabled(bool on) { enabled_ = on; }
  uint8_t destination() const { return destination_; }
  void set_destination(uint8_t value) { destination_ = value; }
  uint32_t read_channel(size_t channel) const;
  bool write_channel(size_t channel, uint32_t value);
  void reset();

 private:
  struct Channel {
    bool enabled = false;  // the bits "global" and "control" are for TDMA, and not stored by a build without it
    bool active = false, scheduled = false;
    bool may_send() const { return enabled && active; }
  };
  void schedule(uint16_t channel);
  void drop_front() {
    channels_[line_[first_]].scheduled = false;
    if (++first_ == line_.size()) first_ = 0;
    --waiting_;
  }

  std::vector<Channel> channels_;
  std::vector<uint16_t> line_;  // a ring, in which every channel is at most once
  size_t first_ = 0, waiting_ = 0;
  bool enabled_ = false;
  uint8_t destination_, default_destination_;
};

}  // namespace mqnic::card
