// The CRC implementations by name. Only crc32.cc and the kernels themselves include this; everybody else uses crc32.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::crc {

uint32_t table_update(uint32_t state, const void* data, size_t bytes);
uint32_t table_copy(uint32_t state, void* dst, const void* src, size_t bytes);

}  // namespace uroce::crc
