// The addresses of the machine's interfaces, as the kernel has them.
#pragma once

#include <optional>
#include <vector>

#include "uroce/address.h"

namespace uroce {

/// `index`: of the interface; 0: of all. An address that another host was found to have (dadfailed) is none. Labels of
/// addresses ("eth0:1"), which are all that getifaddrs(3) tells, play no part. Nothing, when errno says why the kernel
/// could not be asked.
std::optional<std::vector<LocalAddress>> kernel_addresses(int index);

}  // namespace uroce
