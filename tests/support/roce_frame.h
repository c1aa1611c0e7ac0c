// Builds whole RoCEv2 frames from their parts, right or wrong as a test wants them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "packet/crc32.h"
#include "packet/headers.h"
#include "packet/icrc.h"
#include "packet/route_header.h"
#include "uroce/address.h"

namespace uroce::test {

using Bytes = std::vector<uint8_t>;

inline Route ipv4_path() {
  Route spec;
  spec.src_mac = {{0x52, 0x54, 0, 0, 0, 1}};
  spec.dst_mac = {{0x52, 0x54, 0, 0, 0, 2}};
  spec.src_ip = IpAddress::v4(0x0a000001);
  spec.dst_ip = IpAddress::v4(0x0a000002);
  spec.udp_src_port = 0xC123;
  return spec;
}

inline Route ipv6_path() {
  Route spec = ipv4_path();
  spec.src_ip = IpAddress{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  spec.dst_ip = IpAddress{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
  return spec;
}

inline Route on_vlan(Route spec, uint16_t vlan_id) {
  spec.vlan_id = vlan_id;
  return spec;
}

template <typename Header>
void append(Bytes& bytes, const Header& header) {
  uint8_t encoded[Header::kBytes];
  header.encode(encoded);
  for (const uint8_t b : encoded) bytes.push_back(b);
}

/// A frame whose UDP payload is `body` (the BTH and all behind it) and the right iCRC.
inline Bytes frame_of(const Route& spec, const Bytes& body) {
  const RouteHeader path(spec);
  Bytes frame(path.bytes() + body.size() + kIcrcBytes);
  path.write(frame.data(), static_cast<uint32_t>(body.size()) + kIcrcBytes);
  std::copy(body.begin(), body.end(), frame.begin() + path.bytes());
  if (body.size() < Bth::kBytes) return frame;
  uint32_t state = icrc_begin(frame.data() + path.l3_offset(), path.ipv6());
  state = crc32_update(state, body.data() + Bth::kBytes, body.size() - Bth::kBytes);
  icrc_store(frame.data() + path.bytes() + body.size(), state);
  return frame;
}

/// `extension`: the encoded extension headers. Pad count and padding follow from the payload's length.
inline Bytes frame_of(const Route& spec, Bth bth, const Bytes& extension, const Bytes& payload) {
  bth.pad_count = static_cast<uint8_t>((4 - payload.size() % 4) % 4);
  Bytes body;
  append(body, bth);
  body.insert(body.end(), extension.begin(), extension.end());
  body.insert(body.end(), payload.begin(), payload.end());
  body.insert(body.end(), bth.pad_count, 0);
  return frame_of(spec, body);
}

}  // namespace uroce::test
