// The options that the library's devices and endpoints have in common.
#pragma once

#include <string>
#include <vector>

#include "congestion/config.h"
#include "uroce/address.h"

namespace uroce::rdma {

// These return false, with one line in `error`, when an option is not possible.
bool check_addresses(const std::vector<LocalAddress>& addresses, std::string& error);
bool check_mtu(uint32_t mtu, std::string& error);

/// An `algorithm` of "" is none. Returns false, with one line in `error`, when a name or a value is unknown.
bool congestion_from(const std::string& algorithm, const std::vector<std::string>& parameters, CongestionConfig& config,
                     std::string& error);

}  // namespace uroce::rdma
