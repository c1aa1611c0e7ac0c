// Where an engine that shares its addresses with other programs gets its queue pair numbers from.
//
// A packet says by its QPN alone which program it is for. So the 24 bits are divided into blocks of kQpnBlockSize
// consecutive numbers, and each block belongs to one engine. Block 0 and the last one are never given, so that no
// engine has 0, 1 and 0xFFFFFF.
#pragma once

#include <cstdint>
#include <optional>

namespace uroce {

inline constexpr uint32_t kQpnBlockBits = 12;
inline constexpr uint32_t kQpnBlockSize = 1u << kQpnBlockBits;
inline constexpr uint32_t kQpnBlocks = 1u << 12;
/// How many queue pairs have numbers of one block: several each, so that a number is not reused at once.
inline constexpr uint32_t kQpsPerBlock = 256;

class QpnBlocks {
 public:
  virtual ~QpnBlocks() = default;
  /// A block (1 .. kQpnBlocks-2) that belongs to this engine from now on; nothing when there is none left.
  virtual std::optional<uint32_t> take() = 0;
  /// Whether the block of this number belongs to another engine, as far as is known now.
  virtual bool another_has(uint32_t /*qpn*/) { return false; }
};

}  // namespace uroce
