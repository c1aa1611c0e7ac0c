// File descriptors that an endpoint will need. DPDK does not say when it got none: the peer just never answers.
#pragma once

#include <string>

namespace uroce {

/// EAL, a port and a peer on shared memory take 16; a program's channels come on top.
inline constexpr int kDescriptorsNeeded = 20;

/// False and one clear line in `error` when fewer than kDescriptorsNeeded can be opened.
bool enough_descriptors(std::string& error);

}  // namespace uroce
