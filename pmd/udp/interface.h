// The kernel's interface below a port: whose link it has, and how much a packet may carry.
#pragma once

#include <string>

#include "host/netdev.h"
#include "pmd/udp/arguments.h"

namespace uroce::udp {

/// The interface that the arguments name, or that has their first address. Returns false, with one line in `error`,
/// when there is none.
bool find_interface(const Arguments& arguments, Netdev& out, std::string& error);

}  // namespace uroce::udp
