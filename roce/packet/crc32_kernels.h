// The CRC implementations by name. Only crc32.cc and the kernels themselves include this; everybody else uses crc32.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::crc {

uint32_t table_update(uint32_t state, const void* data, size_t bytes);
uint32_t table_copy(uint32_t state, void* dst, const void* src, size_t bytes);
uint32_t table_header(const uint8_t* l3, bool ipv6);

// Only on CPUs with PCLMULQDQ and SSE4.1.
uint32_t pclmul_update(uint32_t state, const void* data, size_t bytes);
uint32_t pclmul_copy(uint32_t state, void* dst, const void* src, size_t bytes);
uint32_t pclmul_header(const uint8_t* l3, bool ipv6);

// Only on CPUs with VPCLMULQDQ and AVX2.
uint32_t vpclmul_update(uint32_t state, const void* data, size_t bytes);
uint32_t vpclmul_copy(uint32_t state, void* dst, const void* src, size_t bytes);
uint32_t vpclmul_header(const uint8_t* l3, bool ipv6);

// Only on CPUs with VPCLMULQDQ and AVX-512 F, VL, BW and VBMI2.
uint32_t vpclmul512_update(uint32_t state, const void* data, size_t bytes);
uint32_t vpclmul512_copy(uint32_t state, void* dst, const void* src, size_t bytes);
uint32_t vpclmul512_header(const uint8_t* l3, bool ipv6);

}  // namespace uroce::crc
