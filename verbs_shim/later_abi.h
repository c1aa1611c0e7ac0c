// Structures of rdma-core's releases 58 to 64, which the headers that we are built with need not have. The numbers and
// layouts are those that programs were compiled with.
#pragma once

#include <cstddef>
#include <cstdint>

struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_pd;

/// Opaque to programs.
struct ibv_buf {
  ibv_pd* pd;
  void* addr;
  size_t size;
};

struct ibv_mr_init_attr {
  size_t length;
  int access;
  uint64_t comp_mask;
  uint64_t iova;
  void* addr;
  int fd;
  uint64_t fd_offset;
  ibv_dmah* dmah;
  ibv_buf* buf;  // since release 64: only to be read with its bit
};

namespace uroce::verbs {

// ibv_mr_init_attr::comp_mask.
inline constexpr uint64_t kMrHasIova = 1 << 0;
inline constexpr uint64_t kMrHasAddr = 1 << 1;
inline constexpr uint64_t kMrHasFd = 1 << 2;
inline constexpr uint64_t kMrHasFdOffset = 1 << 3;
inline constexpr uint64_t kMrHasDmah = 1 << 4;
inline constexpr uint64_t kMrHasBuf = 1 << 5;

// ibv_parent_domain_init_attr::comp_mask, since release 63: memory for a confidential guest's bounce buffers.
inline constexpr uint32_t kDomainAllowsUnprotected = 1 << 2;

static_assert(offsetof(ibv_mr_init_attr, buf) == 64);

}  // namespace uroce::verbs
