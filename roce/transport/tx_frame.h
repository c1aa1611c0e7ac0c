// Room for one frame to send.
#pragma once

#include <cstdint>

namespace uroce {

/// Whoever lent it owns the buffer; whoever fills it sets `bytes`.
struct TxFrame {
  uint8_t* data = nullptr;
  uint32_t capacity = 0;
  uint32_t bytes = 0;     // 0: not used, the lender takes the buffer back
  void* token = nullptr;  // the lender's own
};

}  // namespace uroce
