// Checks that there are enough file descriptors for an endpoint. DPDK does not report when it got none; then the peer
// merely never answers.
#pragma once

#include <cerrno>

#include <string>

namespace uroce {

/// EAL, a port and a peer on shared memory take 16; the program's completion channels need further ones.
inline constexpr int kDescriptorsNeeded = 20;

/// Returns false, with one line in `error`, when fewer than kDescriptorsNeeded can be opened.
bool enough_descriptors(std::string& error);

/// Whether a call failed for want of descriptors or memory, so that it says nothing about what was asked.
inline bool could_not_ask(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

}  // namespace uroce
