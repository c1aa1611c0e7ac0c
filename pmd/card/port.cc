#include "pmd/card/port.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "pmd/hw/registers.h"

namespace mqnic::card {
namespace {

namespace reg = port_control;

// (512 bits of data path * 256) / 512: one quantum per clock of the 100G MAC. By writing another step, software makes
// quanta shorter or longer.
constexpr uint16_t kDefaultQuantaStep = 256;

constexpr size_t kPauseFrameBytes = 60;
constexpr std::array<uint8_t, 18> kPauseHeader = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01, 0x80, 0x23, 0x31,
                                                  0x43, 0x54, 0x4c, 0x88, 0x08, 0x00, 0x01, 0xff, 0xff};
constexpr size_t kControlDestinationBytes = 6, kControlType = 12, kControlOpcode = 14, kControlQuanta = 16;
constexpr uint16_t kOpcodePause = 0x0001, kOpcodePfc = 0x0101;
constexpr uint16_t kRefreshQuanta = 0x7fff;

// The room of a port that is off: registers of 64 bytes, none of which is shared by two frames.
constexpr size_t kSkidWords = 8, kSkidWordBytes = 64;

uint16_t big_endian16(std::span<const uint8_t> bytes, size_t at) {
  return static_cast<uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

}  // namespace

RxFifo::RxFifo(uint32_t bytes) : capacity_(bytes), storage_(size_t{bytes} * 2), frames_(bytes / 64 + 1) {}

bool RxFifo::push(std::span<const uint8_t> frame) {
  if (count_ == frames_.size() || frame.size() > capacity_ - depth_) return false;
  const auto bytes = static_cast<uint32_t>(frame.size());
  uint32_t begin = 0, limit = static_cast<uint32_t>(storage_.size());
  if (count_ != 0) {
    const Frame& oldest = frames_[first_];
    const Frame& newest = frames_[(first_ + count_ - 1) % frames_.size()];
    begin = newest.offset + newest.bytes;
    const bool wrapped = begin <= oldest.offset;
    if (wrapped) {
      limit = oldest.offset;
    } else if (bytes > limit - begin) {
      begin = 0;
      limit = oldest.offset;
    }
  }
  if (bytes > limit - begin) return false;
  std::memcpy(storage_.data() + begin, frame.data(), bytes);
  frames_[(first_ + count_) % frames_.size()] = {begin, bytes};
  ++count_;
  depth_ += bytes;
  return true;
}

std::span<const uint8_t> RxFifo::front() const {
  if (count_ == 0) return {};
  return {storage_.data() + frames_[first_].offset, frames_[first_].bytes};
}

void RxFifo::pop() {
  depth_ -= frames_[first_].bytes;
  first_ = (first_ + 1) % frames_.size();
  --count_;
}

Port::Port(const CardConfig& config, Wire* wire, CardReport& report)
    : wire_(wire),
      report_(&report),
      rx_{RxFifo(config.rx_fifo_bytes), RxFifo(std::bit_ceil(config.max_frame_bytes))},
      bits_per_second_(config.port_bits_per_second),
      default_watermark_(config.rx_fifo_bytes / 2),
      watermark_(default_watermark_),
      tx_quanta_step_(kDefaultQuantaStep),
      rx_quanta_step_(kDefaultQuantaStep) {
  if (wire_ != nullptr) wire_->set_receiving(false);
}

uint32_t Port::status(bool enabled, bool pause, bool held) {
  const bool link = wire_ != nullptr && wire_->connected();
  return (enabled ? reg::kEnable : 0) | (pause ? reg::kPause : 0) | (link ? reg::kLinkUp : 0) |
         (held ? reg::kPauseRequest | reg::kPauseAck : 0);
}

bool Port::read(uint32_t offset, uint64_t now_ns, uint32_t& value) {
  switch (offset) {
    case reg::kFeatures:
      value = reg::kFeatureLfc | reg::kFeaturePfc | reg::kFeatureInternalMac;
      return true;
    case reg::kTxControl:
      value = status(tx_enabled_, tx_pause_, tx_held(now_ns));
      return true;
    case reg::kRxControl:
      value = status(rx_enabled_, rx_pause_, rx_held());
      return true;
    case reg::kQuantaStep:
      value = tx_quanta_step_ | uint32_t{rx_quanta_step_} << 16;
      return true;
    case reg::kLinkFlowControl:
      value = watermark_ | (lfc_tx_enabled_ ? reg::kLfcTxEnable : 0) | (lfc_rx_enabled_ ? reg::kLfcRxEnable : 0) |
              (fifo_over_watermark_ ? reg::kLfcTxRequest : 0) |
              (lfc_rx_enabled_ && now_ns < paused_until_ns_ ? reg::kLfcRxRequest : 0);
      return true;
    default:
      break;
  }
  const uint32_t priority = (offset - reg::kPriorityFlowControl) / 4;
  if (offset < reg::kPriorityFlowControl || priority >= kPriorities) return false;
  value = (pfc_tx_enabled_[priority] ? reg::kLfcTxEnable : 0) | (pfc_rx_enabled_[priority] ? reg::kLfcRxEnable : 0) |
          (pfc_rx_enabled_[priority] && pfc_rx_requested_[priority] ? reg::kLfcRxRequest : 0);
  return true;
}

bool Port::write(uint32_t offset, uint32_t value) {
  switch (offset) {
    case reg::kTxControl:
      tx_enabled_ = (value & reg::kEnable) != 0;
      tx_pause_ = (value & reg::kPause) != 0;
      return true;
    case reg::kRxControl:
      set_rx_enabled((value & reg::kEnable) != 0);
      rx_pause_ = (value & reg::kPause) != 0;
      return true;
    case reg::kQuantaStep:  // ten bits each
      tx_quanta_step_ = value & 0x3ff;
      rx_quanta_step_ = value >> 16 & 0x3ff;
      return true;
    case reg::kLinkFlowControl:
      // As many bits as the depth of the FIFO needs.
      watermark_ = value & reg::kWatermarkMask & (2 * std::bit_ceil(rx_.fifo.capacity_bytes()) - 1);
      lfc_tx_enabled_ = (value & reg::kLfcTxEnable) != 0;
      lfc_rx_enabled_ = (value & reg::kLfcRxEnable) != 0;
      return true;
    default:
      break;
  }
  const uint32_t priority = (offset - reg::kPriorityFlowControl) / 4;
  if (offset < reg::kPriorityFlowControl || priority >= kPriorities) return false;
  pfc_tx_enabled_[priority] = (value & reg::kLfcTxEnable) != 0;
  pfc_rx_enabled_[priority] = (value & reg::kLfcRxEnable) != 0;
  return true;
}

void Port::set_rx_enabled(bool on) {
  if (on != rx_enabled_ && wire_ != nullptr) wire_->set_receiving(on);
  rx_.skid_words = 0;
  rx_enabled_ = on;
}

bool Port::tx_held(uint64_t now_ns) {
  return !tx_enabled_ || tx_pause_ || (lfc_rx_enabled_ && now_ns < paused_until_ns_);
}

/// At the default step, a quantum is the time of 512 bits.
uint64_t Port::quanta_ns(uint16_t quanta, uint16_t step) const {
  if (quanta == 0) return 0;
  if (step == 0) return kForever;
  // Exact for all speeds from 1 bit/s on: 65535 * 512 * 256 * 10^9 is below 2^63.
  return uint64_t{quanta} * 512 * kDefaultQuantaStep * 1'000'000'000 / step / bits_per_second_;
}

bool Port::pfc_rx_enabled() const {
  return std::any_of(pfc_rx_enabled_.begin(), pfc_rx_enabled_.end(), [](bool on) { return on; });
}

bool Port::take_mac_control(std::span<const uint8_t> frame, uint64_t now_ns) {
  if (frame.size() < kControlQuanta + 2 || big_endian16(frame, kControlType) != 0x8808 ||
      !std::equal(frame.begin(), frame.begin() + kControlDestinationBytes, kPauseHeader.begin())) {
    return false;
  }
  const uint16_t opcode = big_endian16(frame, kControlOpcode);
  if (opcode == kOpcodePause && lfc_rx_enabled_) {
    ++report_->pause_frames_received;
    const uint64_t pause_ns = quanta_ns(big_endian16(frame, kControlQuanta), rx_quanta_step_);
    paused_until_ns_ = pause_ns == kForever ? kForever : now_ns + pause_ns;
    return true;
  }
  if (opcode == kOpcodePfc && pfc_rx_enabled()) {
    const uint8_t enabled = frame[kControlQuanta + 1];
    for (size_t i = 0; i < kPriorities; ++i) {
      const size_t at = kControlQuanta + 2 + 2 * i;
      if ((enabled >> i & 1) != 0 && at + 2 <= frame.size()) pfc_rx_requested_[i] = big_endian16(frame, at) != 0;
    }
    return true;
  }
  return false;
}

bool Port::keep(std::span<const uint8_t> frame) {
  if (rx_enabled_) return rx_.ahead.push(frame);
  const size_t words = (frame.size() + kSkidWordBytes - 1) / kSkidWordBytes;
  if (rx_.skid_words + words > kSkidWords || !rx_.ahead.push(frame)) return false;
  rx_.skid_words += words;
  return true;
}

void Port::check_watermark() {
  if (fifo_over_watermark_) {
    fifo_over_watermark_ = rx_.fifo.depth_bytes() != 0;
  } else {
    fifo_over_watermark_ = rx_.fifo.depth_bytes() > watermark_;
  }
}

uint32_t Port::send_pause(uint64_t now_ns) {
  check_watermark();
  if (wire_ == nullptr || !tx_enabled_ || !lfc_tx_enabled_) return 0;
  const bool stop = fifo_over_watermark_;
  const bool due = stop != pause_announced_ || (stop && now_ns >= refresh_at_ns_);
  if (!due) return 0;
  const std::span<uint8_t> room = wire_->reserve(kPauseFrameBytes);
  if (room.size() < kPauseFrameBytes) return 0;  // the cable is busy; tried again at the next run
  std::fill_n(room.begin(), kPauseFrameBytes, uint8_t{0});
  std::copy(kPauseHeader.begin(), kPauseHeader.end(), room.begin());
  if (!stop) std::fill_n(room.begin() + kControlQuanta, 2, uint8_t{0});
  wire_->commit(kPauseFrameBytes);
  pause_announced_ = stop;
  const uint64_t refresh_ns = quanta_ns(kRefreshQuanta, tx_quanta_step_);
  refresh_at_ns_ = refresh_ns == kForever ? kForever : now_ns + refresh_ns;
  ++report_->pause_frames_sent;
  return 1;
}

void Port::reset() {
  rx_.fifo.clear();
  rx_.ahead.clear();
  watermark_ = default_watermark_;
  set_rx_enabled(false);
  tx_enabled_ = tx_pause_ = rx_pause_ = lfc_tx_enabled_ = lfc_rx_enabled_ = false;
  tx_quanta_step_ = rx_quanta_step_ = kDefaultQuantaStep;
  fifo_over_watermark_ = pause_announced_ = false;
  refresh_at_ns_ = paused_until_ns_ = 0;
  pfc_tx_enabled_.fill(false);
  pfc_rx_enabled_.fill(false);
  pfc_rx_requested_.fill(false);
}

}  // namespace mqnic::card
