// The text form of rates, bytes and ECN thresholds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fabric/switch_config.h"

namespace uroce::fabric {

/// Reads bits per second such as "1G", "2.5G", "500M" or "9600". Nothing when it is no number from 1000 upwards.
std::optional<uint64_t> parse_rate(const std::string& text);
/// Reads bytes such as "100K", "1.5M" or "4096".
std::optional<uint64_t> parse_bytes(const std::string& text);
/// Reads "kmin=BYTES,kmax=BYTES,pmax=0..1" (any of these), or "on". Returns an empty string, or what is wrong.
std::string parse_ecn(const std::string& text, std::optional<EcnConfig>& ecn);

}  // namespace uroce::fabric
