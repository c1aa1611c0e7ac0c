// Numbers of the pcapng format (draft-ietf-opsawg-pcapng), for both its reader and its writer.
#pragma once

#include <cstdint>

namespace uroce::capture::pcapng {

inline constexpr uint32_t kSectionHeader = 0x0A0D0D0A;  // the same in both byte orders
inline constexpr uint32_t kByteOrderMagic = 0x1A2B3C4D;
inline constexpr uint32_t kInterfaceDescription = 1;
inline constexpr uint32_t kObsoletePacket = 2;
inline constexpr uint32_t kSimplePacket = 3;
inline constexpr uint32_t kInterfaceStatistics = 5;
inline constexpr uint32_t kEnhancedPacket = 6;

inline constexpr uint16_t kOptionEnd = 0;
inline constexpr uint16_t kOptionComment = 1;
inline constexpr uint16_t kSectionApplication = 4;
inline constexpr uint16_t kIfName = 2;
inline constexpr uint16_t kIfDescription = 3;
inline constexpr uint16_t kIfTimeResolution = 9;
inline constexpr uint16_t kIfTimeOffset = 14;
inline constexpr uint16_t kEpbFlags = 2;
inline constexpr uint16_t kIsbInterfaceReceived = 4;
inline constexpr uint16_t kIsbInterfaceDrop = 5;
inline constexpr uint16_t kIsbSystemDrop = 7;

/// Options and packets fill whole words.
constexpr uint64_t padded(uint64_t bytes) { return (bytes + 3) & ~uint64_t{3}; }

inline constexpr uint32_t kInbound = 1;  // of kEpbFlags
inline constexpr uint32_t kOutbound = 2;

}  // namespace uroce::capture::pcapng
