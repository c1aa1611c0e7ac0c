// The addresses in the private data of a request (Annex A11): source and destination IP address and port.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cm/values.h"

namespace uroce::cm {

inline constexpr uint16_t kCmaHeaderBytes = 36;

struct CmaHeader {
  uint16_t src_port = 0;
  IpAddress src;
  IpAddress dst;
};

/// Nothing: another version, an unknown IP version, or reserved bytes that are not zero.
std::optional<CmaHeader> decode_cma_header(std::span<const uint8_t> private_data);
/// The header, and `rest` behind it.
PrivateData with_cma_header(const CmaHeader& header, const PrivateData& rest);
/// The private data behind the header.
PrivateData behind_cma_header(const PrivateData& private_data);

/// Service IDs by which port spaces are reached: the space, and the port in the lowest 16 bits.
inline constexpr uint64_t kServicePortMask = 0xffff;
inline constexpr uint64_t kServiceSpaceMask = ~kServicePortMask;
constexpr uint64_t service_id_of(PortSpace space, uint16_t port) {
  return (uint64_t{static_cast<uint16_t>(space)} << 16) | port;
}
/// Whether the ID is a port of a port space (so that the private data begins with the header).
constexpr bool is_port_service(uint64_t id) {
  const uint64_t space = id >> 16;
  return space == static_cast<uint16_t>(PortSpace::kTcp) || space == static_cast<uint16_t>(PortSpace::kUdp) ||
         space == static_cast<uint16_t>(PortSpace::kIb) || space == static_cast<uint16_t>(PortSpace::kIpoib);
}

}  // namespace uroce::cm
