#include "cm/cma_header.h"

#include <cstring>

#include "base/big_endian.h"

namespace uroce::cm {

namespace {

constexpr uint8_t kVersion = 0;

bool decode_address(const uint8_t* p, bool v4, IpAddress& ip) {
  if (!v4) {
    std::memcpy(ip.bytes.data(), p, 16);
    return true;
  }
  for (unsigned i = 0; i < 12; i++) {
    if (p[i] != 0) return false;
  }
  ip = IpAddress::v4(load_be32(p + 12));
  return true;
}

void encode_address(uint8_t* p, const IpAddress& ip) {
  if (ip.is_v4()) {
    store_be32(p + 12, ip.v4_host_order());
  } else {
    std::memcpy(p, ip.bytes.data(), 16);
  }
}

}  // namespace

std::optional<CmaHeader> decode_cma_header(std::span<const uint8_t> data) {
  if (data.size() < kCmaHeaderBytes || data[0] != kVersion) return std::nullopt;
  const uint8_t ip_version = data[1] >> 4;
  if (ip_version != 4 && ip_version != 6) return std::nullopt;
  CmaHeader header;
  header.src_port = load_be16(&data[2]);
  const bool v4 = ip_version == 4;
  if (!decode_address(&data[4], v4, header.src) || !decode_address(&data[20], v4, header.dst)) return std::nullopt;
  return header;
}

PrivateData with_cma_header(const CmaHeader& header, const PrivateData& rest) {
  PrivateData data;
  data.bytes[0] = kVersion;
  data.bytes[1] = header.dst.is_v4() ? 0x40 : 0x60;
  store_be16(&data.bytes[2], header.src_port);
  encode_address(&data.bytes[4], header.src);
  encode_address(&data.bytes[20], header.dst);
  data.length = static_cast<uint16_t>(kCmaHeaderBytes + rest.length);
  std::memcpy(&data.bytes[kCmaHeaderBytes], rest.bytes.data(), rest.length);
  return data;
}

PrivateData behind_cma_header(const PrivateData& private_data) {
  return PrivateData(private_data.view().subspan(kCmaHeaderBytes));
}

}  // namespace uroce::cm
