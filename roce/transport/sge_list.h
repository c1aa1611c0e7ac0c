// From scatter/gather elements to memory, checked.
#pragma once

#include <cstdint>
#include <span>

#include "transport/memory_table.h"
#include "uroce/limits.h"
#include "uroce/work_request.h"

namespace uroce {

struct Piece {
  uint8_t* memory;
  uint32_t bytes;
  bool drops;  // what is written to it is dropped
};

struct PieceList {
  Piece
      pieces[kMaxSges];  // the first `count`; the others are not cleared, which would take longer than a short message
  uint32_t count = 0;
  const Piece* begin() const { return pieces; }
  const Piece* end() const { return pieces + count; }
};

/// How much of an element has to lie in its region: all of it, or only up to the last byte that is asked for. A
/// requester uses all that it posted sooner or later, so no part of an element that reaches beyond is sent or filled. A
/// receive may be longer than its region as long as incoming messages are not: programs round up.
enum class Extent : uint8_t { kElement, kUsed };

/// Finds where bytes [offset, offset + bytes) of the message that `sges` describe lie in this process, with the right
/// `rights` (0: read). The elements must cover those bytes. Elements of length 0 are ignored. `bytes` is at most a
/// packet's: what is read from a null region comes from a page of zeros.
AccessCheck resolve(const MemoryTable& memory, PdId pd, std::span<const Sge> sges, uint64_t offset, uint32_t bytes,
                    uint32_t rights, PieceList& out, Extent extent = Extent::kElement);

/// Copies `bytes` into the pieces, which together have room for at least as many. False when the memory of one went
/// away.
[[nodiscard]] bool scatter(const PieceList& pieces, const uint8_t* data, uint32_t bytes);

}  // namespace uroce
