// How large objects may be, both in the library and in the verbs device. Larger ones are refused.
#pragma once

#include <cstdint>

namespace uroce {

inline constexpr uint32_t kMaxSges = 32;             // per work request
inline constexpr uint32_t kMaxQueueEntries = 32768;  // of a send, receive or shared receive queue
inline constexpr uint32_t kMaxInlineBytes = 1024;    // per send
inline constexpr uint32_t kMaxCqEntries = (1u << 20) - 1;

}  // namespace uroce
