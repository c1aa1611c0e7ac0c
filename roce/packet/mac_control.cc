#include "packet/mac_control.h"

#include <algorithm>
#include <cstring>

#include "base/big_endian.h"

namespace uroce {
namespace {

constexpr uint16_t kOpcodePause = 0x0001;
constexpr uint16_t kOpcodePriorityPause = 0x0101;
constexpr uint32_t kEthertypeAt = 12;
constexpr uint32_t kOpcodeAt = 14;
constexpr uint32_t kPauseQuantaAt = 16;
constexpr uint32_t kEnableVectorAt = 16;
constexpr uint32_t kPriorityQuantaAt = 18;
constexpr uint64_t kQuantumBits = 512;

}  // namespace

bool is_mac_control(std::span<const uint8_t> frame) {
  return frame.size() >= kOpcodeAt && load_be16(frame.data() + kEthertypeAt) == kEtherMacControl;
}

std::optional<Pause> decode_pause(std::span<const uint8_t> frame) {
  if (!is_mac_control(frame) || frame.size() < kPauseQuantaAt + 2) return std::nullopt;
  if (std::memcmp(frame.data(), kPauseMac.bytes.data(), 6) != 0) return std::nullopt;
  Pause pause;
  std::memcpy(pause.src_mac.bytes.data(), frame.data() + 6, 6);
  const uint16_t opcode = load_be16(frame.data() + kOpcodeAt);
  if (opcode == kOpcodePause) {
    pause.per_priority = false;
    pause.priorities = 0xff;
    pause.quanta.fill(load_be16(frame.data() + kPauseQuantaAt));
    return pause;
  }
  if (opcode != kOpcodePriorityPause || frame.size() < kPriorityQuantaAt + 2 * kPriorities) return std::nullopt;
  pause.priorities = frame[kEnableVectorAt + 1];  // the vector's upper octet is reserved: ignored
  for (unsigned i = 0; i < kPriorities; i++) pause.quanta[i] = load_be16(frame.data() + kPriorityQuantaAt + 2 * i);
  return pause;
}

uint32_t encode_pause(std::span<uint8_t> out, const Pause& pause) {
  if (out.size() < kPauseFrameBytes) return 0;
  uint8_t* p = out.data();
  std::memset(p, 0, kPauseFrameBytes);
  std::memcpy(p, kPauseMac.bytes.data(), 6);
  std::memcpy(p + 6, pause.src_mac.bytes.data(), 6);
  store_be16(p + kEthertypeAt, kEtherMacControl);
  if (!pause.per_priority) {
    store_be16(p + kOpcodeAt, kOpcodePause);
    store_be16(p + kPauseQuantaAt, pause.quanta[0]);
    return kPauseFrameBytes;
  }
  store_be16(p + kOpcodeAt, kOpcodePriorityPause);
  store_be16(p + kEnableVectorAt, pause.priorities);
  for (unsigned i = 0; i < kPriorities; i++) {
    if ((pause.priorities & priority_bit(i)) != 0) store_be16(p + kPriorityQuantaAt + 2 * i, pause.quanta[i]);
  }
  return kPauseFrameBytes;
}

Duration pause_time(uint16_t quanta, uint64_t bits_per_second) {
  if (bits_per_second == 0) return {};
  const uint64_t bits_ns = uint64_t{quanta} * kQuantumBits * 1'000'000'000;
  return nanoseconds(static_cast<int64_t>((bits_ns + bits_per_second - 1) / bits_per_second));
}

void PauseClock::on_pause(const Pause& pause, uint64_t bits_per_second, Instant now) {
  for (unsigned i = 0; i < kPriorities; i++) {
    const uint8_t bit = priority_bit(i);
    if ((pause.priorities & bit) == 0) continue;
    until_[i] = now + pause_time(pause.quanta[i], bits_per_second);
    mask_ = static_cast<uint8_t>(mask_ | bit);
  }
  expire(now);
}

void PauseClock::expire(Instant now) {
  next_ = Instant::never();
  for (unsigned i = 0; i < kPriorities; i++) {
    const uint8_t bit = priority_bit(i);
    if ((mask_ & bit) == 0) continue;
    if (until_[i] <= now) {
      mask_ = static_cast<uint8_t>(mask_ & ~bit);
    } else {
      next_ = std::min(next_, until_[i]);
    }
  }
}

}  // namespace uroce
