// How an engine reaches an address: what connection management asks of whoever owns the engine (cm::Services).
#pragma once

#include <cstdint>
#include <optional>

#include "cm/rdma_cm.h"
#include "engine/engine.h"

namespace uroce {

/// From the address that is `src`, or, if that is none, from the one on the destination's network. The most specific
/// network wins. Nothing: no address of ours leads there.
std::optional<cm::Way> find_way(Engine& engine, const IpAddress& src, const IpAddress& dst);
bool is_own(Engine& engine, const IpAddress& ip);
/// Asks for the MAC of the way's destination unless it is known.
cm::Services::Neighbour resolve(Engine& engine, const cm::Way& way, Instant now);
/// As a kernel makes it: of the MAC.
uint64_t node_guid(Engine& engine);

}  // namespace uroce
