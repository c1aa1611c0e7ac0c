#include "identity.h"

#include <bit>
#include <cstring>

namespace uroce::verbs {

__be64 guid_of(const MacAddress& mac) {
  const IpAddress link_local = link_local_of(mac);
  __be64 guid;
  std::memcpy(&guid, link_local.bytes.data() + 8, sizeof guid);
  return guid;
}

const LinkRate& link_rate(uint64_t mbps) {
  // The slowest rate that is not slower than the port is used. Width 1 means 1X, 2 means 4X.
  static constexpr LinkRate kRates[] = {
      {2500, 1, 1, "2.5 Gb/sec (1X SDR)"},     {5000, 1, 2, "5 Gb/sec (1X DDR)"},
      {10000, 1, 4, "10 Gb/sec (1X QDR)"},     {25000, 1, 32, "25 Gb/sec (1X EDR)"},
      {40000, 2, 4, "40 Gb/sec (4X QDR)"},     {50000, 1, 64, "50 Gb/sec (1X HDR)"},
      {100000, 2, 32, "100 Gb/sec (4X EDR)"},  {200000, 2, 64, "200 Gb/sec (4X HDR)"},
      {400000, 2, 128, "400 Gb/sec (4X NDR)"},
  };
  for (const LinkRate& rate : kRates) {
    if (mbps <= rate.mbps) return rate;
  }
  return kRates[std::size(kRates) - 1];
}

ibv_mtu mtu_to_verbs(uint32_t bytes) {
  const uint32_t power = std::bit_floor(bytes < 256 ? 256u : bytes > 4096 ? 4096u : bytes);
  return static_cast<ibv_mtu>(std::countr_zero(power) - 7);
}

}  // namespace uroce::verbs
