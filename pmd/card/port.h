// A port: its control registers, link flow control, and the FIFOs between the cable and the RX engine.
//
// There are two FIFOs, as in mqnic_port_rx.v: a small one ahead, which keeps frames while the port is paused, and drops
// them when it is full; and one whose watermark asks the peer to pause, in which frames wait for the RX engine.
//
// Flow control is that of mqnic_port.v, mqnic_l2_ingress.v and mac_pause_ctrl_{rx,tx}.v. As there, PFC is only a stub:
// its registers take values, and PFC frames are removed from the traffic when it is on, but they are neither obeyed nor
// sent.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "pmd/card/card.h"
#include "pmd/card/wire.h"

namespace mqnic::card {

/// Frames that the RX engine has not taken yet.
class RxFifo {
 public:
  explicit RxFifo(uint32_t bytes);

  uint32_t capacity_bytes() const { return capacity_; }
  uint32_t depth_bytes() const { return depth_; }
  bool empty() const { return count_ == 0; }
  /// False when there is no room.
  bool push(std::span<const uint8_t> frame);
  std::span<const uint8_t> front() const;
  void pop();
  void clear() { first_ = count_ = depth_ = 0; }

 private:
  struct Frame {
    uint32_t offset, bytes;
  };
  uint32_t capacity_;
  uint32_t depth_ = 0;
  std::vector<uint8_t> storage_;  // twice the capacity, so that a frame is contiguous
  std::vector<Frame> frames_;     // a ring
  size_t first_ = 0, count_ = 0;
};

struct RxBuffers {
  RxFifo fifo, ahead;
  size_t skid_words = 0;  // taken by frames that came while the port is off
};

class Port {
 public:
  Port(const CardConfig& config, Wire* wire, CardReport& report);

  Wire* wire() { return wire_; }
  RxFifo& fifo() { return rx_.fifo; }
  RxFifo& ahead() { return rx_.ahead; }

  /// `offset` is from the start of the port control block. False when there is no such register.
  bool read(uint32_t offset, uint64_t now_ns, uint32_t& value);
  bool write(uint32_t offset, uint32_t value);

  bool rx_enabled() const { return rx_enabled_; }
  /// True when the RX engine gets nothing.
  bool rx_held() const { return !rx_enabled_ || rx_pause_; }
  /// True when the TX engine has to keep its packets because the port is off, or paused by software or by the peer.
  bool tx_held(uint64_t now_ns);

  /// Keeps a frame that came while the port is paused or off, if there is room: a port that is off has hardly any.
  bool keep(std::span<const uint8_t> frame);
  /// Takes the frame and returns true if it is a MAC control frame for the port itself.
  bool take_control_frame(std::span<const uint8_t> frame, uint64_t now_ns) {
    constexpr size_t kType = 12;
    if (frame.size() <= kType + 1 || frame[kType] != 0x88 || frame[kType + 1] != 0x08) [[likely]]
      return false;
    return take_mac_control(frame, now_ns);
  }
  /// Sends the pause frame that is due, if any. Returns how many were sent.
  uint32_t send_pause(uint64_t now_ns);
  void reset();

 private:
  static constexpr unsigned kPriorities = 8;
  static constexpr uint64_t kForever = UINT64_MAX;

  bool take_mac_control(std::span<const uint8_t> frame, uint64_t now_ns);
  uint64_t quanta_ns(uint16_t quanta, uint16_t step) const;
  bool pfc_rx_enabled() const;
  void set_rx_enabled(bool on);
  void check_watermark();
  uint32_t status(bool enabled, bool pause, bool held);

  Wire* wire_;
  CardReport* report_;
  RxBuffers rx_;
  uint64_t bits_per_second_;
  uint32_t default_watermark_, watermark_;

  bool tx_enabled_ = false, tx_pause_ = false, rx_enabled_ = false, rx_pause_ = false;
  bool lfc_tx_enabled_ = false, lfc_rx_enabled_ = false;
  uint16_t tx_quanta_step_ = 0, rx_quanta_step_ = 0;
  bool fifo_over_watermark_ = false;  // LFC TX request, which lasts until the FIFO is empty again
  bool pause_announced_ = false;      // the peer was told to stop
  uint64_t refresh_at_ns_ = 0;
  uint64_t paused_until_ns_ = 0;  // by the peer
  std::array<bool, kPriorities> pfc_tx_enabled_{}, pfc_rx_enabled_{}, pfc_rx_requested_{};
};

}  // namespace mqnic::card
