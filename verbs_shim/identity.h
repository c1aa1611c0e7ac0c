// The device's names and numbers as they follow from the endpoint.
#pragma once

#include <cstdint>
#include <vector>

#include "dpdk/endpoint.h"
#include "shim.h"
#include "uroce/address.h"

namespace uroce::verbs {

/// Node GUID: the MAC as EUI-64. In network order, as verbs hands it out.
__be64 guid_of(const MacAddress& mac);

/// How Ethernet speeds are said in InfiniBand's words.
struct LinkRate {
  uint64_t mbps;
  uint8_t active_width;
  uint8_t active_speed;
  const char* text;  // as sysfs says it
};
const LinkRate& link_rate(uint64_t mbps);

ibv_mtu mtu_to_verbs(uint32_t bytes);
inline uint32_t mtu_from_verbs(ibv_mtu mtu) { return 128u << mtu; }

}  // namespace uroce::verbs
