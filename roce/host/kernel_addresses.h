// The addresses of the machine's interfaces, as the kernel has them.
#pragma once

#include <vector>

#include "uroce/address.h"

namespace uroce {

/// `index`: of the interface. Labels of addresses ("eth0:1"), which are all that getifaddrs(3) tells, play no part.
std::vector<LocalAddress> kernel_addresses(int index);

}  // namespace uroce
