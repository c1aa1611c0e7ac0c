// The device's names and numbers, which are derived from the endpoint.
#pragma once

#include <cstdint>
#include <vector>

#include "dpdk/endpoint.h"
#include "shim.h"
#include "uroce/address.h"

namespace uroce::verbs {

/// The node GUID, of an identity's `guid_mac`: the MAC as EUI-64, in network order as in verbs.
__be64 guid_of(const MacAddress& mac);

/// How an Ethernet speed is expressed in InfiniBand's terms.
struct LinkRate {
  uint64_t mbps;
  uint8_t active_width;
  uint8_t active_speed;
  const char* text;  // the text in sysfs
};
const LinkRate& link_rate(uint64_t mbps);

ibv_mtu mtu_to_verbs(uint32_t bytes);
inline uint32_t mtu_from_verbs(ibv_mtu mtu) { return 128u << mtu; }

}  // namespace uroce::verbs
