// Structures and numbers of rdma-core's releases 45 to 64, which the headers that we are built with need not have. The
// numbers and layouts are those that programs were compiled with.
#pragma once

#include <cstddef>
#include <cstdint>

struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_pd;
struct ibv_qp_ex;

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

// Since release 45, which brought FLUSH: rdma-core's numbers under the names that it has for them.
inline constexpr int kAccessFlushGlobal = 1 << 8;
inline constexpr int kAccessFlushPersistent = 1 << 9;
inline constexpr uint64_t kDeviceFlushGlobal = uint64_t{1} << 38;
inline constexpr uint64_t kDeviceFlushPersistent = uint64_t{1} << 39;
inline constexpr uint64_t kDeviceAtomicWrite = uint64_t{1} << 40;
inline constexpr uint64_t kQpExWithFlush = 1 << 11;
inline constexpr uint32_t kOdpSupportFlush = 1 << 6;
inline constexpr uint32_t kOdpSupportAtomicWrite = 1 << 7;
inline constexpr int kWrFlush = 14;
inline constexpr int kWrAtomicWrite = 15;
inline constexpr int kWcFlush = 8;
inline constexpr int kWcAtomicWrite = 9;
/// ibv_qp_ex::wr_flush, the member that was appended to ibv_qp_ex of release 44.
using WrFlush = void (*)(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, size_t len, uint8_t type, uint8_t level);

// Commands, a query and events of rdma_user_cm.h since Linux 6.17.
inline constexpr uint32_t kUcmaResolveIbService = 23;
inline constexpr uint32_t kUcmaWriteCmEvent = 24;
inline constexpr uint32_t kUcmaQueryIbService = 3;
inline constexpr uint32_t kCmEventUser = 18;
inline constexpr uint32_t kCmEventInternal = 19;
struct UcmaResolveIbService {
  uint32_t id;
  uint32_t reserved;
  uint64_t service_id;
  uint8_t service_name[64];
  uint32_t flags;
  uint32_t reserved2;
};
/// Only the part that is used: parameters of other events follow it, and those events cannot be written.
struct UcmaWriteCmEvent {
  uint32_t id;
  uint32_t reserved;
  uint32_t event;
  uint32_t status;
  uint64_t argument;
};
/// The answer's head; the service's records would follow.
struct UcmaIbServices {
  uint32_t count;
  uint32_t reserved;
};

static_assert(offsetof(ibv_mr_init_attr, buf) == 64);
static_assert(sizeof(UcmaResolveIbService) == 88 && sizeof(UcmaWriteCmEvent) == 24);

}  // namespace uroce::verbs
