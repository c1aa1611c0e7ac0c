#include "fabric/switch_config.h"

#include <algorithm>

namespace uroce::fabric {
namespace {

/// From the arrival of a pause frame to the last bit of the frame after which the sender is silent: what IEEE 802.3
/// allows a 100 Gbit/s port, rounded up.
constexpr Duration kPauseResponse = nanoseconds(2100);

uint64_t scaled(uint32_t bytes, const EcnConfig& ecn, uint64_t bits_per_second) {
  if (ecn.per_bits_per_second == 0) return bytes;
  return static_cast<uint64_t>(static_cast<unsigned __int128>(bytes) * bits_per_second / ecn.per_bits_per_second);
}

std::string check_priorities(const PriorityConfigs& priorities) {
  for (unsigned i = 0; i < kPriorities; i++) {
    const EcnConfig& ecn = priorities[i].ecn;
    if (!ecn.enabled) continue;
    if (ecn.kmin_bytes > ecn.kmax_bytes) return "ECN of priority " + std::to_string(i) + ": kmin is above kmax";
    if (!(ecn.pmax >= 0 && ecn.pmax <= 1)) return "ECN of priority " + std::to_string(i) + ": pmax is not in 0..1";
  }
  return "";
}

std::string check_port(const SwitchConfig& config, const PortConfig& port) {
  if (port.bits_per_second == 0) return "a rate of 0";
  if (port.cable_delay.ns < 0) return "a negative cable delay";
  const PriorityConfigs& priorities = port.priorities ? *port.priorities : config.priorities;
  for (const PriorityConfig& priority : priorities) {
    if (ecn_kmax(priority.ecn, port.bits_per_second) > UINT32_MAX) return "ECN: kmax does not fit 32 bits";
  }
  return check_priorities(priorities);
}

}  // namespace

uint64_t ecn_kmin(const EcnConfig& ecn, uint64_t bits_per_second) {
  return scaled(ecn.kmin_bytes, ecn, bits_per_second);
}

uint64_t ecn_kmax(const EcnConfig& ecn, uint64_t bits_per_second) {
  return scaled(ecn.kmax_bytes, ecn, bits_per_second);
}

PriorityConfigs default_priorities() {
  PriorityConfigs priorities;
  priorities[6].weight = priorities[7].weight = 0;
  return priorities;
}

uint64_t headroom_of(const SwitchConfig& config, const PortConfig& port) {
  if (port.headroom_bytes != 0) return port.headroom_bytes;
  const Duration silence{2 * port.cable_delay.ns + kPauseResponse.ns};
  const auto under_way = static_cast<uint64_t>(static_cast<unsigned __int128>(port.bits_per_second) *
                                               static_cast<uint64_t>(silence.ns) / 8'000'000'000);
  // Three frames: the one that crossed the threshold, the one behind which the pause frame waits, and the one that the
  // neighbour had begun.
  return under_way + 3 * (uint64_t{config.max_frame_bytes} + kWireOverheadBytes) + kPauseFrameBytes;
}

std::string check_config(const SwitchConfig& config) {
  if (config.ports.empty()) return "no ports";
  if (config.ports.size() > UINT16_MAX) return "too many ports";
  if (!(config.pfc_alpha > 0 && config.pfc_alpha <= 1024)) return "pfc_alpha is not above 0 and up to 1024";
  if (!(config.lossy_alpha > 0 && config.lossy_alpha <= 1024)) return "lossy_alpha is not above 0 and up to 1024";
  if (config.buffer_bytes >= uint64_t{1} << 50) return "a buffer of more than 2^50 bytes";
  if (config.pause_quanta == 0) return "pause_quanta is 0";
  if (config.dwrr_quantum_bytes == 0) return "dwrr_quantum_bytes is 0";
  if (config.max_frames == 0 || config.max_frames >= UINT32_MAX) return "max_frames is out of range";
  if (config.max_frame_bytes < 60) return "max_frame_bytes is less than Ethernet's shortest frame";
  if (config.learned_macs > 1 << 24) return "learned_macs is above 2^24";
  const auto bad = [](uint8_t priority) { return priority >= kPriorities; };
  if (std::any_of(config.pcp_priority.begin(), config.pcp_priority.end(), bad)) return "pcp_priority above 7";
  if (std::any_of(config.dscp_priority.begin(), config.dscp_priority.end(), bad)) return "dscp_priority above 7";
  uint64_t set_aside = 0;
  for (size_t i = 0; i < config.ports.size(); i++) {
    const PortConfig& port = config.ports[i];
    const std::string why = check_port(config, port);
    if (!why.empty()) return "port " + std::to_string(i) + ": " + why;
    for (const PriorityConfig& priority : port.priorities ? *port.priorities : config.priorities) {
      if (priority.lossless) set_aside += headroom_of(config, port) + config.reserved_bytes;
    }
  }
  if (set_aside + config.max_frame_bytes > config.buffer_bytes) {
    return "the buffer of " + std::to_string(config.buffer_bytes) +
           " bytes is too small: headrooms and reserves take " + std::to_string(set_aside);
  }
  return "";
}

}  // namespace uroce::fabric
