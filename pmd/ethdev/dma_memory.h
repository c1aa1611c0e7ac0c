// Maps DPDK's memory for a card that is not behind DPDK's own VFIO code.
#pragma once

#include "pmd/hw/bus.h"

namespace mqnic::ethdev {

/// Maps all memory that DPDK has, and follows what it gets or gives back later. `owner` distinguishes several cards.
/// Returns 0 or a negative errno.
int follow_memory(void* owner, Bus& bus);
void stop_following_memory(void* owner);

}  // namespace mqnic::ethdev
