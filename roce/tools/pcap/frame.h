// One frame of a capture file, as a view into the file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "uroce/time.h"

namespace uroce::pcap {

/// The link types that `network_layer` reads, by their numbers in capture files. A frame may also have any other
/// number.
enum class LinkType : uint16_t {
  kEthernet = 1,
  kRawIp = 101,
  kLinuxSll = 113,
  kIpv4 = 228,
  kIpv6 = 229,
  kLinuxSll2 = 276,
};

enum class FrameDirection : uint8_t { kUnknown, kReceived, kSent };

struct Frame {
  uint64_t number = 0;             // from 1, as other tools count
  Instant time{};                  // since 1970
  bool has_time = false;           // pcapng's simple packets have none
  std::span<const uint8_t> bytes;  // what was captured, from the link-layer header on
  uint32_t original_bytes = 0;     // what was on the wire: more than captured when the capture cut frames short
  LinkType link = LinkType::kEthernet;
  uint32_t interface = 0;  // its number in the section (pcapng)
  /// As seen from the host that captured, according to pcapng's packet flags or Linux' cooked header.
  FrameDirection direction = FrameDirection::kUnknown;
  uint64_t file_offset = 0;  // of the record's header
};

/// The part of a frame above the link layer.
struct NetworkLayer {
  uint16_t ethertype = 0;
  uint16_t vlan_id = 0;            // that of the innermost tag; 0: untagged
  uint32_t link_bytes = 0;         // length of the link-layer header, before `bytes`
  std::span<const uint8_t> bytes;  // to the end of the captured frame, including link-layer padding
};

/// Returns nothing when the link type is not known, or the frame is shorter than its link-layer header.
std::optional<NetworkLayer> network_layer(const Frame& frame);

}  // namespace uroce::pcap
