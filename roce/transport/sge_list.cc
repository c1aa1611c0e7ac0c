#include "transport/sge_list.h"

#include <algorithm>

#include "base/check.h"
#include "base/guarded_memory.h"

namespace uroce {

namespace {

constexpr uint32_t kZerosMax = 4096;  // the largest payload of a packet

void lead_to_nothing(Piece& piece, uint32_t rights) {
  static const uint8_t zeros[kZerosMax] = {};
  ensure(piece.bytes <= kZerosMax, "a packet's piece is no longer than a packet");
  piece.memory = const_cast<uint8_t*>(zeros);
  piece.drops = rights != 0;
}

}  // namespace

AccessCheck resolve(const MemoryTable& memory, PdId pd, std::span<const Sge> sges, uint64_t offset, uint32_t bytes,
                    uint32_t rights, PieceList& out, Extent extent) {
  out.count = 0;
  for (const Sge& sge : sges) {
    if (bytes == 0) break;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    Piece& piece = out.pieces[out.count++];
    piece.bytes = static_cast<uint32_t>(std::min<uint64_t>(sge.length - offset, bytes));
    const uint64_t reach = extent == Extent::kElement ? sge.length : offset + piece.bytes;
    uint8_t* start = nullptr;
    const AccessCheck check = memory.check(sge.lkey, pd, sge.addr, reach, rights, 0, start);
    if (check == AccessCheck::kNull) {
      lead_to_nothing(piece, rights);
    } else if (check == AccessCheck::kOk) {
      piece.memory = start + offset;
      piece.drops = false;
    } else {
      return check;
    }
    bytes -= piece.bytes;
    offset = 0;
  }
  return AccessCheck::kOk;
}

bool scatter(const PieceList& pieces, const uint8_t* data, uint32_t bytes) {
  for (const Piece& piece : pieces) {
    const uint32_t n = std::min(piece.bytes, bytes);
    if (!piece.drops && !try_copy(piece.memory, data, n)) return false;
    data += n;
    bytes -= n;
  }
  return true;
}

}  // namespace uroce
