// The copies that the card makes: short ones without a call, and one that sums up what it copies, so that the engine
// does not look at a frame a second time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mqnic::card {

template <size_t kBytes>
inline void copy_ends(uint8_t* to, const uint8_t* from, size_t bytes) {
  struct Part {
    uint8_t bytes[kBytes];
  };
  Part first, last;
  std::memcpy(&first, from, kBytes);
  std::memcpy(&last, from + bytes - kBytes, kBytes);
  std::memcpy(to, &first, kBytes);
  std::memcpy(to + bytes - kBytes, &last, kBytes);
}

inline void copy_bytes(uint8_t* to, const uint8_t* from, size_t bytes) {
  if (bytes == 16) {  // a descriptor
    std::memcpy(to, from, 16);
  } else if (bytes < 32 || bytes > 128) {
    std::memcpy(to, from, bytes);
  } else if (bytes <= 64) {
    copy_ends<32>(to, from, bytes);
  } else {
    copy_ends<64>(to, from, bytes);
  }
}

/// The sum of fewer than 16 bytes; `to` is nullptr when they are not to be copied.
inline uint64_t sum_tail(uint8_t* to, const uint8_t* from, size_t bytes) {
  uint64_t sum = 0;
  const auto take = [&]<typename Word>(Word word) {
    std::memcpy(&word, from, sizeof(word));
    if (to != nullptr) std::memcpy(to, &word, sizeof(word));
    from += sizeof(word);
    if (to != nullptr) to += sizeof(word);
    return uint64_t{word};
  };
  if ((bytes & 8) != 0) {
    const uint64_t words = take(uint64_t{});
    sum += (words & 0xffffffff) + (words >> 32);
  }
  if ((bytes & 4) != 0) sum += take(uint32_t{});
  uint64_t last = 0;
  if ((bytes & 2) != 0) last = take(uint16_t{});
  if ((bytes & 1) != 0) last |= take(uint8_t{}) << ((bytes & 2) * 8);
  return sum + last;
}

/// What the two functions below do; `to` is nullptr when nothing is to be copied.
inline uint64_t sum_and_perhaps_copy(uint8_t* to, const uint8_t* from, size_t bytes) {
  using Lanes = uint64_t __attribute__((vector_size(16)));
  Lanes low{}, high{};
  size_t i = 0;
  for (; i + sizeof(Lanes) <= bytes; i += sizeof(Lanes)) {
    Lanes words;
    std::memcpy(&words, from + i, sizeof(words));
    if (to != nullptr) std::memcpy(to + i, &words, sizeof(words));
    low += words & 0xffffffff;
    high += words >> 32;
  }
  low += high;
  const uint64_t sum = low[0] + low[1];
  return i == bytes ? sum : sum + sum_tail(to == nullptr ? nullptr : to + i, from + i, bytes - i);
}

/// The sum of the bytes as words of 32 bits in the host's order, the last one filled with zeros.
inline uint64_t sum_words(const uint8_t* from, size_t bytes) { return sum_and_perhaps_copy(nullptr, from, bytes); }

/// Copies, and returns the same sum.
inline uint64_t copy_and_sum_short(uint8_t* to, const uint8_t* from, size_t bytes) {
  return sum_and_perhaps_copy(to, from, bytes);
}
uint64_t copy_and_sum_long(uint8_t* to, const uint8_t* from, size_t bytes);
inline uint64_t copy_and_sum(uint8_t* to, const uint8_t* from, size_t bytes) {
  constexpr size_t kLong = 256;  // from this size on, the wide registers pay off
  return bytes < kLong ? copy_and_sum_short(to, from, bytes) : copy_and_sum_long(to, from, bytes);
}

/// Turns a sum of words in the host's byte order into the one's complement sum of the same bytes (checksum.h), by
/// swapping the bytes of the sum (RFC 1071).
inline uint16_t network_sum(uint64_t sum) {
  sum = (sum >> 32) + (sum & 0xffffffff);  // below 2^32 + 2^16 for frames, so that two steps are enough from here on
  uint32_t folded = static_cast<uint32_t>(sum >> 16) + static_cast<uint32_t>(sum & 0xffff);
  folded = (folded >> 16) + (folded & 0xffff);
  return __builtin_bswap16(static_cast<uint16_t>(folded));
}

}  // namespace mqnic::card
