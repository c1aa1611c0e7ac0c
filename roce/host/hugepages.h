// Says whether this process can have hugepages.
#pragma once

#include <cstdint>

namespace uroce {

/// What DPDK needs for an endpoint.
inline constexpr uint64_t kEalMemoryBytes = 64ull << 20;

/// True when `bytes` of free hugepages can be had by this process.
bool hugepages_usable(uint64_t bytes);

}  // namespace uroce
