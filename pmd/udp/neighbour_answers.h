// Answers to ARP and neighbour discovery, for hosts that the kernel reaches: it has neighbours, routes and MACs of its
// own, which whoever uses the port needs not know.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "uroce/address.h"

namespace uroce::udp {

/// Enough for an answer.
inline constexpr uint32_t kAnswerBytes = 128;

/// What an ARP or neighbour discovery frame says and asks.
struct NeighbourFrame {
  std::optional<IpAddress> sender;  // says that it has this address
  std::optional<IpAddress> wanted;  // asks who has that one
};

/// Nothing for other frames.
std::optional<NeighbourFrame> read_neighbour_frame(std::span<const uint8_t> frame);

/// The answer to `question`, a frame whose `wanted` is `ip`: the host has mac_of(ip). Returns its length; 0 when there
/// is none.
uint32_t write_neighbour_answer(std::span<uint8_t> out, std::span<const uint8_t> question, const IpAddress& ip);

}  // namespace uroce::udp
