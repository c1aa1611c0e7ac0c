// One frame of a capture file, as a view into the file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "uroce/time.h"

namespace uroce::capture {

/// The link types that `network_layer` reads, by their numbers in the files. Any other number may stand in a frame.
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
  uint32_t interface = 0;  // of the section, in pcapng
  /// Seen from the host that captured: what pcapng's packet flags or Linux' cooked header say.
  FrameDirection direction = FrameDirection::kUnknown;
  uint64_t file_offset = 0;  // of the record's header
};

/// What lies above the link layer.
struct NetworkLayer {
  uint16_t ethertype = 0;
  uint16_t vlan_id = 0;            // of the innermost tag; 0: untagged
  uint32_t link_bytes = 0;         // in front of `bytes`, within the frame
  std::span<const uint8_t> bytes;  // to the end of the captured frame: link-layer padding included
};

/// Nothing when the link type is not known, or the frame is shorter than its link-layer header.
std::optional<NetworkLayer> network_layer(const Frame& frame);

}  // namespace uroce::capture
