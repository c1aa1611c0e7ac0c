#include "api/options.h"

#include "congestion/algorithms.h"
#include "congestion/parameters.h"
#include "engine/address_table.h"
#include "engine/engine.h"
#include "host/endpoint_options.h"

namespace uroce::rdma {

bool check_addresses(const std::vector<LocalAddress>& addresses, std::string& error) {
  constexpr uint32_t kMost = uroce::AddressTable::kGidsMax - 1;  // GID 0 is the link-local address
  if (addresses.size() > kMost) {
    error = "there may be at most " + std::to_string(kMost) + " addresses";
    return false;
  }
  for (const LocalAddress& address : addresses) {
    const bool good = address.prefix_bits <= (address.ip.is_v4() ? 32 : 128) && address.vlan_id <= 4094;
    if (good) continue;
    error = "address " + to_string(address.ip) + ": a prefix is at most 32 (IPv4) or 128 (IPv6), a VLAN at most 4094";
    return false;
  }
  return true;
}

bool check_mtu(uint32_t mtu, std::string& error) {
  if (mtu == 0 || (mtu >= kMtuMin && mtu <= kMtuMax)) return true;
  error = "mtu must be 0 (the port's own) or " + std::to_string(kMtuMin) + " .. " + std::to_string(kMtuMax);
  return false;
}

bool congestion_from(const std::string& algorithm, const std::vector<std::string>& parameters, CongestionConfig& config,
                     std::string& error) {
  if (!algorithm.empty() && !parse_congestion_algorithm(algorithm, config.algorithm)) {
    error = "congestion \"" + algorithm + "\": must be " + congestion_algorithm_names(" or ");
    return false;
  }
  for (const std::string& assignment : parameters) {
    if (!set_congestion_parameter(config, assignment, error)) return false;
  }
  return true;
}

}  // namespace uroce::rdma
