// Why a host does not answer, as far as a datagram to UDP port 4791 and the kernel can tell.
#pragma once

#include <string>

#include "question.h"

namespace uroce::ping {

/// One line, for a host that has not answered. Sends a datagram that no RoCE device takes, and waits a second for what
/// the network says of it. By the kernel's own socket, so it says nothing of ports that the kernel does not have.
std::string why_silent(Address host);

}  // namespace uroce::ping
