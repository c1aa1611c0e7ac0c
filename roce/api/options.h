// What engines and endpoints of the library have in common among their options.
#pragma once

#include <string>
#include <vector>

#include "congestion/config.h"
#include "uroce/address.h"

namespace uroce::rdma {

// Each: false and one clear line in `error` when an option cannot be.
bool check_addresses(const std::vector<LocalAddress>& addresses, std::string& error);
bool check_mtu(uint32_t mtu, std::string& error);

/// "" is none. False and one clear line in `error` when a name or a value is unknown.
bool congestion_from(const std::string& algorithm, const std::vector<std::string>& parameters, CongestionConfig& config,
                     std::string& error);

}  // namespace uroce::rdma
