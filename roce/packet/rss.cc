#include "packet/rss.h"

#include "base/big_endian.h"

namespace uroce {

uint32_t toeplitz(const RssKey& key, std::span<const uint8_t> input) {
  uint32_t hash = 0;
  uint32_t window = load_be32(key.data());  // 32 bits of the key, from the bit of the input on
  size_t next = 4;
  for (const uint8_t byte : input) {
    const uint8_t more = next < key.size() ? key[next] : uint8_t{0};
    next++;
    for (int bit = 7; bit >= 0; bit--) {
      if ((byte >> bit & 1) != 0) hash ^= window;
      window = window << 1 | (more >> bit & 1u);
    }
  }
  return hash;
}

uint32_t rss_hash(const RssKey& key, uint32_t fields, const FlowKey& frame) {
  std::array<uint8_t, 36> input;
  size_t bytes = 0;
  const auto take = [&](bool wanted, const uint8_t* field, size_t size) {
    if (!wanted) return;
    std::memcpy(&input[bytes], field, size);
    bytes += size;
  };
  const bool v4 = frame.has(kFlowIpv4), v6 = frame.has(kFlowIpv6), tcp = frame.has(kFlowTcp), udp = frame.has(kFlowUdp);
  const auto asked = [fields](RssField field) { return (fields & field) != 0; };
  const size_t address = v4 ? 4 : 16;
  take((v4 && asked(kRssSrcIpv4)) || (v6 && asked(kRssSrcIpv6)), frame.src_ip, address);
  take((v4 && asked(kRssDstIpv4)) || (v6 && asked(kRssDstIpv6)), frame.dst_ip, address);
  take((tcp && asked(kRssSrcPortTcp)) || (udp && asked(kRssSrcPortUdp)), frame.src_port, 2);
  take((tcp && asked(kRssDstPortTcp)) || (udp && asked(kRssDstPortUdp)), frame.dst_port, 2);
  return toeplitz(key, {input.data(), bytes});
}

}  // namespace uroce
