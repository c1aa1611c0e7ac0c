// How large things may be, for the library and for the verbs device alike. What is larger is not made.
#pragma once

#include <cstdint>

namespace uroce {

inline constexpr uint32_t kMaxSges = 32;             // of a work request
inline constexpr uint32_t kMaxQueueEntries = 32768;  // of a send, receive or shared receive queue
inline constexpr uint32_t kMaxInlineBytes = 1024;    // of a send
inline constexpr uint32_t kMaxCqEntries = (1u << 20) - 1;

}  // namespace uroce
