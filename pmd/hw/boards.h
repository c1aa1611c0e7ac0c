// The boards that Corundum is built for, by the number that is also the PCI subsystem ID.
#pragma once

#include <cstdint>

namespace mqnic {

/// nullptr for a board that is not known here, which is no reason to refuse it.
const char* board_name(uint32_t board_id);

}  // namespace mqnic
