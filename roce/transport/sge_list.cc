#include "transport/sge_list.h"

#include <algorithm>

#include "base/guarded_memory.h"

namespace uroce {

AccessCheck resolve(const MemoryTable& memory, PdId pd, std::span<const Sge> sges, uint64_t offset, uint32_t bytes,
                    uint32_t rights, PieceList& out) {
  out.count = 0;
  for (const Sge& sge : sges) {
    if (bytes == 0) break;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    Piece& piece = out.pieces[out.count++];
    piece.bytes = static_cast<uint32_t>(std::min<uint64_t>(sge.length - offset, bytes));
    // The whole element must lie in its region, not only the part used now.
    uint8_t* start = nullptr;
    const AccessCheck check = memory.check(sge.lkey, pd, sge.addr, sge.length, rights, 0, start);
    if (check != AccessCheck::kOk) return check;
    piece.memory = start + offset;
    bytes -= piece.bytes;
    offset = 0;
  }
  return AccessCheck::kOk;
}

bool scatter(const PieceList& pieces, const uint8_t* data, uint32_t bytes) {
  for (const Piece& piece : pieces) {
    const uint32_t n = std::min(piece.bytes, bytes);
    if (!try_copy(piece.memory, data, n)) return false;
    data += n;
    bytes -= n;
  }
  return true;
}

}  // namespace uroce
