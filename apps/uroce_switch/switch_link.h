// One port of the switch and its link: the port itself, the faults of both directions, the frames that these delay, and
// the cap on how fast frames may leave.
//
// The cap works like a link: a frame starts when the one before it is out. A loop that shares its CPU may be late, at
// times by milliseconds; frames that have waited then leave as if the loop had been punctual, with the instants at
// which they would have left. So the cap holds on average, without allowing a burst of frames that did not wait. Pause
// frames neither wait for the cap nor count.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/random.h"
#include "fabric/delay_line.h"
#include "fabric/impairments.h"
#include "fabric/rate_cap.h"
#include "fabric/switch.h"
#include "mbuf_pool.h"
#include "switch_port.h"

namespace uroce {
class PcapngWriter;
}

namespace uroce::netswitch {

struct SwitchLinkConfig {
  fabric::PortId id = 0;
  std::string name;              // for display
  uint32_t max_frame_bytes = 0;  // the longest that the port can send
  uint64_t bits_per_second = 0;  // egress cap, 0: none
  fabric::ImpairmentConfig in;   // from the port to the switch
  fabric::ImpairmentConfig out;  // from the switch to the port
  uint32_t max_delayed = 0;      // the most frames that wait in each direction
  uint64_t seed = 0;
};

/// Losses that neither the switch nor the faults count.
struct SwitchLinkCounters {
  uint64_t rx_too_long = 0;    // in segments that do not fit into one buffer
  uint64_t tx_too_long = 0;    // longer than the port's MTU allows
  uint64_t in_delay_full = 0;  // more frames delayed than there is memory for
  uint64_t out_delay_full = 0;
};

class SwitchLink {
 public:
  SwitchLink(const SwitchLinkConfig& config, std::unique_ptr<SwitchPort> port, MbufPool& pool, Instant start);

  /// Passes the frames that arrived to the switch. Returns how many.
  uint32_t receive(fabric::Switch& to, Instant now);
  /// Passes the frames that may leave to the port. What the driver or peer does not take at once waits in the port, the
  /// rest in the switch.
  uint32_t transmit(fabric::Switch& from, Instant now);
  /// To be called once per turn: tells the switch when a peer came or went.
  void look_after(fabric::Switch& of, Instant now);
  /// When there is something to do even if no frame arrives.
  Instant next_event() const;

  void set_capture(PcapngWriter* capture, uint32_t interface) {
    capture_ = capture;
    capture_interface_ = interface;
  }

  const SwitchLinkConfig& config() const { return config_; }
  const SwitchPort& port() const { return *port_; }
  const SwitchLinkCounters& counters() const { return counters_; }
  const fabric::Impairments& in_faults() const { return in_faults_; }
  const fabric::Impairments& out_faults() const { return out_faults_; }
  bool up() const { return up_; }
  void close() { port_.reset(); }

 private:
  static constexpr uint32_t kBurst = 32;
  static constexpr uint32_t kOutbox = SwitchPort::kMaxBurst;

  bool to_one_piece(rte_mbuf* mbuf);
  void take_in(fabric::Switch& to, rte_mbuf* mbuf, Instant now);
  void put_out(const fabric::FabricFrame& frame, Instant now);
  void send_out(const fabric::FabricFrame& frame, Instant now);
  bool fill_outbox(fabric::Switch& from, Instant now);
  bool waits_for(const fabric::Switch& from) const;
  void set_up(fabric::Switch& of, bool up, Instant now);

  SwitchLinkConfig config_;
  std::unique_ptr<SwitchPort> port_;
  MbufPool& pool_;
  SeededRandom random_;
  fabric::Impairments in_faults_;
  fabric::Impairments out_faults_;
  fabric::DelayLine in_line_;
  fabric::DelayLine out_line_;
  fabric::RateCap wire_;
  bool backlogged_ = false;  // at the last look, frames waited only for the wire
  bool up_ = true;           // as the switch was told
  uint32_t outbox_count_ = 0;
  std::array<rte_mbuf*, kOutbox> outbox_{};
  SwitchLinkCounters counters_;
  PcapngWriter* capture_ = nullptr;
  uint32_t capture_interface_ = 0;
};

}  // namespace uroce::netswitch
