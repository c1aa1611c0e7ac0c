// How many packets a message takes, or a READ's responses.
#pragma once

#include <cstdint>

namespace uroce {

/// An empty message takes one packet, too.
constexpr uint32_t packets_of(uint32_t bytes, uint32_t mtu) { return bytes == 0 ? 1 : (bytes - 1) / mtu + 1; }

}  // namespace uroce
