// From scatter/gather elements to memory, checked.
#pragma once

#include <cstdint>
#include <span>

#include "transport/memory_table.h"
#include "uroce/limits.h"
#include "uroce/work_request.h"

namespace uroce {

struct Piece {
  uint8_t* memory = nullptr;
  uint32_t bytes = 0;
};

struct PieceList {
  Piece pieces[kMaxSges];
  uint32_t count = 0;
  const Piece* begin() const { return pieces; }
  const Piece* end() const { return pieces + count; }
};

/// Finds where bytes [offset, offset + bytes) of the message that `sges` describe lie in this process, with the right
/// `rights` (0: read). The elements must cover them. Elements of length 0 are not looked at.
AccessCheck resolve(const MemoryTable& memory, PdId pd, std::span<const Sge> sges, uint64_t offset, uint32_t bytes,
                    uint32_t rights, PieceList& out);

/// Copies into the pieces; together they have at least `bytes`. False: the memory of one went away.
[[nodiscard]] bool scatter(const PieceList& pieces, const uint8_t* data, uint32_t bytes);

}  // namespace uroce
